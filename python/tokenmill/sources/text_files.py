"""Files and streams as sources, whatever their format and packing.

A plain `.txt` or `.jsonl` goes to the core by its path, so that Rust reads it and no Python is in
the loop.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from tokenmill import _core
from tokenmill.errors import SourceError
from tokenmill.sources.compression import Readable, decompressed, open_compressed, open_raw
from tokenmill.sources.formats import Format
from tokenmill.sources.options import ReadOptions
from tokenmill.sources.source import OpenedSource, Part
from tokenmill.sources.spool import spooled
from tokenmill.storage.files import FileState, file_state, require_unchanged, sha256_of


@dataclass(frozen=True)
class InputFile:
    """A file on this machine, as it was when it was listed."""

    path: Path
    format: Format
    state: FileState

    @property
    def name(self) -> str:
        return str(self.path)

    @property
    def size_in_bytes(self) -> int:
        return self.state.size

    @property
    def file_name(self) -> str:
        """Its name without the folders, which is what a manifest records."""
        return self.path.name

    @property
    def identity(self) -> dict[str, object]:
        """What names this version of the file; work units are named after it."""
        return {
            "file": str(self.path),
            "size": self.state.size,
            "mtime_ns": self.state.mtime_ns,
        }

    def sha256(self, stop: Callable[[], bool]) -> str | None:
        """Of its content; `None` if it is not the file that was listed any more."""
        if file_state(self.path) != self.state:
            return None
        return sha256_of(self.path, stop=stop)

    def open_bytes(self) -> BinaryIO:
        """Its bytes as they are stored."""
        return open_raw(self.path)

    def open(self, options: ReadOptions, part: Part | None = None) -> OpenedSource:
        self.require_unchanged()
        kind, compression = self.format
        if kind in ("txt", "jsonl") and compression is None:
            return OpenedSource(_text_by_path(self, options, part))
        if kind == "parquet" and compression is None:
            from tokenmill.sources.parquet_rows import open_parquet

            return open_parquet(self.path, self.name, options.field, part)
        return self._open_stream(options)

    def _open_stream(self, options: ReadOptions) -> OpenedSource:
        kind, compression = self.format
        packed = None if compression is None else open_compressed(self.path, compression)
        stream = packed or open_raw(self.path)
        try:
            opened = documents_in(stream, self.name, kind, options)
        except BaseException:
            stream.close()
            raise
        opened.closers.insert(0, stream.close)
        if packed is not None:
            opened.position = packed.position
        return opened

    def parts(self, options: ReadOptions, part_bytes: int) -> list[Part | None]:
        """Ranges of about `part_bytes` that together are the file, or `[None]` where it must be
        read whole."""
        kind, compression = self.format
        if compression is not None or self.size_in_bytes <= part_bytes:
            return [None]
        if kind == "parquet":
            from tokenmill.sources.parquet_rows import parquet_parts

            return list(parquet_parts(self.path, part_bytes, self.name)) or [None]
        if kind == "jsonl" or (kind == "txt" and not overlaps_itself(options.separator_bytes)):
            return list(_byte_ranges(self.size_in_bytes, part_bytes))
        return [None]

    def require_unchanged(self) -> None:
        """SourceError if the file is not the one that was listed any more."""
        require_unchanged(self.path, self.state)


@dataclass(frozen=True)
class InputStream:
    """Standard input, an open binary file, or a pipe by its path. It can be read once."""

    file: BinaryIO | Path
    name: str
    format: Format

    @property
    def size_in_bytes(self) -> None:
        return None

    def open(self, options: ReadOptions, part: Part | None = None) -> OpenedSource:
        assert part is None, "a stream has no parts"
        kind, compression = self.format
        own = open_raw(self.file) if isinstance(self.file, Path) else None
        raw = own or cast("BinaryIO", self.file)
        try:
            stream = raw if compression is None else decompressed(raw, compression, self.name)
            opened = documents_in(stream, self.name, kind, options)
        except BaseException:
            if own is not None:
                own.close()
            raise
        if own is not None:
            opened.closers.insert(0, own.close)
        return opened


def overlaps_itself(separator: bytes) -> bool:
    """Whether two occurrences can share bytes, as in `aa` or a blank line's `\\n\\n`. Where a
    document starts then depends on everything before it, so such a text cannot be entered in the
    middle."""
    return any(separator[:length] == separator[-length:] for length in range(1, len(separator)))


def _byte_ranges(size: int, part_bytes: int) -> list[Part]:
    starts = range(0, size, part_bytes)
    return [
        Part(start, min(start + part_bytes, size), min(part_bytes, size - start))
        for start in starts
    ]


def _text_by_path(file: InputFile, options: ReadOptions, part: Part | None) -> _core.Source:
    start, end = (part.start, part.end) if part is not None else (0, None)
    path = str(file.path)
    if file.format.kind == "txt":
        _require_field(options, path)
        separator = options.separator_bytes
        return _core.Source.plain_text(path, name=path, separator=separator, start=start, end=end)
    return _core.Source.json_lines(path, name=path, field=options.field, start=start, end=end)


def documents_in(stream: Readable, name: str, kind: str, options: ReadOptions) -> OpenedSource:
    """The documents of a stream of unpacked bytes."""
    if kind == "txt":
        _require_field(options, name)
        separator = options.separator_bytes
        return OpenedSource(_core.Source.plain_text(stream, name=name, separator=separator))
    if kind == "jsonl":
        return OpenedSource(_core.Source.json_lines(stream, name=name, field=options.field))
    if kind == "arrow":
        from tokenmill.sources.arrow_batches import open_arrow

        return open_arrow(stream, name, options.field)
    from tokenmill.sources.parquet_rows import open_parquet

    spool = spooled(b"", stream)
    try:
        opened = open_parquet(spool, name, options.field, None)
    except BaseException:
        spool.close()
        raise
    opened.closers.insert(0, spool.close)
    return opened


def _require_field(options: ReadOptions, name: str) -> None:
    """SourceError where rows are wanted and there is only text."""
    if options.field is None:
        raise SourceError(
            f"`{name}` is plain text, which has no rows",
            "rows are in .jsonl, .parquet or .arrow files",
        )
