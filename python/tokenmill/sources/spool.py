"""Streams that must be entered at their end: spooled to an unnamed file on disk, never into memory."""

import io
import tempfile
from typing import IO, cast

from tokenmill.sources.compression import READ_BYTES, Readable


def spooled(head: bytes, rest: Readable) -> IO[bytes]:
    """A seekable file of `head`, which was read already, and `rest`. A file that can be entered
    anywhere, here or elsewhere, is its own spool."""
    if isinstance(rest, io.RawIOBase) and rest.seekable():
        rest.seek(0)
        return cast("IO[bytes]", rest)
    spool = tempfile.TemporaryFile(prefix="tokenmill-")  # noqa: SIM115 - closed with the source
    try:
        spool.write(head)
        while block := rest.read(READ_BYTES):
            spool.write(block)
        spool.seek(0)
    except BaseException:
        spool.close()
        raise
    return spool
