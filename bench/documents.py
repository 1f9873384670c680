"""Read documents as peers get them: one pass over a file in blocks, never the whole file in memory.

Loaded by every peer's process, so it imports nothing but the standard library. The rules are those of
tokenmill's own reader: cut at the separator's bytes, a UTF-8 BOM at byte 0 dropped, no empty documents, no
change of line ends, UTF-8 or an error.
"""

from collections.abc import Iterator
from pathlib import Path

BLOCK_BYTES = 1 << 20
BOM = b"\xef\xbb\xbf"


def stream_documents(
    path: str | Path, separator: str, *, block_bytes: int = BLOCK_BYTES
) -> Iterator[str]:
    """The documents of a plain text file, in order. Linear also when one document fills the file."""
    cut = separator.encode()
    if not cut:
        raise ValueError("the separator is empty")
    with open(path, "rb", buffering=0) as file:
        held = bytearray(file.read(max(block_bytes, len(BOM))))
        if held.startswith(BOM):
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
            block = file.read(block_bytes)
            if not block:
                break
            held += block
        if held:
            yield held.decode("utf-8")


def read_through(path: Path) -> None:
    """Read a file once, so that every timed run finds it in the page cache."""
    with path.open("rb", buffering=0) as file:
        while file.read(BLOCK_BYTES):
            pass
