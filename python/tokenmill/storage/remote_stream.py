"""An object elsewhere as a file that is open for reading: in order, or here and there.

A connection that breaks is made again from the byte that was reached, and only to the version that
was there at first: if the object changed in between, that is an error and never a mixture.
"""

import io
import tempfile
import threading
from typing import IO

from tokenmill.errors import SourceError
from tokenmill.storage.address import Address
from tokenmill.storage.remote import (
    READ_BYTES,
    Changed,
    Interruption,
    OutOfRange,
    RemoteBody,
    RemoteState,
    RemoteStore,
)
from tokenmill.storage.retries import DEFAULT_PATIENCE, Patience, Tries

SKIP_BYTES = 1 << 18
"""A jump this short is read over: cheaper than another request."""
FIRST_WINDOW_BYTES, LAST_WINDOW_BYTES = 1 << 20, 1 << 26
"""What is asked for after a jump, and at most later: a reader that jumps will jump again, and what
was on its way then is lost."""
IGNORED_RANGE_BYTES = 1 << 23
"""Beyond this, a server that always starts at 0 has its answer kept on disk."""


class RemoteStream(io.RawIOBase):
    """A RemoteState's bytes. `seek` costs nothing until the next read."""

    def __init__(
        self,
        store: RemoteStore,
        address: Address,
        state: RemoteState,
        patience: Patience = DEFAULT_PATIENCE,
    ) -> None:
        super().__init__()
        self._store = store
        self._address = address
        self._state = state
        self._tries = Tries(address.shown, patience, threading.Event())
        self._body: RemoteBody | None = None
        self._position = 0
        """Of the next read."""
        self._body_position = 0
        self._window_bytes: int | None = None
        """`None` until somebody jumps: who reads from the start reads to the end."""
        self._window_end: int | None = None
        self._spool: IO[bytes] | None = None

    @property
    def name(self) -> str:
        return self._address.shown

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._state.size is not None

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        if whence == io.SEEK_CUR:
            offset += self._position
        elif whence == io.SEEK_END:
            assert self._state.size is not None
            offset += self._state.size
        self._position = max(0, offset)
        return self._position

    def read(self, size: int = -1, /) -> bytes:
        """`size` bytes, or as many as there are before the end: who reads Parquet counts on it."""
        if size < 0:
            return self.readall()
        blocks: list[bytes] = []
        while size > 0:
            block = self._read_some(size)
            if not block:
                break
            blocks.append(block)
            self._position += len(block)
            size -= len(block)
        return blocks[0] if len(blocks) == 1 else b"".join(blocks)

    def readinto(self, buffer: "memoryview", /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        block = self.read(len(buffer))
        buffer[: len(block)] = block
        return len(block)

    def _read_some(self, size: int) -> bytes:
        while self._position != self._state.size:
            try:
                body = self._body_at_position()
                if self._spool is not None:
                    self._spool.seek(self._position)
                    return self._spool.read(size)
                block = body.read(size)
            except Interruption as interruption:
                self._drop()
                self._tries.failed(interruption)
                continue
            except OutOfRange:
                raise self._changed("it is shorter now") from None
            except Changed:
                raise self._changed("it is another version now") from None
            if block:
                self._tries.made_progress()
                self._body_position += len(block)
                return block
            if not self._is_at_window_end():
                break
            self._drop()
        if self._state.size not in (None, self._position):
            raise self._changed(f"it ends after {self._position:,} bytes")
        return b""

    def _is_at_window_end(self) -> bool:
        return self._window_end is not None and self._body_position >= self._window_end

    def _body_at_position(self) -> RemoteBody:
        if self._spool is not None and self._body is not None:
            return self._body
        gap = self._position - self._body_position
        if gap < 0 or gap > SKIP_BYTES:
            self._drop()
            self._window_bytes = FIRST_WINDOW_BYTES
        if self._body is None:
            self._body = self._connect()
        self._skip(self._body)
        return self._body

    def _connect(self) -> RemoteBody:
        self._window_end = None
        if self._window_bytes is not None and self._state.size is not None:
            self._window_end = min(self._position + self._window_bytes, self._state.size)
            self._window_bytes = min(4 * self._window_bytes, LAST_WINDOW_BYTES)
        body = self._store.open(
            self._address, self._position, self._window_end, self._state.validator
        )
        if not self._state.is_same_version(body.state):
            body.close()
            raise self._changed("it is another version now")
        # What the first answer says more, later ones must repeat.
        self._state = RemoteState(
            self._state.size if self._state.size is not None else body.state.size,
            self._state.etag or body.state.etag,
            self._state.last_modified or body.state.last_modified,
            self._state.sha256 or body.state.sha256,
        )
        self._body_position = body.start
        if self._position - body.start > IGNORED_RANGE_BYTES:
            self._spool = _spooled(body)
        return body

    def _skip(self, body: RemoteBody) -> None:
        while self._spool is None and self._body_position < self._position:
            block = body.read(min(READ_BYTES, self._position - self._body_position))
            if not block:
                raise self._changed(f"it ends after {self._body_position:,} bytes")
            self._body_position += len(block)

    def _changed(self, reason: str) -> SourceError:
        return SourceError(
            f"`{self._address.shown}` changed while it was read: {reason}",
            "run again; nothing that was read before is kept",
        )

    def _drop(self) -> None:
        if self._body is not None:
            self._body.close()
        self._body = None

    def close(self) -> None:
        if not self.closed:
            self._drop()
            if self._spool is not None:
                self._spool.close()
        super().close()


def _spooled(body: RemoteBody) -> IO[bytes]:
    spool = tempfile.TemporaryFile(prefix="tokenmill-")  # noqa: SIM115 - closed with the stream
    try:
        while block := body.read(READ_BYTES):
            spool.write(block)
    except BaseException:
        spool.close()
        raise
    return spool
