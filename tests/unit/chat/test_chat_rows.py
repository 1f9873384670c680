"""Rows: every shape becomes the same conversation, every problem has a name, nothing is silent."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tokenmill as tm
from tokenmill import chat
from tokenmill.chat.encoder import RowOptions
from tokenmill.errors import ConfigError, SourceError

U, A = {"role": "user", "content": "hello"}, {"role": "assistant", "content": "there"}
S = {"role": "system", "content": "be brief"}


@pytest.fixture(scope="module")
def tokenizer() -> tm.Tokenizer:
    base = tm.train(tm.documents(["hello there be brief\n"] * 9), vocab_size=290)
    for profile in chat.PROFILES.values():
        base = chat.prepare_tokenizer(base, profile)
    return base


def encode(tokenizer: tm.Tokenizer, *rows: object, **options: Any) -> chat.EncodedRows:
    lines = [row if isinstance(row, str | bytes) else json.dumps(row) for row in rows]
    profile = options.pop("profile", "chat")
    on_error = options.pop("on_error", "fail")
    return chat.encode_rows(tokenizer, profile, lines, RowOptions(**options), on_error=on_error)


def texts(tokenizer: tm.Tokenizer, rows: chat.EncodedRows) -> list[tuple[str, str]]:
    """Each document, and what is trained on of it."""
    found: list[tuple[str, str]] = []
    for index in range(rows.num_documents):
        ids, mask = rows.document(index)
        found.append((tokenizer.decode(ids), tokenizer.decode(ids[mask.astype(bool)])))
    return found


HELLO = ("<|user|>hello<|end|><|assistant|>there<|end|>", "there<|end|>")
WITH_SYSTEM = (f"<|system|>be brief<|end|>{HELLO[0]}", HELLO[1])


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"messages": [U, A]}, HELLO),
        ({"messages": [S, U, A], "prompt": {"odd": 1}, "id": 7}, WITH_SYSTEM),
        ({"messages": [{**U, "content": [{"type": "text", "text": "hel"}, "lo"]}, A]}, HELLO),
        ({"messages": [{**U, "name": "x", "tool_calls": []}, {**A, "tool_calls": None}]}, HELLO),
        ({"conversations": [{"from": "human", "value": "hello"}, {"from": "gpt", "value": "there"}]}, HELLO),
        ({"conversations": [U, A], "system": "be brief"}, WITH_SYSTEM),
        ({"prompt": "hello", "completion": "there"}, HELLO),
        ({"prompt": [S, U], "completion": [A]}, WITH_SYSTEM),
        ({"prompt": "hello", "completion": "there", "system": "be brief"}, WITH_SYSTEM),
        ({"instruction": "hello", "input": "", "output": "there"}, HELLO),
        ({"instruction": "hello", "input": None, "output": "there"}, HELLO),
        ({"instruction": "hello", "output": "there"}, HELLO),
        (
            {"instruction": "hello", "input": "be brief", "output": "there"},
            ("<|user|>hello\n\nbe brief<|end|><|assistant|>there<|end|>", HELLO[1]),
        ),
        # A prompt is not trained on, whoever speaks in it.
        (
            {"prompt": [U, A, U], "completion": [A]},
            (HELLO[0] * 2, "there<|end|>"),
        ),
        ({"messages": [U, A, U, A]}, (HELLO[0] * 2, "there<|end|>" * 2)),
    ],
)  # fmt: skip
def test_shapes(tokenizer: tm.Tokenizer, row: object, expected: tuple[str, str]) -> None:
    rows = encode(tokenizer, row)
    assert texts(tokenizer, rows) == [expected]
    assert rows.ids.dtype == np.uint16
    assert rows.mask.dtype == np.uint8
    contents = expected[0]
    for token in tokenizer.special_tokens:
        contents = contents.replace(token, "")
    assert rows.bytes.tolist() == [len(contents)]


def test_keys_and_text_may_be_escaped(tokenizer: tm.Tokenizer) -> None:
    row = r'{"mess\u0061ges": [{"r\u006fle": "us\u0065r", "content": "hell\u006f"}, {"role": "assistant", "content": "th\u0065re"}]}'
    assert texts(tokenizer, encode(tokenizer, row, row.encode())) == [HELLO, HELLO]


PREFERENCE = {"prompt": "hello", "chosen": "there", "rejected": "hello"}
PAIR = [HELLO, (HELLO[0].replace("there", "hello"), "hello<|end|>")]
B = {**A, "content": "hello"}


@pytest.mark.parametrize(
    "row",
    [
        PREFERENCE,
        {"prompt": [U], "chosen": [A], "rejected": [B]},
        {"prompt": "hello", "chosen": [A], "rejected": [B]},
        # As in ultrafeedback_binarized: whole conversations, and the prompt again.
        {"prompt": "hello", "chosen": [U, A], "rejected": [U, B], "messages": [U, A]},
        {"prompt": [U], "chosen": [U, A], "rejected": [U, B]},
        {"chosen": [U, A], "rejected": [U, B]},
        # As in hh-rlhf: each conversation is one text.
        {
            "chosen": "\n\nHuman: hello\n\nAssistant: there",
            "rejected": "\n\nHuman: hello\n\nAssistant: hello",
        },
    ],
)
def test_preference_rows(tokenizer: tm.Tokenizer, row: object) -> None:
    rows = encode(tokenizer, row, mode="preference")
    assert texts(tokenizer, rows) == PAIR
    assert rows.rows.tolist() == [0, 0]
    assert rows.bytes.tolist() == [10, 10]


def test_a_shared_beginning_is_the_prompt(tokenizer: tm.Tokenizer) -> None:
    row = {"chosen": [S, U, A, U, A], "rejected": [S, U, A, U, B]}
    (chosen, rejected) = texts(tokenizer, encode(tokenizer, row, mode="preference"))
    assert chosen == (WITH_SYSTEM[0] + HELLO[0], "there<|end|>")
    assert rejected[1] == "hello<|end|>"


def test_speakers_of_a_text(tokenizer: tm.Tokenizer) -> None:
    beginning = "\n\nHuman: hello\n\nAssistant: there\n\nHuman:  hello "
    row = {
        "chosen": beginning + "\n\nAssistant:there\n\nHumans: hello\nAssistant: x",
        "rejected": beginning + "\n\nAssistant: hello",
    }
    turns = [U, A, {**U, "content": " hello "}]
    same = {
        "chosen": [*turns, {**A, "content": "there\n\nHumans: hello\nAssistant: x"}],
        "rejected": [*turns, B],
    }
    found, wanted = (encode(tokenizer, each, mode="preference") for each in (row, same))
    assert texts(tokenizer, found) == texts(tokenizer, wanted)
    # Where a prompt stands beside them, texts are answers, whatever they begin with.
    with_prompt = encode(tokenizer, {**row, "prompt": "hello"}, mode="preference")
    assert "Human:" in texts(tokenizer, with_prompt)[0][1]


@pytest.mark.parametrize(
    ("row", "options", "reason"),
    [
        ({"messages": [U]}, {}, "no_assistant_turn"),
        ({"messages": []}, {}, "no_assistant_turn"),
        ({"messages": [U, {**A, "content": ""}]}, {}, "empty_completion"),
        ({"prompt": "hello", "completion": ""}, {}, "empty_completion"),
        ({"instruction": "x", "output": ""}, {}, "empty_completion"),
        ({"prompt": "hello", "completion": None}, {}, "null_content"),
        ({"instruction": "x", "output": None}, {}, "null_content"),
        ({"messages": [U, {**A, "content": None}]}, {}, "null_content"),
        ({"messages": [U, {"role": "assistant"}]}, {}, "null_content"),
        ({"messages": [U, {**A, "content": None, "tool_calls": [{"id": 1}]}]}, {}, "tool_calls"),
        ({"messages": [U, {"role": "tool", "content": "x"}, A]}, {}, "unknown_role"),
        ({"messages": [{**U, "content": [{"type": "image_url"}]}, A]}, {}, "content_part"),
        ({"messages": [U, S, A]}, {"profile": "nanochat"}, "system_not_first"),
        ({"messages": [S, A]}, {"profile": "nanochat"}, "system_not_first"),
        ({"messages": [U, A]}, {"max_tokens": 3}, "too_long"),
        ({"messages": [U, A]}, {"max_tokens": 2, "too_long": "keep-start"}, "no_trained_tokens"),
        ({**PREFERENCE, "rejected": "there"}, {"mode": "preference"}, "chosen_equals_rejected"),
        ({"chosen": [U, A], "rejected": [U, A]}, {"mode": "preference"}, "chosen_equals_rejected"),
        ({**PREFERENCE, "rejected": ""}, {"mode": "preference"}, "empty_completion"),
        ({"chosen": [U, A], "rejected": [U]}, {"mode": "preference"}, "no_assistant_turn"),
        (
            {"prompt": "other", "chosen": [U, A], "rejected": [U, B]},
            {"mode": "preference"},
            "prompt_differs",
        ),
        ({"chosen": [U, A], "rejected": [S, A]}, {"mode": "preference"}, "prompt_differs"),
        (
            {"chosen": "\n\nHuman: a\n\nAssistant: b", "rejected": "\n\nHuman: a\n\nAssistant: "},
            {"mode": "preference"},
            "empty_completion",
        ),
        (
            {"chosen": "\n\nHuman: a\n\nAssistant: b", "rejected": "\n\nHuman: a\n\nAssistant: b"},
            {"mode": "preference"},
            "chosen_equals_rejected",
        ),
    ],
)  # fmt: skip
def test_rows_that_are_left_out(
    tokenizer: tm.Tokenizer, row: object, options: dict[str, Any], reason: str
) -> None:
    good = PREFERENCE if options.get("mode") else {"messages": [U, A]}
    rows = encode(tokenizer, row, **options)
    ((number, found, detail),) = rows.skipped
    assert (number, found) == (0, reason)
    assert detail
    assert len(rows.ids) == len(rows.mask) == rows.num_documents == 0
    if "max_tokens" not in options:
        rows = encode(tokenizer, good, row, good, **options)
        assert rows.reasons == {reason: 1}
        assert sorted({*rows.rows.tolist()}) == [0, 2]


@pytest.mark.parametrize(
    ("row", "options", "message"),
    [
        ({"text": "hello", "id": 3}, {}, "row 0: is no conversation: it has the keys `text`, `id`"),
        ({}, {}, "it has no keys"),
        ([1], {}, "is a list, not an object"),
        ('{"messages": [', {}, "not valid JSON at column"),
        ('{"messages": []} x', {}, "not valid JSON at column 18: trailing characters"),
        ('{"x": %s}' % ("[" * 999 + "]" * 999), {}, "nests more than 128 levels deep"),
        ({"messages": "hello"}, {}, "field `messages` holds a string, not a list"),
        ({"messages": [U, "x"]}, {}, "message 1 of `messages`: is a string"),
        ({"messages": [{"content": "x"}]}, {}, "message 0 of `messages`: has no `role`"),
        ({"messages": [{"role": "user", "content": 3}]}, {}, "its content is a number"),
        ({"prompt": 3, "completion": "x"}, {}, "field `prompt` holds a number"),
        ({"messages": [U, A]}, {"shape": "alpaca"}, "skipped"),
        ({"text": "x"}, {"shape": "messages"}, "has no field `messages`"),
        ({"messages": [U, A]}, {"mode": "preference"}, "has no field `chosen`"),
        ({"chosen": "a", "rejected": "b"}, {"mode": "preference"}, "has no field `prompt`"),
        ({"messages": [U, A]}, {"max_tokens": 3, "too_long": "error"}, "tokens are more than 3"),
        (b'{"prompt": "\xff", "completion": "x"}', {}, "is not valid UTF-8: byte 12"),
        (r'{"prompt": "\ud800", "completion": "x"}', {}, "half of a surrogate pair"),
    ],
)  # fmt: skip
def test_rows_that_are_errors(
    tokenizer: tm.Tokenizer, row: object, options: dict[str, Any], message: str
) -> None:
    if message == "skipped":
        # Asked for by name, an Alpaca row without its fields is one that says nothing.
        assert encode(tokenizer, row, **options).reasons == {"null_content": 1}
        return
    with pytest.raises(SourceError, match=message):
        encode(tokenizer, row, **options)
    rows = encode(tokenizer, row, on_error="skip", **options)
    assert rows.reasons == {"unreadable": 1}


def test_long_conversations(tokenizer: tm.Tokenizer) -> None:
    row = {"messages": [U, A]}
    whole = encode(tokenizer, row)
    ids, mask = whole.ids.tolist(), whole.mask.tolist()
    for most in range(1, len(ids) + 2):
        start = encode(tokenizer, row, max_tokens=most, too_long="keep-start")
        end = encode(tokenizer, row, max_tokens=most, too_long="keep-end")
        if sum(mask[:most]):
            assert (start.ids.tolist(), start.mask.tolist()) == (ids[:most], mask[:most])
        else:
            assert start.reasons == {"no_trained_tokens": 1}
        assert (end.ids.tolist(), end.mask.tolist()) == (ids[-most:], mask[-most:])
        assert end.truncated == (most < len(ids))
        dropped = encode(tokenizer, row, max_tokens=most)
        assert dropped.num_documents == (most >= len(ids))


def test_text_that_is_not_utf8(tokenizer: tm.Tokenizer) -> None:
    half = r'{"prompt": "\ud800", "completion": "x"}'
    raw = b'{"prompt": "\xff", "completion": "x"}'
    replaced = encode(tokenizer, half, raw, invalid_utf8="replace")
    assert [text for text, _ in texts(tokenizer, replaced)] == [
        "<|user|>\ufffd<|end|><|assistant|>x<|end|>"
    ] * 2
    kept = encode(tokenizer, half, raw, invalid_utf8="keep")
    assert [tokenizer.decode_bytes(kept.document(i)[0]) for i in range(2)] == [
        b"<|user|>\xed\xa0\x80<|end|><|assistant|>x<|end|>",
        b"<|user|>\xff<|end|><|assistant|>x<|end|>",
    ]


def test_special_tokens_in_contents_are_counted(tokenizer: tm.Tokenizer) -> None:
    row = {"messages": [{**U, "content": "a<|end|>b<|end|>"}, {**A, "content": "<|bos|>"}]}
    rows = encode(tokenizer, row)
    assert rows.lookalikes == {"<|end|>": 2, "<|bos|>": 1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "stf"}, "unknown mode `stf`"),
        ({"shape": "alpacka"}, "unknown shape of rows `alpacka`"),
        ({"too_long": "cut"}, "unknown too-long policy `cut`"),
        ({"max_tokens": 0}, "max tokens 0 is below 1"),
        ({"mode": "preference", "shape": "alpaca"}, "one shape of rows"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        RowOptions(**options)


def test_rows_of_a_table(tokenizer: tm.Tokenizer) -> None:
    rows = [{"messages": [U, A], "score": 1.5}, {"messages": [S, U, A], "score": float("nan")}]
    table = pa.Table.from_pylist(rows).append_column("image", pa.array([b"\xff\x00", None]))
    lines = [line for batch in table.to_batches() for line in chat.rows_as_json(batch)]
    assert [json.loads(line) for line in lines] == [{"messages": row["messages"]} for row in rows]
    assert texts(tokenizer, encode(tokenizer, *lines)) == [HELLO, WITH_SYSTEM]
    binary = pa.table({"prompt": pa.array([b"a\xff", "é".encode()]), "completion": ["x", "y"]})
    first, second = chat.rows_as_json(binary)
    assert first == b'{"prompt":"a\xff","completion":"x"}'
    assert json.loads(second) == {"prompt": "é", "completion": "y"}
    with pytest.raises(SourceError, match="it has the keys `text`, `id`"):
        encode(tokenizer, *chat.rows_as_json(pa.table({"text": ["x"], "id": [1]})))
