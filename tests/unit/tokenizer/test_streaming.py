"""Text that arrives in parts: encode_iterable, encode_file, DecodeStream."""

import gzip
import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tokenmill as tm
from tokenmill.errors import ConfigError, SourceError, VocabError
from tokenmill.tokenizer import streaming
from tokenmill.tokenizer.tokenizer import Tokenizer

BYTES = {byte: bytes([byte]) for byte in range(256)}
MERGES = [(b"t", b"h"), (b"th", b"e"), (b" ", b"the"), (b"\xe6", b"\xbc"), (b"!", b"\xe6\xbc")]
VOCAB = BYTES | {256 + i: left + right for i, (left, right) in enumerate(MERGES)}
END = 256 + len(MERGES)
TEXT = "the cat and the漢 hat!漢 the\r\n\r\n  the end of the text, 12345\n"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_vocab(VOCAB, MERGES, ["<|end|>"], "gpt4")


def in_parts(text: Any, size: int) -> Iterator[Any]:
    return (text[start : start + size] for start in range(0, len(text), size))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 100])
def test_chunks_of_any_size(tokenizer: Tokenizer, size: int) -> None:
    ids = tokenizer.encode(TEXT)
    assert list(tokenizer.encode_iterable(in_parts(TEXT, size))) == ids
    assert list(tokenizer.encode_iterable(in_parts(TEXT.encode(), size))) == ids


def test_empty_chunks_and_no_chunks(tokenizer: Tokenizer) -> None:
    assert list(tokenizer.encode_iterable(["", "th", "", b"", b"e"])) == [257]
    assert list(tokenizer.encode_iterable([])) == []
    assert list(tokenizer.encode_iterable([""])) == []


def test_one_text_is_one_chunk(tokenizer: Tokenizer) -> None:
    assert list(tokenizer.encode_iterable("the the")) == [257, 258]
    assert list(tokenizer.encode_iterable(b"the the")) == [257, 258]


def test_ids_are_plain_numbers_and_come_while_the_text_does(tokenizer: Tokenizer) -> None:
    asked = 0

    def endless() -> Iterator[str]:
        nonlocal asked
        while True:
            asked += 1
            yield "the cat, "

    ids = tokenizer.encode_iterable(endless())
    assert asked == 0
    first = [next(ids) for _ in range(10)]
    assert first == tokenizer.encode("the cat, " * 10)[:10]
    assert {type(token_id) for token_id in first} == {int}
    assert asked < 10


@pytest.mark.parametrize("block", [1, 7, 1 << 18])
def test_open_files(
    tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(streaming, "BLOCK_SIZE", block)
    path = tmp_path / "text.txt"
    path.write_bytes(TEXT.encode())
    ids = tokenizer.encode(TEXT)
    with path.open("rb") as binary:
        assert list(tokenizer.encode_iterable(binary)) == ids
    with path.open(encoding="utf-8", newline="") as text:
        assert list(tokenizer.encode_iterable(text)) == ids
    with path.open(encoding="utf-8") as text:
        # Python's text mode makes \r\n one \n before anybody sees it.
        assert list(tokenizer.encode_iterable(text)) == tokenizer.encode(TEXT.replace("\r", ""))
    with gzip.open(tmp_path / "text.gz", "wb") as packed:
        packed.write(TEXT.encode())
    with gzip.open(tmp_path / "text.gz") as packed:
        assert list(tokenizer.encode_iterable(packed)) == ids
    assert list(tokenizer.encode_iterable(io.StringIO(TEXT, newline=""))) == ids
    assert list(tokenizer.encode_iterable(io.BytesIO(TEXT.encode()))) == ids


def test_half_characters_are_not_put_together(tokenizer: Tokenizer) -> None:
    # Two halves of a surrogate pair are two characters in Python, however the text is cut.
    high, low = "\ud83d", "\ude00"
    together = tokenizer.encode(high + low)
    assert together == [0xED, 0xA0, 0xBD, 0xED, 0xB8, 0x80]
    assert list(tokenizer.encode_iterable([high, low])) == together
    assert together != tokenizer.encode("\U0001f600")


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 7, 50])
def test_special_tokens_across_cuts(tokenizer: Tokenizer, size: int) -> None:
    text = "the<|end|>the <|end|> <|end<|end|>|>"
    for cut in (in_parts(text, size), in_parts(text.encode(), size)):
        ids = list(tokenizer.encode_iterable(cut, allowed_special="all"))
        assert ids == tokenizer.encode(text, allowed_special="all")
        assert ids.count(END) == 3
    with pytest.raises(VocabError, match=r"special token `<\|end\|>`"):
        list(tokenizer.encode_iterable(in_parts(text, size)))
    ordinary = list(tokenizer.encode_iterable(in_parts(text, size), disallowed_special=()))
    assert ordinary == tokenizer.encode_ordinary(text)


def test_ids_before_a_special_token_that_is_not_allowed_still_come(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode_iterable(["the cat. " * 50, "the<|end|>"])
    assert [next(ids) for _ in range(5)] == tokenizer.encode("the cat. the")[:5]
    with pytest.raises(VocabError):
        list(ids)


def test_bad_arguments_raise_at_once(tokenizer: Tokenizer) -> None:
    with pytest.raises(VocabError, match=r"`<\|eot\|>` is not a special token"):
        tokenizer.encode_iterable([], allowed_special={"<|eot|>"})
    with pytest.raises(ConfigError, match="not `all` or a set"):
        tokenizer.encode_file("absent.txt", disallowed_special="<|end|>")
    with pytest.raises(TypeError, match="found `int`"):
        list(tokenizer.encode_iterable([1, 2]))  # type: ignore[list-item]


@pytest.mark.parametrize("chunk_bytes", [1, 2, 5, 1 << 22])
@pytest.mark.parametrize("threads", [1, 2, None])
def test_a_file(
    tokenizer: Tokenizer, tmp_path: Path, chunk_bytes: int, threads: int | None
) -> None:
    path = tmp_path / "text.txt"
    path.write_bytes(TEXT.encode() + b"\xff\0<|end|>")
    parts = list(
        tokenizer.encode_file(path, chunk_bytes=chunk_bytes, threads=threads, allowed_special="all")
    )
    assert all(part.dtype == np.uint16 and len(part) for part in parts)
    assert np.concatenate(parts).tolist() == [*tokenizer.encode(TEXT), 0xFF, 0, END]
    assert len(parts) > 1 or chunk_bytes > 5


def test_a_file_is_never_held_whole(tmp_path: Path) -> None:
    """48 MB pass through a process whose peak grows by less than half of that, cache included."""
    with (tmp_path / "large.txt").open("wb") as file:
        for number in range(48):
            file.write(f"{number} cats and the mat. ".encode().ljust(32) * (1 << 15))
    program = (
        "import resource, sys\n"
        "from tokenmill import Tokenizer\n"
        "tokenizer = Tokenizer.from_vocab({byte: bytes([byte]) for byte in range(256)}, [])\n"
        "tokenizer.encode_to_numpy('the cat ' * 100_000)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "arrays = tokenizer.encode_file(sys.argv[1], chunk_bytes=1 << 20, threads=2)\n"
        "num_tokens = sum(map(len, arrays))\n"
        "print(num_tokens, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "large.txt")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    num_tokens, growth_kilobytes = map(int, done.stdout.split())
    assert num_tokens == 48 << 20
    assert growth_kilobytes < 24 << 10


def test_an_empty_file_has_no_arrays(tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    assert list(tokenizer.encode_file(str(tmp_path / "empty.txt"))) == []


def test_files_that_cannot_be_encoded(tokenizer: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"absent.txt` cannot be read: No such file"):
        list(tokenizer.encode_file(tmp_path / "absent.txt"))
    with pytest.raises(SourceError, match="cannot be read: Is a directory"):
        list(tokenizer.encode_file(tmp_path))
    with pytest.raises(SourceError, match=r"a.txt.gz` is packed"):
        tokenizer.encode_file(tmp_path / "a.txt.gz")
    for chunk_bytes in (0, -1, 1.5):
        with pytest.raises(ConfigError, match=f"chunk_bytes is `{chunk_bytes}`"):
            tokenizer.encode_file(tmp_path / "a.txt", chunk_bytes=chunk_bytes)  # type: ignore[arg-type]


def test_decode_stream_holds_back_half_a_character(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("the!漢")
    assert ids == [257, 260, 0xA2], "the second token is `!` and two bytes of the character"
    stream = tokenizer.decode_stream()
    assert isinstance(stream, tm.DecodeStream)
    assert [stream.feed(token_id) for token_id in ids] == ["the", "!", "漢"]
    assert stream.finish() == ""


def test_decode_stream_takes_ids_as_they_come(tokenizer: Tokenizer) -> None:
    stream = tokenizer.decode_stream()
    assert stream.feed([257, 258]) == "the the"
    assert stream.feed(np.array([257], np.uint16)) == "the"
    assert stream.feed(np.uint32(257)) == "the"
    assert stream.feed(()) == ""
    assert stream.feed(iter([97, 98])) == "ab"
    assert stream.feed(END) == "<|end|>"


def test_decode_stream_ends_by_its_errors(tokenizer: Tokenizer) -> None:
    for errors, end in (("replace", "\ufffd"), ("ignore", ""), ("surrogateescape", "\udce6\udcbc")):
        stream = tokenizer.decode_stream(errors)
        assert stream.feed([97, 259]) == "a"
        assert stream.finish() == end
        assert stream.feed([0x97, 97])[-1] == "a", "a new text begins"
        assert stream.finish() == ""
    strict = tokenizer.decode_stream("strict")
    assert strict.feed(259) == ""
    with pytest.raises(UnicodeDecodeError):
        strict.feed(97)


def test_decode_stream_and_unknown_ids(tokenizer: Tokenizer) -> None:
    stream = tokenizer.decode_stream()
    stream.feed(259)
    for unknown in (5000, [97, 5000], -1):
        with pytest.raises(VocabError, match="is not in the vocab"):
            stream.feed(unknown)
    assert stream.feed(0xA2) == "漢", "what was refused left no trace"
    with pytest.raises(LookupError, match="unknown error handler"):
        tokenizer.decode_stream("sloppy").feed([0xFF, 97])
