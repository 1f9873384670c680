"""What peers are fed must be what tokenmill's own reader reads: the comparison rests on it."""

from pathlib import Path

import pytest
from bench.documents import stream_documents

SEPARATOR = "<|endoftext|>"


def written(folder: Path, data: bytes) -> Path:
    path = folder / "corpus.txt"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("block_bytes", [1, 2, 3, 7, 13, 14, 64, 1 << 20])
def test_blocks_of_any_size_give_the_same_documents(tmp_path: Path, block_bytes: int) -> None:
    text = (
        "one\r\n<|endoftext|><|endoftext|>zwei äöü 漢字<|endoftext|><|endoftext|x<|endoftext|>last"
    )
    path = written(tmp_path, text.encode())
    documents = list(stream_documents(path, SEPARATOR, block_bytes=block_bytes))
    assert documents == ["one\r\n", "zwei äöü 漢字", "<|endoftext|x", "last"]


@pytest.mark.parametrize("block_bytes", [1, 2, 5])
def test_a_separator_that_overlaps_itself_is_found_from_the_left(
    tmp_path: Path, block_bytes: int
) -> None:
    path = written(tmp_path, b"xaaay" + b"aa" + b"z")
    assert list(stream_documents(path, "aa", block_bytes=block_bytes)) == ["x", "ay", "z"]


def test_a_byte_order_mark_is_dropped_at_the_start_only(tmp_path: Path) -> None:
    path = written(tmp_path, b"\xef\xbb\xbfa<|endoftext|>\xef\xbb\xbfb")
    assert list(stream_documents(path, SEPARATOR, block_bytes=1)) == ["a", "\ufeffb"]


@pytest.mark.parametrize("data", [b"", b"<|endoftext|>", b"\xef\xbb\xbf"])
def test_no_text_is_no_document(tmp_path: Path, data: bytes) -> None:
    assert list(stream_documents(written(tmp_path, data), SEPARATOR)) == []


def test_invalid_utf8_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UnicodeDecodeError):
        list(stream_documents(written(tmp_path, b"a\xffb"), SEPARATOR))


def test_an_empty_separator_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="separator"):
        list(stream_documents(written(tmp_path, b"a"), ""))
