"""Rows of conversations become documents with masks: those that `tokenmill.chat` makes of each row."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from plain_encoding import digests, encode

import tokenmill as tm
from tokenmill import chat
from tokenmill.errors import ConfigError, SourceError

Row = dict[str, Any]


def conversation(number: int, turns: int = 2) -> Row:
    roles = ("user", "assistant")
    messages = [
        {"role": roles[turn % 2], "content": f"the quick fox {number} 世界 <|end|>\n" * (turn + 1)}
        for turn in range(turns)
    ]
    system = [{"role": "system", "content": "a lazy dog"}] if number % 3 == 0 else []
    return {"messages": system + messages, "id": number}


def preference(number: int) -> Row:
    return {
        "prompt": f"which {number}?",
        "chosen": "the quick brown fox",
        "rejected": "dog " * number,
    }


def write_rows(path: Path, rows: list[Row]) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=7)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def expected(tokenizer: tm.Tokenizer, rows: list[Row], profile: str, mode: str) -> chat.EncodedRows:
    return chat.encode_rows(
        chat.prepare_tokenizer(tokenizer, profile),
        profile,
        [json.dumps(row) for row in rows],
        chat.RowOptions(mode=mode),
    )


@pytest.mark.parametrize("profile", ["chat", "alpaca-tags", "nanochat"])
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_conversations_and_their_masks(
    tmp_path: Path, tokenizer: tm.Tokenizer, profile: str, kind: str
) -> None:
    rows = [conversation(number, 2 * (1 + number % 3)) for number in range(60)]
    out = tmp_path / "out"
    file = write_rows(tmp_path / f"a.{kind}", rows)
    manifest = encode(file, tokenizer, out, mode="sft", profile=profile, block_bytes=500)
    wanted = expected(tokenizer, rows, profile, "sft")
    dataset = tm.Dataset.open(out)
    assert np.array_equal(dataset.tokens, wanted.ids)
    assert dataset.mask is not None
    assert np.array_equal(dataset.mask, wanted.mask)
    assert [dataset.bytes_of(number) for number in range(60)] == wanted.bytes.tolist()
    assert (manifest.mode, manifest.profile, manifest.eos) == ("sft", profile, None)
    assert manifest.splits["train"].trained_tokens == int(wanted.mask.sum()) > 0
    assert manifest.tokenizer.special_tokens == dataset.tokenizer.special_tokens
    assert dataset.tokenizer.chat_template is not None


def test_preferences_come_in_pairs(tmp_path: Path, tokenizer: tm.Tokenizer) -> None:
    rows = [preference(number) for number in range(1, 40)]
    file = write_rows(tmp_path / "a.jsonl", rows)
    encode(file, tokenizer, tmp_path / "out", mode="preference")
    wanted = expected(tokenizer, rows, "chat", "preference")
    dataset = tm.Dataset.open(tmp_path / "out")
    assert np.array_equal(dataset.tokens, wanted.ids)
    assert dataset.num_documents == 2 * len(rows)
    shuffled = tmp_path / "shuffled"
    encode(file, tokenizer, shuffled, mode="preference", shuffle_documents=3)
    pairs = tm.Dataset.open(shuffled)["train"].pairs
    plain = dataset["train"].pairs
    before = sorted((p.chosen.tolist(), p.rejected.tolist()) for p in plain)
    after = [(p.chosen.tolist(), p.rejected.tolist()) for p in pairs]
    assert sorted(after) == before, "pairs stay together"
    assert after != [(p.chosen.tolist(), p.rejected.tolist()) for p in plain]


def test_rows_that_teach_nothing_are_counted_and_named(
    tmp_path: Path, tokenizer: tm.Tokenizer
) -> None:
    rows = [
        conversation(1),
        {"messages": [{"role": "user", "content": "alone"}]},
        {"messages": [{"role": "user", "content": "a"}, {"role": "wizard", "content": "b"}]},
        conversation(2, 40),
    ]
    file = write_rows(tmp_path / "a.jsonl", rows)
    manifest = encode(file, tokenizer, tmp_path / "out", mode="sft", max_tokens=100)
    assert manifest.report["left_out"] == {
        "no_assistant_turn": 1,
        "too_long": 1,
        "unknown_role": 1,
    }
    assert [line.split("` ")[0][-9:] for line in manifest.report["skipped"]] == [
        "a.jsonl:2",
        "a.jsonl:3",
        "a.jsonl:4",
    ]
    assert manifest.splits["train"].documents == 1
    cut = encode(file, tokenizer, tmp_path / "cut", mode="sft", max_tokens=100, too_long="keep-end")
    assert cut.report["truncated"] == 1
    assert cut.splits["train"].documents == 2
    with pytest.raises(SourceError, match=r"a\.jsonl:4` .*tokens are more than 100"):
        encode(file, tokenizer, tmp_path / "x", mode="sft", max_tokens=100, too_long="error")
    only = write_rows(tmp_path / "b.jsonl", rows[1:2])
    with pytest.raises(ConfigError, match=r"all of 1 row were left out .*no_assistant_turn"):
        encode(only, tokenizer, tmp_path / "x", mode="sft")


def test_unreadable_rows(tmp_path: Path, tokenizer: tm.Tokenizer) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps(conversation(1)) + "\n{broken\n" + json.dumps({"x": 1}) + "\n")
    with pytest.raises(SourceError, match=r"a\.jsonl:2"):
        encode(file, tokenizer, tmp_path / "out", mode="sft")
    manifest = encode(file, tokenizer, tmp_path / "out", mode="sft", on_error="skip")
    assert manifest.report["skipped_records"] == 2
    assert manifest.splits["train"].documents == 1
    (tmp_path / "a.txt").write_text("just text")
    with pytest.raises(SourceError, match="plain text, which has no rows"):
        encode(tmp_path / "a.txt", tokenizer, tmp_path / "x", mode="sft")


def test_settings_of_the_other_mode_are_refused(tmp_path: Path, tokenizer: tm.Tokenizer) -> None:
    file = write_rows(tmp_path / "a.jsonl", [conversation(1)])
    for keywords, message in (
        ({"mode": "sft", "bos": "<|bos|>"}, "--bos"),
        ({"mode": "sft", "allow_special": "all"}, "--allow-special"),
        ({"max_tokens": 5}, "--max-tokens"),
        ({"profile": "nanochat"}, "--profile"),
        ({"mode": "dpo"}, "preference"),
        ({"mode": "sft", "profile": "nanochatt"}, "nanochat"),
        ({"mode": "sft", "too_long": "cut"}, "drop"),
    ):
        with pytest.raises(ConfigError, match=message):
            encode(file, tokenizer, tmp_path / "out", **keywords)


def test_threads_and_units_leave_no_trace(tmp_path: Path, tokenizer: tm.Tokenizer) -> None:
    rows = [conversation(number, 2 * (1 + number % 3)) for number in range(200)]
    file = write_rows(tmp_path / "a.jsonl", rows)
    found = set[str]()
    for threads, unit, block in ((1, 1 << 28, 1 << 20), (3, 3000, 100), (2, 9000, 999)):
        out = tmp_path / str(threads) / "ids"
        keywords = {"threads": threads, "unit_bytes": unit, "block_bytes": block}
        encode(file, tokenizer, out, mode="sft", val_fraction=0.2, shard_tokens=900, **keywords)
        found.add(json.dumps(digests(out)))
    assert len(found) == 1


def test_another_profile_of_the_same_name_is_another_dataset(
    tmp_path: Path, tokenizer: tm.Tokenizer
) -> None:
    file = write_rows(tmp_path / "a.jsonl", [conversation(1)])
    profile = tmp_path / "mine.toml"
    text = """special_tokens = ["<u>", "<a>", "</>"]
[roles.user]
before = "<u>"
after = "</>"
[roles.assistant]
before = "<a>"
after = "</>"
trained = true
[roles.system]
before = "<u>"
after = "</>"
"""
    profile.write_text(text)
    encode(file, tokenizer, tmp_path / "out", mode="sft", profile=profile)
    encode(file, tokenizer, tmp_path / "out", mode="sft", profile=profile)  # done already
    profile.write_text("train_end = false\n" + text)
    with pytest.raises(ConfigError, match="was made with profile"):
        encode(file, tokenizer, tmp_path / "out", mode="sft", profile=profile)
