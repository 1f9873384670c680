"""Packed files as streams: gzip, bzip2 and zstd, any number of members or frames in a row.

Every failure is a SourceError naming the file and how far into the packed bytes it was: a cut, a
wrong checksum, bytes after the end that are no further member. gzip and bzip2 use Python's own
decoders: pyarrow's refuses a bzip2 stream without content between two others, and loading pyarrow
costs more memory than the counts of most corpora. zstd has no decoder in Python below 3.14, so
pyarrow's it is (zstd_stream.py).
"""

import bz2
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast

from tokenmill.errors import SourceError
from tokenmill.storage.files import unreadable

if TYPE_CHECKING:
    from tokenmill.sources.zstd_stream import ZstdStream

READ_BYTES = 1 << 18


class Readable(Protocol):
    """What the core reads from: bytes until there are none."""

    def read(self, size: int, /) -> bytes: ...


class ClosableReadable(Readable, Protocol):
    """A Readable that holds a file open."""

    def close(self) -> None: ...


class _Member(Protocol):
    """One gzip member or bzip2 stream being decoded."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decode(self, packed: bytes, size: int) -> bytes: ...
    def wants_input(self) -> bool: ...


class _GzipMember:
    def __init__(self) -> None:
        self._decoder = zlib.decompressobj(wbits=31)  # 31: gzip header and checksum, nothing else

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data

    def decode(self, packed: bytes, size: int) -> bytes:
        return self._decoder.decompress(self._decoder.unconsumed_tail + packed, size)

    def wants_input(self) -> bool:
        return not self._decoder.unconsumed_tail


class _Bzip2Stream:
    def __init__(self) -> None:
        self._decoder = bz2.BZ2Decompressor()

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data

    def decode(self, packed: bytes, size: int) -> bytes:
        return self._decoder.decompress(packed, size)

    def wants_input(self) -> bool:
        return self._decoder.needs_input


class MemberStream:
    """The text of gzip or bzip2 bytes, member after member."""

    def __init__(self, raw: BinaryIO, name: str, new_member: Callable[[], _Member]) -> None:
        self._raw = raw
        self._name = name
        self._new_member = new_member
        self._member: _Member | None = new_member()
        self._packed_bytes = 0
        self._pending = b""

    def position(self) -> int:
        """Packed bytes taken from the file so far."""
        return self._packed_bytes

    def close(self) -> None:
        self._raw.close()

    def read(self, size: int, /) -> bytes:
        while self._member is not None:
            packed = self._next_input() if self._member.wants_input() else b""
            try:
                text = self._member.decode(packed, size)
            except (zlib.error, OSError, ValueError) as error:
                raise self._corrupt(str(error)) from error
            if self._member.eof:
                self._start_next_member()
            if text:
                return text
        return b""

    def _next_input(self) -> bytes:
        packed, self._pending = self._pending, b""
        packed = packed or self._read_raw()
        if not packed:
            raise self._corrupt("the file ends before its content does")
        return packed

    def _start_next_member(self) -> None:
        assert self._member is not None
        self._pending = self._member.unused_data or self._read_raw()
        self._member = self._new_member() if self._pending else None

    def _read_raw(self) -> bytes:
        try:
            packed = self._raw.read(READ_BYTES)
        except OSError as error:
            raise unreadable(Path(self._name), error) from error
        self._packed_bytes += len(packed)
        return packed

    def _corrupt(self, reason: str) -> SourceError:
        return corrupt(self._name, self._packed_bytes, reason)


def corrupt(name: str, offset: int, reason: str) -> SourceError:
    """A packed file that cannot be unpacked to its end."""
    return SourceError(
        f"`{name}` is corrupt or cut short near packed byte {offset:,}: {reason}",
        "fetch or pack the file again",
    )


def decompressed(raw: BinaryIO, compression: str, name: str) -> "MemberStream | ZstdStream":
    """A stream of what `raw` holds packed as `gz`, `bz2` or `zst`."""
    if compression == "gz":
        return MemberStream(raw, name, _GzipMember)
    if compression == "bz2":
        return MemberStream(raw, name, _Bzip2Stream)
    from tokenmill.sources.zstd_stream import ZstdStream

    return ZstdStream(raw, name)


def open_compressed(path: Path, compression: str) -> "MemberStream | ZstdStream":
    """The unpacked bytes of the file at `path`."""
    return decompressed(open_raw(path), compression, str(path))


def open_raw(path: Path) -> BinaryIO:
    """The file's bytes, unbuffered: whoever reads asks for large blocks."""
    try:
        return cast("BinaryIO", open(path, "rb", buffering=0))
    except OSError as error:
        raise unreadable(path, error) from error
