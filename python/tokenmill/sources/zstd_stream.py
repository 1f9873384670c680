# pyright: basic
# (pyarrow has no types to be strict about)
"""zstd as a stream, through pyarrow. compression.py says what every packed stream promises."""

from typing import BinaryIO

import pyarrow as pa

from tokenmill.sources.compression import corrupt


class ZstdStream:
    """The text of zstd bytes, frame after frame."""

    def __init__(self, raw: BinaryIO, name: str) -> None:
        self._raw = _CountingFile(raw)
        self._name = name
        self._stream = pa.CompressedInputStream(pa.PythonFile(self._raw, mode="r"), "zstd")

    def position(self) -> int:
        """Packed bytes taken from the file so far."""
        return self._raw.num_bytes

    def close(self) -> None:
        self._stream.close()
        self._raw.close()

    def read(self, size: int, /) -> bytes:
        try:
            text: bytes = self._stream.read(size)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise corrupt(self._name, self._raw.num_bytes, _reason(error)) from error
        if not text and self._raw.num_bytes == 0:
            # A download that never began looks like this; pyarrow takes it for an empty text.
            raise corrupt(self._name, 0, "the file is empty")
        return text


class _CountingFile:
    """Knows how much was read, which a pipe does not."""

    closed = False

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self.num_bytes = 0

    def read(self, size: int = -1, /) -> bytes:
        packed = self._raw.read(size)
        self.num_bytes += len(packed)
        return packed

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self.closed = True
        self._raw.close()


def _reason(error: Exception) -> str:
    text = str(error)
    return "the file ends before its content does" if "Truncated" in text else text
