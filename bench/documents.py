"""Read documents as peers get them: one pass over a file in blocks, never the whole file in memory.

Loaded by every peer's process, so it imports nothing but the standard library. The rules are those of
tokenmill's own reader: cut at the separator's bytes, a UTF-8 BOM at byte 0 dropped, no empty documents, no
change of line ends, UTF-8 or an error.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

BLOCK_BYTES = 1 << 20
BOM = b"\xef\xbb\xbf"


def stream_documents(
    path: str | Path,
    separator: str,
    *,
    block_bytes: int = BLOCK_BYTES,
    start: int = 0,
    stop: int | None = None,
) -> Iterator[str]:
    """The documents of a plain text file, in order. Linear also when one document fills the file.

    With `start` and `stop` only those between two bytes, at each of which a document begins or ends."""
    cut = separator.encode()
    if not cut:
        raise ValueError("the separator is empty")
    with open(path, "rb", buffering=0) as file:
        file.seek(start)
        left = (os.fstat(file.fileno()).st_size if stop is None else stop) - start
        held = bytearray(file.read(min(left, max(block_bytes, len(BOM)))))
        left -= len(held)
        if start == 0 and held.startswith(BOM):
            del held[: len(BOM)]
        searched = 0
        while True:
            begin = 0
            while (end := held.find(cut, searched)) >= 0:
                if end > begin:
                    yield held[begin:end].decode("utf-8")
                begin = searched = end + len(cut)
            del held[:begin]
            # The last bytes may be the first half of a separator; everything before them was searched.
            searched = max(0, len(held) - len(cut) + 1)
            block = file.read(min(left, block_bytes))
            if not block:
                break
            left -= len(block)
            held += block
        if held:
            yield held.decode("utf-8")


def cut_in_parts(path: str | Path, separator: str, parts: int) -> list[tuple[int, int]]:
    """(start, stop) of so many parts of a file, about equally long, cut at separators."""
    cut, size = separator.encode(), os.stat(path).st_size
    starts = [0]
    with open(path, "rb") as file:
        for part in range(1, parts):
            at = max(size * part // parts, starts[-1])
            file.seek(at)
            held = b""
            while (found := held.find(cut)) < 0 and (block := file.read(BLOCK_BYTES)):
                held += block
            starts.append(size if found < 0 else at + found + len(cut))
    return list(zip(starts, [*starts[1:], size], strict=True))


def write_documents(path: Path, documents: Iterable[str], separator: str) -> int:
    """One after another with the separator between, on the disk when this returns; the bytes of all documents."""
    num_bytes, between = 0, b""
    with path.open("wb", buffering=BLOCK_BYTES) as file:
        for document in documents:
            data = document.encode()
            file.write(between)
            file.write(data)
            num_bytes, between = num_bytes + len(data), separator.encode()
        file.flush()
        os.fsync(file.fileno())  # or it would be written while something is timed
    return num_bytes


def read_through(path: Path) -> None:
    """Read a file once, so that every timed run finds it in the page cache."""
    with path.open("rb", buffering=0) as file:
        while file.read(BLOCK_BYTES):
            pass
