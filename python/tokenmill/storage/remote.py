"""What is known about an object elsewhere, and what can be asked of the store that holds it.

Whatever the store, a failure is one of four things: an `Interruption` that is worth another try, an
object that `Changed`, a range that is `OutOfRange`, or a SourceError that no patience mends.
"""

from dataclasses import dataclass
from typing import Protocol

from tokenmill.errors import ConfigError
from tokenmill.storage.address import Address

READ_BYTES = 1 << 18


@dataclass(frozen=True)
class RemoteState:
    """Size and version of an object, as far as its server states them."""

    size: int | None = None
    etag: str | None = None
    last_modified: str | None = None
    sha256: str | None = None
    """In hex, where the server vouches for the content."""

    @property
    def validator(self) -> str | None:
        """What `If-Range` takes: a strong ETag, else the date of the last change."""
        if self.etag is not None and not self.etag.startswith("W/"):
            return self.etag
        return self.last_modified

    def is_same_version(self, other: "RemoteState") -> bool:
        """Whether both are one version, by the best evidence that both have."""
        if self.size is not None and other.size is not None and self.size != other.size:
            return False
        if self.sha256 is not None and other.sha256 is not None:
            return self.sha256 == other.sha256
        if self.etag is not None and other.etag is not None:
            # A proxy that packs on the way makes an ETag weak; the version is the same.
            return self.etag.removeprefix("W/") == other.etag.removeprefix("W/")
        return self.last_modified == other.last_modified or None in (
            self.last_modified,
            other.last_modified,
        )


class Interruption(Exception):
    """A failure that may be gone the next time: a cut connection, a busy server."""

    def __init__(self, reason: str, wait_seconds: float | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.wait_seconds = wait_seconds
        """What the server asked for, if it asked."""


class Changed(Exception):
    """The object is not the version that was asked for any more."""


class OutOfRange(Exception):
    """The object has no such bytes."""

    def __init__(self, size: int | None) -> None:
        super().__init__(size)
        self.size = size


class RemoteBody(Protocol):
    """Bytes of an object as they arrive."""

    @property
    def state(self) -> RemoteState: ...
    @property
    def start(self) -> int:
        """Offset of the first byte; 0 if the server would not start where it was asked to."""
        ...

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes, none at the end. Interruption if the end comes early."""
        ...

    def close(self) -> None: ...


class RemoteStore(Protocol):
    """A server, or many that speak one protocol."""

    def stat(self, address: Address) -> RemoteState: ...
    def open(
        self,
        address: Address,
        start: int = 0,
        end: int | None = None,
        validator: str | None = None,
    ) -> RemoteBody:
        """Bytes from `start` to `end` (exclusive) of the version that `validator` names. A server
        that cannot give these gives all of what it has now, from 0; `body.start` tells."""
        ...

    def find(self, folder: Address) -> list[tuple[Address, RemoteState]]:
        """Every object below `folder`, sorted by path."""
        ...


def store_of(address: Address) -> RemoteStore:
    """The store that `address` belongs to."""
    if address.is_http:
        from tokenmill.storage.http import HttpStore

        return HttpStore()
    if address.scheme == "hf":
        from tokenmill.storage.hub import HubStore

        return HubStore()
    try:
        from tokenmill.storage.object_store import ObjectStore
    except ImportError as error:
        raise ConfigError(
            f"reading `{address.shown}` needs the package `obstore`",
            "install it with `pip install 'tokenmill[cloud]'`",
        ) from error
    return ObjectStore()
