"""Objects in S3 and Google Cloud Storage, through obstore; the only module that imports it.

Who asks, and where, is said by the environment as everywhere: `AWS_ACCESS_KEY_ID`, `AWS_REGION`,
`AWS_ENDPOINT_URL`, `AWS_SKIP_SIGNATURE=true` for public buckets; `GOOGLE_APPLICATION_CREDENTIALS`,
`GOOGLE_SKIP_SIGNATURE=true`, `STORAGE_EMULATOR_HOST`.
"""

import functools
import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from email.utils import format_datetime
from typing import Any

import obstore
from obstore.exceptions import (
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import GCSStore, S3Store

from tokenmill.errors import SourceError
from tokenmill.storage.address import Address
from tokenmill.storage.remote import READ_BYTES, Changed, Interruption, OutOfRange, RemoteState

LIST_PAGE = 1000


class ObjectStore:
    """S3, Google Cloud Storage, and what speaks like them."""

    def stat(self, address: Address) -> RemoteState:
        try:
            return _state(obstore.head(_bucket(address.scheme, address.place), address.path))
        except (OSError, ValueError, BaseError) as error:
            raise _meaning(address, error) from error

    def open(
        self,
        address: Address,
        start: int = 0,
        end: int | None = None,
        validator: str | None = None,
    ) -> "ObjectBody":
        options: dict[str, Any] = {}
        if end is not None:
            options["range"] = (start, end)
        elif start > 0:
            options["range"] = {"offset": start}
        if validator is not None:
            options["if_match"] = validator
        try:
            bucket = _bucket(address.scheme, address.place)
            got = obstore.get(bucket, address.path, options=options or None)  # pyright: ignore[reportArgumentType]
            return ObjectBody(address, got)
        except (OSError, ValueError, BaseError) as error:
            raise _meaning(address, error) from error

    def find(self, folder: Address) -> list[tuple[Address, RemoteState]]:
        prefix = folder.path.strip("/")
        found: list[tuple[Address, RemoteState]] = []
        try:
            pages: Any = obstore.list(  # pyright: ignore[reportUnknownMemberType]
                _bucket(folder.scheme, folder.place), prefix or None, chunk_size=LIST_PAGE
            )
            for page in pages:
                found.extend((folder.at(meta["path"]), _state(meta)) for meta in page)
        except (OSError, ValueError, BaseError) as error:
            raise _meaning(folder, error) from error
        return sorted(found, key=lambda each: each[0].path)


class ObjectBody:
    """The bytes of one answer."""

    def __init__(self, address: Address, got: Any) -> None:
        self._address = address
        self.state = _state(got.meta)
        self.start, end = got.range
        self._left: int = end - self.start
        self._blocks: Iterator[Any] = iter(got.stream(min_chunk_size=READ_BYTES))
        self._pending = memoryview(b"")

    def read(self, size: int, /) -> bytes:
        if not self._pending and self._left > 0:
            try:
                self._pending = memoryview(next(self._blocks))
            except StopIteration:
                reason = f"the connection was cut {self._left:,} bytes before the end"
                raise Interruption(reason) from None
            except (OSError, BaseError) as error:
                raise Interruption(_first_line(error)) from error
        block, self._pending = self._pending[:size], self._pending[size:]
        self._left -= len(block)
        return bytes(block)

    def close(self) -> None:
        self._blocks, self._pending = iter(()), memoryview(b"")


@functools.lru_cache(maxsize=64)
def _bucket(scheme: str, name: str) -> Any:
    # A few quick tries of its own; the patience is ours (retries.py).
    retry: Any = {"max_retries": 2, "retry_timeout": timedelta(seconds=20)}
    if scheme == "s3":
        place = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        place = place or os.environ.get("AWS_ENDPOINT") or ""
        options: Any = {"allow_http": True} if place.startswith("http://") else None
        return S3Store(name, client_options=options, retry_config=retry)
    emulator = os.environ.get("STORAGE_EMULATOR_HOST")
    if emulator:
        url = emulator if "://" in emulator else f"http://{emulator}"
        return GCSStore(
            name,
            config={"base_url": url.rstrip("/"), "skip_signature": True},
            client_options={"allow_http": True},
            retry_config=retry,
        )
    return GCSStore(name, retry_config=retry)


def _state(meta: Any) -> RemoteState:
    changed: datetime = meta["last_modified"]
    return RemoteState(meta["size"], meta["e_tag"], format_datetime(changed))


def _meaning(address: Address, error: Exception) -> Exception:
    if isinstance(error, FileNotFoundError):
        return SourceError(f"`{address.shown}` does not exist")
    if isinstance(error, PreconditionError):
        return Changed(address.shown)
    if isinstance(error, (PermissionDeniedError, UnauthenticatedError)):
        return SourceError(
            f"`{address.shown}` may not be read: {_first_line(error)}",
            "are the right credentials in the environment?",
        )
    text = str(error)
    if "416 Range Not Satisfiable" in text or "<Code>InvalidRange<" in text:
        return OutOfRange(None)
    if "404 Not Found" in text or "<Code>NoSuchBucket<" in text:
        return SourceError(f"`{address.scheme}://{address.place}` does not exist")
    return Interruption(_first_line(error))


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
