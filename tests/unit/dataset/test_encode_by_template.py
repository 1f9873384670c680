"""`--chat-template`: rows by a template of somebody else become the dataset a profile would make."""

import json
from pathlib import Path

import pytest
from plain_encoding import digests, encode
from test_encode_modes import conversation, preference, write_rows

import tokenmill as tm
from tokenmill import chat
from tokenmill.errors import ConfigError, SourceError, TokenmillError

SHOUTS = (
    "{% for m in messages %}{% generation %}{{ m.content | upper }}{% endgeneration %}{% endfor %}"
)
FAILS_AT_LAZY = """{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}
{%- if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}"""


def ids_and_masks(out: Path) -> dict[str, str]:
    """What a dataset holds, its tokenizer and manifest apart."""
    return {name: digest for name, digest in digests(out).items() if name.endswith(".npy")}


@pytest.mark.parametrize("mode", ["sft", "preference"])
@pytest.mark.parametrize("threads", [1, 3])
def test_the_template_on_board_gives_what_its_profile_gives(
    tmp_path: Path, tokenizer: tm.Tokenizer, mode: str, threads: int
) -> None:
    prepared = chat.prepare_tokenizer(tokenizer, "chat")
    make = conversation if mode == "sft" else preference
    file = write_rows(tmp_path / "a.jsonl", [make(number) for number in range(1, 90)])
    keywords = {"mode": mode, "val_fraction": 0.2, "unit_bytes": 3000, "block_bytes": 300}
    ours = encode(file, prepared, tmp_path / "ours", **keywords)
    theirs = encode(
        file,
        prepared,
        tmp_path / "theirs",
        chat_template="tokenizer",
        threads=threads,
        **keywords,
    )
    assert ids_and_masks(tmp_path / "theirs") == ids_and_masks(tmp_path / "ours")
    assert len(ids_and_masks(tmp_path / "ours")) == 8
    assert theirs.profile is None
    assert theirs.settings["chat_template"] == prepared.chat_template
    assert theirs.report == ours.report


def test_a_template_that_refuses_rows_is_in_the_report(
    tmp_path: Path, tokenizer: tm.Tokenizer
) -> None:
    template = tmp_path / "t.jinja"
    template.write_text(FAILS_AT_LAZY)
    file = write_rows(tmp_path / "a.jsonl", [conversation(number) for number in range(1, 7)])
    manifest = encode(file, tokenizer, tmp_path / "out", mode="sft", chat_template=template)
    assert manifest.report["left_out"] == {"template": 2}
    assert [line.split("` ")[0][-9:] for line in manifest.report["skipped"]] == [
        "a.jsonl:3",
        "a.jsonl:6",
    ]
    assert "no system" in manifest.report["skipped"][0]
    assert manifest.splits["train"].documents == 4
    assert tm.Dataset.open(tmp_path / "out").tokenizer.chat_template == FAILS_AT_LAZY
    template.write_text(SHOUTS)
    with pytest.raises(ConfigError, match="made with chat template"):
        encode(file, tokenizer, tmp_path / "out", mode="sft", chat_template=template)
    with pytest.raises(ConfigError, match=r"left out .*template"):
        encode(file, tokenizer, tmp_path / "shouts", mode="sft", chat_template=template)


def test_rows_that_cannot_be_read(tmp_path: Path, tokenizer: tm.Tokenizer) -> None:
    prepared = chat.prepare_tokenizer(tokenizer, "chat")
    file = tmp_path / "a.jsonl"
    good = json.dumps(conversation(1)).encode()
    file.write_bytes(good + b"\n{broken\n" + good.replace(b"fox", b"f\xffx") + b"\n")
    keywords = {"mode": "sft", "chat_template": "tokenizer"}
    with pytest.raises(SourceError, match=r"a\.jsonl:2"):
        encode(file, prepared, tmp_path / "out", **keywords)
    manifest = encode(file, prepared, tmp_path / "out", on_error="skip", **keywords)
    assert manifest.report["skipped_records"] == 2
    for out, template in (("replaced", "tokenizer"), ("by profile", None)):
        manifest = encode(
            file,
            prepared,
            tmp_path / out,
            mode="sft",
            on_error="skip",
            invalid_utf8="replace",
            chat_template=template,
        )
        assert manifest.report["skipped_records"] == 1
        assert manifest.report["replaced_sequences"] == 3
    with pytest.raises(SourceError, match=r"a\.jsonl:1` .*more than 10"):
        encode(file, prepared, tmp_path / "x", max_tokens=10, too_long="error", **keywords)


def test_what_cannot_work_is_said_before_anything_is_written(
    tmp_path: Path, tokenizer: tm.Tokenizer
) -> None:
    file = write_rows(tmp_path / "a.jsonl", [conversation(1)])
    template = tmp_path / "t.jinja"
    template.write_text("{{ messages[0].content }}")
    for keywords, message in (
        ({"chat_template": "tokenizer"}, "no chat template"),
        ({"chat_template": tmp_path / "none.jinja"}, "none.jinja"),
        ({"chat_template": template}, "generation"),
        ({"chat_template": template, "profile": "nanochat"}, "pass one of them"),
        ({"chat_template": template, "mode": "pretrain"}, "--chat-template"),
    ):
        with pytest.raises(TokenmillError, match=message):
            encode(file, tokenizer, tmp_path / "out", **{"mode": "sft", **keywords})
    assert not (tmp_path / "out").exists()
