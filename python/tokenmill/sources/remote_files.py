"""Objects elsewhere as sources: text streams as it arrives, Parquet is read where the rows are.

An object is known by its size and version before the first byte is read, and stays that version to
the last. Nothing is written to this machine, except where a format must be entered at its end and the
server has no ranges.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from tokenmill.errors import ConfigError, SourceError
from tokenmill.sources.compression import decompressed
from tokenmill.sources.formats import FORMATS, Format, format_of_name, is_invisible, parse_format
from tokenmill.sources.options import ReadOptions
from tokenmill.sources.shards import choose_shards
from tokenmill.sources.source import OpenedSource, Part
from tokenmill.sources.text_files import documents_in
from tokenmill.storage.address import Address
from tokenmill.storage.remote import RemoteState, store_of

if TYPE_CHECKING:
    from tokenmill.storage.remote_stream import RemoteStream


@dataclass(frozen=True)
class RemoteFile:
    """An object elsewhere, as it was when it was listed."""

    address: Address
    """On the Hub at one commit."""
    format: Format
    state: RemoteState
    name: str
    """The address as people named it."""

    @property
    def file_name(self) -> str:
        return self.address.name

    @property
    def size_in_bytes(self) -> int | None:
        return self.state.size

    @property
    def identity(self) -> dict[str, object]:
        """What names this version of the object; work units are named after it."""
        version = self.state.sha256 or self.version
        return {"file": self.name, "size": self.state.size, "version": version}

    @property
    def version(self) -> str | None:
        """What the server states where it states no sha256: an ETag or a date."""
        return None if self.state.sha256 else self.state.etag or self.state.last_modified

    @property
    def is_stored(self) -> bool:
        """Whether it can be read again and known for the same: its server states size and version."""
        return self.state.size is not None and self.identity["version"] is not None

    def sha256(self, stop: Callable[[], bool]) -> str | None:
        """Of its content, if the server states it. Fetching it once more to find out would cost more
        than it tells."""
        return self.state.sha256

    def open_bytes(self) -> BinaryIO:
        """Its bytes as they are stored."""
        return cast("BinaryIO", self._stream())

    def _stream(self) -> "RemoteStream":
        from tokenmill.storage.remote_stream import RemoteStream

        return RemoteStream(store_of(self.address), self.address, self.state)

    def open(self, options: ReadOptions, part: Part | None = None) -> OpenedSource:
        kind, compression = self.format
        stream = self._stream()
        try:
            if kind == "parquet" and compression is None and stream.seekable():
                from tokenmill.sources.parquet_rows import open_parquet

                opened = open_parquet(cast("BinaryIO", stream), self.name, options.field, part)
            else:
                opened = self._open_stream(stream, options)
        except BaseException:
            stream.close()
            raise
        opened.closers.insert(0, stream.close)
        return opened

    def _open_stream(self, stream: "RemoteStream", options: ReadOptions) -> OpenedSource:
        kind, compression = self.format
        raw = cast("BinaryIO", stream)
        if compression is None:
            opened = documents_in(raw, self.name, kind, options)
        else:
            opened = documents_in(
                decompressed(raw, compression, self.name), self.name, kind, options
            )
        opened.position = lambda: 0 if stream.closed else stream.tell()
        return opened

    def parts(self, options: ReadOptions, part_bytes: int) -> list[Part | None]:
        """Runs of row groups of about `part_bytes`, or `[None]` where it must be read whole."""
        kind, compression = self.format
        size = self.size_in_bytes
        if kind != "parquet" or compression is not None or size is None or size <= part_bytes:
            return [None]
        from tokenmill.sources.parquet_rows import parquet_parts

        with self._stream() as stream:
            return list(parquet_parts(cast("BinaryIO", stream), part_bytes, self.name)) or [None]

    def require_unchanged(self) -> None:
        """SourceError if the object is not the version that was listed any more."""
        from tokenmill.storage.retries import with_retries

        now = with_retries(self.name, lambda: store_of(self.address).stat(self.address))
        if not self.state.is_same_version(now):
            raise SourceError(
                f"`{self.name}` changed while it was read",
                "wait until it is complete, then run again",
            )


def find_remote(address: Address, options: ReadOptions) -> Iterator[RemoteFile]:
    """The files that `address` names: one, those below a folder, or the matches of a glob."""
    from tokenmill.storage.listing import find_objects, what_is_there

    listing = find_objects(address)
    given = parse_format(options.input_format) if options.input_format else None
    if listing.is_one:
        if options.shards is not None:
            raise ConfigError(
                f"`--shards {options.shards}` chooses files of a folder or glob, "
                f"but `{address.shown}` is a file"
            )
        yield _remote_file(*listing.objects[0], given, address)
        return
    visible = [each for each in listing.objects if _is_visible(listing.inside(each[0]))]
    chosen = [each for each in visible if format_of_name(each[0].name, given) is not None]
    if not chosen:
        raise SourceError(f"`{address.shown}` holds no text", what_is_there(visible))
    if options.shards is not None:
        by_path = {Path(each[0].path): each for each in chosen}
        paths = choose_shards(list(by_path), options.shards, address.shown)
        chosen = [by_path[path] for path in paths]
    for place, state in chosen:
        yield _remote_file(place, state, given, address)


def _is_visible(path: str) -> bool:
    return not any(is_invisible(part) for part in path.split("/"))


def _remote_file(
    address: Address, state: RemoteState, given: Format | None, asked: Address
) -> RemoteFile:
    form = format_of_name(address.name, given)
    if form is None:
        raise ConfigError(
            f"cannot tell the format of `{address.shown}` by its name",
            f"pass `--input-format` with one of {', '.join(f'`{kind}`' for kind in FORMATS)}",
        )
    return RemoteFile(address, form, state, replace(address, place=asked.place).shown)
