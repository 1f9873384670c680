"""Templates of others: what they see, what comes out, what is refused, and how the process ends."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import tokenmill as tm
from tokenmill import chat
from tokenmill.chat.foreign_template import ForeignTemplate, Refused, find_template
from tokenmill.chat.messages import Turn
from tokenmill.chat.template_rows import encode_rows_by_template
from tokenmill.errors import ConfigError, SourceError

# As Llama 3 has it: the first token from a variable, contents trimmed, nothing about generation.
LLAMA = (
    "{% set loop_messages = messages %}{% for message in loop_messages %}"
    "{% set content = '<|start|>' + message['role'] + '<|stop|>\n\n'+ message['content'] | trim + '<|eot|>' %}"
    "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start|>assistant<|stop|>\n\n' }}{% endif %}"
)
SPECIAL = ["<|bos|>", "<|start|>", "<|stop|>", "<|eot|>"]
MESSAGES = [
    {"role": "user", "content": " hello <|eot|>\n"},
    {"role": "assistant", "content": "there"},
]


@pytest.fixture(scope="module")
def tokenizer() -> tm.Tokenizer:
    return tm.train(
        tm.documents(["hello there user assistant\n\n"] * 9), vocab_size=300, special_tokens=SPECIAL
    )


def test_a_template_as_models_have_it(tokenizer: tm.Tokenizer) -> None:
    with ForeignTemplate(tokenizer, LLAMA) as template:
        assert not template.has_generation
        ids, mask, text = template.render(MESSAGES, add_generation_prompt=True)
    assert text == (
        "<|bos|><|start|>user<|stop|>\n\nhello <|eot|><|eot|>"
        "<|start|>assistant<|stop|>\n\nthere<|eot|><|start|>assistant<|stop|>\n\n"
    )
    assert tokenizer.decode(ids) == text
    assert ids.count(tokenizer.special_tokens["<|eot|>"]) == 2
    assert sum(mask) == 0


def test_turns_of_the_prompt_are_not_trained_on(tokenizer: tm.Tokenizer) -> None:
    template = "{% for m in messages %}{% generation %}{{ m.content }}<|eot|>{% endgeneration %}\n{% endfor %}"
    turns = [Turn("assistant", "hello"), Turn("assistant", ""), Turn("assistant", "there")]
    with ForeignTemplate(tokenizer, template) as foreign:
        for first in range(4):
            (found,) = foreign.render_turns([(turns, first)])
            assert not isinstance(found, Refused)
            trained = [i for i, bit in zip(found.ids, found.mask, strict=True) if bit]
            said = "".join(f"{turn.content}<|eot|>" for turn in turns[first:])
            assert tokenizer.decode(trained) == said


def test_many_at_once_fail_one_by_one(tokenizer: tm.Tokenizer) -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}"
        "{% endif %}{{ m.content | replace('x', 'y') }}{% endfor %}"
    )
    conversations = [([Turn("user", text)], 0) for text in ("a", "x", "b")]
    with ForeignTemplate(tokenizer, template) as foreign:
        first, second, third = foreign.render_turns(conversations)
        (fourth,) = foreign.render_turns([([Turn("system", "a")], 0)])
        assert foreign.render_turns([]) == []
    assert not isinstance(first, Refused)
    assert not isinstance(third, Refused)
    assert isinstance(second, Refused)
    assert second.why.startswith("changes contents")
    assert isinstance(fourth, Refused)
    assert fourth.why == "fails: TemplateError: no system"


def test_where_templates_come_from(tokenizer: tm.Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="the tokenizer has no chat template"):
        find_template("tokenizer", tokenizer)
    assert find_template("tokenizer", tokenizer.with_chat_template("x")) == "x"
    (tmp_path / "t.jinja").write_text("é")
    assert find_template(tmp_path / "t.jinja", tokenizer) == "é"
    (tmp_path / "t.jinja").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        find_template(tmp_path / "t.jinja", tokenizer)
    with pytest.raises(SourceError, match="does not exist"):
        find_template(tmp_path / "none.jinja", tokenizer)


def test_a_template_that_is_not_jinja(tokenizer: tm.Tokenizer) -> None:
    with pytest.raises(ConfigError, match="not Jinja: TemplateSyntaxError"):
        ForeignTemplate(tokenizer, "{% if %}")


def test_the_process_ends(tokenizer: tm.Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Watched(subprocess.Popen[bytes]):
        def __init__(self, *args: object, **options: object) -> None:
            super().__init__(*args, **options)  # pyright: ignore
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Watched)
    monkeypatch.setenv("TOKENMILL_SECRET", "x")
    with ForeignTemplate(tokenizer, "{{ messages[0].content }}") as template:
        assert template.render(MESSAGES[:1]).text == MESSAGES[0]["content"]
    assert started[0].returncode is not None
    with pytest.raises(ConfigError):
        ForeignTemplate(tokenizer, "{% if %}")
    assert started[1].returncode is not None


def test_export_of_a_profile(tokenizer: tm.Tokenizer) -> None:
    ready = chat.prepare_tokenizer(tokenizer, "nanochat")
    assert ready.chat_template is not None
    with ForeignTemplate(ready, ready.chat_template) as template:
        messages = [{"role": "system", "content": "<|bos|>"}, *MESSAGES]
        assert template.render(messages) == chat.render(ready, "nanochat", messages)


ROWS = [
    {"messages": [*MESSAGES, {"role": "user", "content": "é"}, {"role": "assistant", "content": "x"}]},
    {"prompt": "hello", "completion": "there"},
    {"instruction": "a", "input": "b", "output": "c <|eot|>"},
    {"messages": MESSAGES[:1]},
    {"prompt": "hello", "completion": None},
    {"prompt": [{"role": "assistant", "content": "a"}, MESSAGES[0]], "completion": "there"},
    {"text": "x"},
    [],
]  # fmt: skip
PAIRS = [
    {"prompt": "hello", "chosen": "a", "rejected": "b"},
    {"chosen": MESSAGES, "rejected": [MESSAGES[0], {"role": "assistant", "content": "b"}]},
    {"prompt": "hello", "chosen": "a", "rejected": "a"},
]


@pytest.mark.parametrize(("mode", "rows"), [("sft", ROWS), ("preference", PAIRS)])
@pytest.mark.parametrize(
    "limit", [{}, {"max_tokens": 12}, {"max_tokens": 9, "too_long": "keep-end"}]
)
def test_rows_as_by_a_profile(
    tokenizer: tm.Tokenizer, mode: str, rows: list[object], limit: dict[str, Any]
) -> None:
    ready = chat.prepare_tokenizer(tokenizer)
    lines = [json.dumps(row) for row in rows]
    options = chat.RowOptions(mode=mode, **limit)
    expected = chat.encode_rows(ready, "chat", lines, options, on_error="skip")
    with ForeignTemplate(ready, ready.chat_template or "") as template:
        found = encode_rows_by_template(template, lines, options, on_error="skip")
    for name in ("ids", "mask", "offsets", "bytes", "rows"):
        ours, theirs = getattr(expected, name), getattr(found, name)
        assert ours.dtype == theirs.dtype
        assert ours.tolist() == theirs.tolist(), name
    assert [each[:2] for each in sorted(found.skipped)] == [each[:2] for each in expected.skipped]
    assert found.truncated == expected.truncated
    if not limit:
        assert found.lookalikes == expected.lookalikes


def test_rows_that_the_template_refuses(tokenizer: tm.Tokenizer) -> None:
    lines = [json.dumps({"prompt": "hello", "completion": said}) for said in "axb"]
    template = "{% generation %}{{ messages[1].content | replace('x', 'y') }}{% endgeneration %}"
    with ForeignTemplate(tokenizer, template) as foreign:
        found = encode_rows_by_template(foreign, lines)
        assert found.reasons == {"template": 1}
        assert found.rows.tolist() == [0, 2]
        with pytest.raises(SourceError, match="row 1: is no conversation"):
            encode_rows_by_template(foreign, [lines[0], '{"text": "x"}'])
        with pytest.raises(SourceError, match="half of a surrogate pair"):
            encode_rows_by_template(foreign, [r'{"prompt": "\ud800", "completion": "a"}'])
        replaced = encode_rows_by_template(
            foreign,
            [r'{"prompt": "a", "completion": "\ud800"}', b'{"prompt": "a", "completion": "\xff"}'],
            chat.RowOptions(invalid_utf8="replace"),
        )
    assert [tokenizer.decode(replaced.document(i)[0]) for i in range(2)] == ["\ufffd"] * 2
    with (
        ForeignTemplate(tokenizer, LLAMA) as silent,
        pytest.raises(ConfigError, match="generation"),
    ):
        encode_rows_by_template(silent, lines)
