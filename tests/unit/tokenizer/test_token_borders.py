"""Where tokens end in their text: truncate, split and offsets."""

from itertools import accumulate
from typing import Any

import numpy as np
import pytest

from tokenmill.errors import ConfigError, VocabError
from tokenmill.tokenizer.tokenizer import Tokenizer

BYTES = {byte: bytes([byte]) for byte in range(256)}
MERGES = [(b"t", b"h"), (b"th", b"e"), (b" ", b"the"), (b"\xe6", b"\xbc"), (b" ", b"\xe6\xbc")]
VOCAB = BYTES | {256 + i: left + right for i, (left, right) in enumerate(MERGES)}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_vocab(VOCAB, MERGES, ["<|end|>"], "gpt4")


def test_the_tokens_these_tests_are_about(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("the the 漢x")
    assert [tokenizer.token_bytes(i) for i in ids] == [b"the", b" the", b" \xe6\xbc", b"\xa2", b"x"]


@pytest.mark.parametrize(
    ("max_tokens", "text"),
    # The third token ends inside 漢, and the border before it is before the space.
    [(0, ""), (1, "the"), (2, "the the"), (3, "the the"), (4, "the the 漢"), (5, "the the 漢x"), (6, "the the 漢x"), (10**9, "the the 漢x")],
)  # fmt: skip
def test_truncate(tokenizer: Tokenizer, max_tokens: int, text: str) -> None:
    assert tokenizer.truncate("the the 漢x", max_tokens) == text


def test_truncate_bytes_at_any_token(tokenizer: Tokenizer) -> None:
    data = "the 漢".encode() + b"\xff\xfe"
    ids = tokenizer.encode(data)
    for n in range(len(ids) + 2):
        assert tokenizer.truncate(data, n) == tokenizer.decode_bytes(ids[:n])


def test_truncate_gives_a_prefix_of_few_tokens(tokenizer: Tokenizer) -> None:
    text = "the cat the 漢字 😀😀 the\n\n the"
    ids = tokenizer.encode(text)
    for n in range(len(ids) + 1):
        start = tokenizer.truncate(text, n)
        assert text.startswith(start)
        spelled = tokenizer.decode_bytes(ids[:n])
        assert spelled.startswith(start.encode())
        assert len(spelled) - len(start.encode()) < 6


def test_truncate_what_has_no_border_in_time(tokenizer: Tokenizer) -> None:
    assert tokenizer.truncate("😀", 3) == ""
    assert tokenizer.truncate("😀", 4) == "😀"
    assert tokenizer.truncate("a\ud83d", 3) == "a"
    assert tokenizer.truncate("a\ud83d", 4) == "a\ud83d"


def test_truncate_does_not_look_at_the_rest(tokenizer: Tokenizer) -> None:
    text = "the cat " * 100_000
    assert tokenizer.truncate(text + "<|end|>", 2) == tokenizer.truncate("the cat the", 2)
    with pytest.raises(VocabError, match="special token"):
        tokenizer.truncate("the<|end|>", 2)
    assert tokenizer.truncate("the<|end|>the", 2, allowed_special="all") == "the<|end|>"
    assert tokenizer.truncate("the<|end|>", 2, disallowed_special=()) == "the<"


def test_split(tokenizer: Tokenizer) -> None:
    text = "the the 漢x"
    assert tokenizer.split(text, 1) == ["the", " the", " 漢", "x"]
    assert tokenizer.split(text, 2) == ["the the", " 漢", "x"]
    assert tokenizer.split(text, 3) == ["the the", " 漢x"]
    assert tokenizer.split(text, 4) == ["the the 漢", "x"]
    assert tokenizer.split(text, 5) == tokenizer.split(text, 10**12) == [text]
    assert tokenizer.split("", 5) == []


def test_a_piece_is_longer_only_where_no_character_ends(tokenizer: Tokenizer) -> None:
    assert tokenizer.split("😀😀a", 1) == ["😀", "😀", "a"]
    assert tokenizer.split("a😀b", 3) == ["a", "😀", "b"]
    assert tokenizer.split("a\ud83db", 2) == ["a", "\ud83d", "b"]


def test_split_bytes_at_any_token(tokenizer: Tokenizer) -> None:
    data = "the the 漢x".encode() + b"\xff\x80"
    for n in range(1, 9):
        ids = tokenizer.encode(data)
        parts = [tokenizer.decode_bytes(ids[i : i + n]) for i in range(0, len(ids), n)]
        assert tokenizer.split(data, n) == parts
    assert tokenizer.split(b"", 5) == []


def test_pieces_are_consecutive_tokens_of_the_whole(tokenizer: Tokenizer) -> None:
    text = "the cat\r\n the 漢字 😀😀 12345 the\n\n the<|end|> 漢 "
    whole = tokenizer.encode(text, allowed_special="all")
    borders = {0, *accumulate(len(tokenizer.token_bytes(i)) for i in whole)}
    for n in range(1, len(whole) + 1):
        pieces = tokenizer.split(text, n, allowed_special="all")
        assert "".join(pieces) == text
        ends = list(accumulate(len(piece.encode()) for piece in pieces))
        assert borders.issuperset(ends)
        for start, end in zip([0, *ends], ends, strict=False):
            inside = len([border for border in borders if start < border <= end])
            assert inside <= max(n, 4)


def test_split_and_special_tokens(tokenizer: Tokenizer) -> None:
    with pytest.raises(VocabError, match="special token"):
        tokenizer.split("the<|end|>", 1)
    assert tokenizer.split("the<|end|>the", 1, allowed_special="all") == ["the", "<|end|>", "the"]
    assert tokenizer.split("<|e", 1, disallowed_special=()) == ["<", "|", "e"]


@pytest.mark.parametrize("wrong", [-1, 1.5, "3", None, True])
def test_max_tokens_must_make_sense(tokenizer: Tokenizer, wrong: Any) -> None:
    with pytest.raises(ConfigError, match=f"max_tokens is `{wrong!r}`, not a whole number from 0"):
        tokenizer.truncate("the", wrong)
    with pytest.raises(ConfigError, match=f"max_tokens is `{wrong!r}`, not a whole number from 1"):
        tokenizer.split("the", wrong)
    with pytest.raises(ConfigError, match="max_tokens is `0`"):
        tokenizer.split("the", 0)


def test_offsets_in_characters(tokenizer: Tokenizer) -> None:
    text = "the 漢x<|end|>\ud83d!"
    ids, offsets = tokenizer.encode_with_offsets(text, allowed_special="all")
    assert ids.tolist() == tokenizer.encode(text, allowed_special="all")
    assert (offsets.dtype, offsets.shape) == (np.int64, (len(ids), 2))
    # ` 漢` is two tokens, and each has the whole of the character it has a part of.
    shown = [text[start:end] for start, end in offsets]
    assert shown == ["the", " 漢", "漢", "x", "<|end|>", *["\ud83d"] * 3, "!"]


def test_offsets_in_bytes(tokenizer: Tokenizer) -> None:
    data = "the 漢x".encode() + b"\xff\x80"
    ids, offsets = tokenizer.encode_with_offsets(data, unit="bytes")
    assert [data[start:end] for start, end in offsets] == [tokenizer.token_bytes(i) for i in ids]
    again = tokenizer.encode_with_offsets("the 漢x", unit="bytes")[1]
    assert again.tolist() == offsets[:-2].tolist()


@pytest.mark.parametrize("unit", ["chars", "bytes"])
def test_offsets_of_nothing(tokenizer: Tokenizer, unit: Any) -> None:
    ids, offsets = tokenizer.encode_with_offsets("", unit=unit)
    assert (ids.shape, offsets.shape) == ((0,), (0, 2))


def test_other_units_are_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(ConfigError, match="unit is `words`, not `chars` or `bytes`"):
        tokenizer.encode_with_offsets("the", unit="words")  # type: ignore[arg-type]
    with pytest.raises(VocabError, match="special token"):
        tokenizer.encode_with_offsets("<|end|>")


def test_with_a_normalizer_places_are_those_of_the_normalized_text() -> None:
    from tokenmill import _core
    from tokenmill.tokenizer.vocab import Vocab

    core = _core.Vocab(list(BYTES.values()), [], {})
    tokenizer = Tokenizer(Vocab(core, "gpt2", "nfc"))
    decomposed, composed = "e\u0301x", "\u00e9x"
    assert tokenizer.decode(tokenizer.encode(decomposed)) == composed
    ids, offsets = tokenizer.encode_with_offsets(decomposed)
    assert [composed[start:end] for start, end in offsets] == ["\u00e9", "\u00e9", "x"]
    assert tokenizer.encode_with_offsets(decomposed, unit="bytes")[1].tolist() == [
        [0, 1],
        [1, 2],
        [2, 3],
    ]
    assert tokenizer.truncate(decomposed, 2) == "\u00e9"
    assert tokenizer.split(decomposed, 1) == ["\u00e9", "x"]
    assert tokenizer.count_tokens(decomposed) == len(ids) == 3
