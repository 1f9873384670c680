"""SentencePiece models: described and refused, and never mistaken for anything else."""

import random
import struct

import pytest

from tokenmill.errors import FormatError
from tokenmill.tokenizer.formats import sentencepiece


def number(value: int) -> bytes:
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def part(field: int, data: bytes) -> bytes:
    return number(field << 3 | 2) + number(len(data)) + data


def whole(field: int, value: int) -> bytes:
    return number(field << 3) + number(value)


def piece(text: str, kind: int = 1) -> bytes:
    score = number(2 << 3 | 5) + struct.pack("<f", -1.5)
    return part(1, part(1, text.encode()) + score + (whole(3, kind) if kind != 1 else b""))


PIECES = piece("<unk>", 2) + piece("<s>", 3) + piece("<0x41>", 6) + piece("▁the")
LLAMA = PIECES + part(2, whole(3, 2) + whole(4, 4)) + part(3, part(1, b"identity") + whole(4, 0))


def test_a_model_says_what_it_is() -> None:
    assert sentencepiece.looks_like(LLAMA)
    assert str(sentencepiece.describe(LLAMA, "x.model")) == (
        "BPE, 4 pieces, normalizer `identity`, a space before each text, unknown characters as bytes"
    )
    unigram = PIECES + part(3, part(1, b"nmt_nfkc") + whole(3, 0))
    assert str(sentencepiece.describe(unigram, "x.model")) == (
        "unigram, 4 pieces, normalizer `nmt_nfkc`, runs of spaces made one, "
        "unknown characters as bytes"
    )


def test_the_refusal_says_why_and_what_to_do() -> None:
    with pytest.raises(FormatError, match=r"`x\.model` is a SentencePiece model \(BPE") as caught:
        sentencepiece.refuse(LLAMA, "x.model")
    assert "not byte-level BPE" in caught.value.message
    assert "Llama 3" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "data",
    [b"", b"IQ== 0\nIg== 1\n", b'{"version": "1.0"}', b"\n", b"\n\x0b", b"GGUF\x03", b"\x80\x04"],
)
def test_other_files_do_not_look_like_one(data: bytes) -> None:
    assert not sentencepiece.looks_like(data)


def problem_of(data: bytes) -> str | None:
    try:
        sentencepiece.describe(data, "x")
    except FormatError as error:
        return error.message
    return None


def test_cut_and_broken_files_are_errors_or_described() -> None:
    problems = [problem_of(LLAMA[:end]) for end in range(1, len(LLAMA) + 1)]
    # It may end between two fields, and nowhere else.
    assert problems.count(None) == 6
    rng = random.Random(4)
    for _ in range(500):
        data = bytearray(LLAMA)
        data[rng.randrange(len(data))] = rng.randrange(256)
        problems.append(problem_of(bytes(data)))
    assert all(problem is None or "`x`" in problem for problem in problems)


def test_sizes_that_lie_are_not_believed() -> None:
    with pytest.raises(FormatError, match="see byte 0"):
        sentencepiece.describe(b"\n" + number(1 << 60), "x")
    with pytest.raises(FormatError, match="see byte"):
        sentencepiece.describe(b"\n" + b"\xff" * 40, "x")
