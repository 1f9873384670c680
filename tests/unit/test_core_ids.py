"""Ids that come from Python in any shape, and what the core says about each of them."""

import random
from typing import Any

import numpy as np
import pytest

from tokenmill import _core
from tokenmill.errors import VocabError

TOKENS = [bytes([byte]) for byte in range(256)]
MERGES = [(116, 104, 256), (256, 101, 257), (32, 257, 258), (0xC3, 0xA9, 259), (32, 32, 260)]
JOINED = [b"th", b"the", b" the", "é".encode(), b"  "]
SPECIAL = {"<|x|>": 261, " y ": 262}


def example() -> _core.Bpe:
    tokens = [*TOKENS, *JOINED, *(token.encode() for token in SPECIAL)]
    return _core.Bpe(_core.Vocab(tokens, MERGES, SPECIAL), _core.Splitter("gpt4"))


class Whole(int):
    """An `int` with a class of its own."""


@pytest.mark.parametrize(
    "ids",
    [
        [257, 0, 255, 258],
        (257, 0, 255, 258),
        [Whole(257), 0, 255, 258],
        [np.int64(257), 0, np.uint8(255), 258],
        np.array([257, 0, 255, 258], ">u2").tolist(),
        np.array([257, 0, 255, 258], np.int32),
        iter([257, 0, 255, 258]),
    ],
)
def test_ids_of_any_shape(ids: Any) -> None:
    assert example().decode_bytes(ids) == b"the\x00\xff the"


def test_true_and_false_are_numbers() -> None:
    assert example().decode_bytes([True, False]) == b"\x01\x00"


@pytest.mark.parametrize("wrong", [-1, 263, 2**30, 2**31, 2**32, 2**62, 2**64, -(2**30), -(2**80)])
def test_numbers_that_are_no_id(wrong: int) -> None:
    bpe = example()
    for decode in (bpe.decode_bytes, bpe.decode, bpe.tokens, bpe.decode_with_starts):
        for ids in ([257, wrong], (257, wrong)):
            with pytest.raises(VocabError, match=str(wrong)):
                decode(ids)


@pytest.mark.parametrize("wrong", ["1", 1.5, None, b"1", [1]])
def test_what_is_no_number(wrong: Any) -> None:
    with pytest.raises(TypeError, match="position 1"):
        example().decode([257, wrong])


def test_tokens_long_and_short_around_the_size_of_a_block() -> None:
    long = "x" * 40
    tokens = [*TOKENS, long.encode()]
    bpe = _core.Bpe(_core.Vocab(tokens, [], {long: 256}), _core.Splitter("gpt4"))
    rng = random.Random(1)
    for length in (0, 1, 511, 512, 513, 1025, 4096, 4097, 9000):
        ids = [rng.choice([97, 10, 256, 256]) for _ in range(length)]
        expected = b"".join(tokens[token_id] for token_id in ids)
        assert bpe.decode_bytes(ids) == expected
        assert bpe.decode(ids) == expected.decode()
        assert bpe.tokens(ids) == [tokens[token_id] for token_id in ids]
        assert bpe.decode_each([ids, ids[:3]], None) == [expected, bpe.decode_bytes(ids[:3])]


def test_starts_in_characters() -> None:
    bpe = example()
    assert bpe.decode_with_starts([257, 0xC3, 0xA9, 259, 258]) == ("theéé the", [0, 3, 3, 4, 5])
    with pytest.raises(UnicodeDecodeError):
        bpe.decode_with_starts([0xC3])


def test_a_lenient_decoder_leaves_out_what_has_no_token() -> None:
    decoder = _core.LenientDecoder([b"a", b"", b"b" * 30, b"\xff"])
    assert decoder.decode([0, 1, 2, 7, 2**32 - 1, 0]) == "a" + "b" * 30 + "a"
    assert decoder.decode([3]) == "\ufffd"
    assert decoder.decode([0, 1, 7] * 2000) == "a" * 2000
    assert decoder.decode_each([[0], (2,), []]) == ["a", "b" * 30, ""]
    for wrong in (-1, 2**32):
        with pytest.raises(VocabError):
            decoder.decode([0, wrong])


def test_words() -> None:
    bpe, splitter = example(), _core.Splitter("gpt4")
    text = "the the<|x|><|x|>the!  the"
    ids = bpe.encode(text, "all", ())
    words = bpe.word_numbers(splitter, ids)
    assert words[:4] == [0, 1, 2, 3]
    pieces = ["the", " the", "<|x|>", "<|x|>", "the", "!", " ", " the"]
    spelled = [b""] * len(pieces)
    for token, word in zip(bpe.tokens(ids), words, strict=True):
        spelled[word] += token
    assert spelled == [piece.encode() for piece in pieces]
    assert bpe.word_numbers(splitter, []) == []


def trimmed(
    start: int, end: int, spaces: tuple[int, int], trim: tuple[bool, int], place: int
) -> tuple[int, int]:
    leading, trailing = spaces
    if not (leading == 1 and trim[0] and (start == 0 or place == trim[1])):
        start = min(start + leading, end)
    return start, max(end - trailing, start) if end >= trailing else end


@pytest.mark.parametrize("trims", [[], [(False, 0)], [(True, 0)], [(True, 2), (True, -1)]])
def test_offsets_in_pairs(trims: list[tuple[bool, int]]) -> None:
    bpe = example()
    rng = random.Random(2)
    special_spaces = {262: (1, 1)}
    for _ in range(200):
        text = "".join(
            rng.choice(["the", " the", " ", "  ", "é", " y ", "<|x|>"]) for _ in range(9)
        )
        ids = bpe.encode(text, "all", ())
        offsets = bpe.char_offsets(text, ids)
        numbers = memoryview(offsets).tolist()
        start = rng.randrange(len(ids) + 1)
        stop = rng.randrange(start, len(ids) + 1)
        expected: list[tuple[int, int]] = []
        for place in range(start, stop):
            pair = numbers[2 * place], numbers[2 * place + 1]
            token = bpe.tokens([ids[place]])[0].decode("latin-1")
            spaces = len(token) - len(token.lstrip(" ")), len(token) - len(token.rstrip(" "))
            for trim in trims:
                pair = trimmed(*pair, spaces, trim, place)
            expected.append(pair)
        assert bpe.offset_pairs(offsets, ids, start, stop, trims, special_spaces) == expected


def test_offsets_beyond_the_vocab_and_beyond_the_tokens() -> None:
    bpe = example()
    text = "the" * 400
    ids = bpe.encode(text, (), ())
    offsets = bpe.char_offsets(text, ids)
    pairs = bpe.offset_pairs(offsets, ids, 0, len(ids), [(False, 0)], {})
    assert pairs[-1] == (1197, 1200)
    with pytest.raises(IndexError):
        bpe.offset_pairs(offsets, ids, 0, len(ids) + 1, [], {})


def test_text_that_is_not_ascii_goes_another_way_to_the_same_place() -> None:
    words = ["日本", "語", "привет", "é", "a", "\ufeff", "😀", "ё" * 40]
    cut = [b"\xf0\x9f", b"\x98\x80", b"\xff", b"\xe6\x97"]
    spelled = [*(word.encode() for word in words), *cut]
    vocab = [*TOKENS, *spelled]
    bpe = _core.LenientDecoder(vocab)
    rng = random.Random(3)
    for length in (127, 128, 129, 500, 4095, 4096, 4097, 5000, 2**16, 2**16 + 1):
        for choices in (
            range(256, 264),
            [256, 257, 264, 265],
            range(256, 268),
            [0, *range(258, 264)],
        ):
            ids = rng.choices(choices, k=length)
            data = b"".join(vocab[token_id] for token_id in ids)
            for errors in ("replace", "ignore", "backslashreplace"):
                assert bpe.decode(ids, errors) == data.decode("utf-8", errors)
    assert bpe.decode([261] * 500) == "\ufeff" * 500
