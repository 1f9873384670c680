# pyright: basic
# (pyarrow has no types to be strict about)
"""Documents with a label each: two fields of the rows of JSON lines, Parquet or Arrow files.

The core reads one field; here the rows are read once, in Python, and the text goes on through the
core's reader like any other, so that caps, limits and UTF-8 rules hold. Its order is the rows', and
what has no text is left out before, so labels and documents stay in step.
"""

import contextlib
import json
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import IO, Any

from tokenmill.errors import ConfigError, SourceError
from tokenmill.progress import Meter
from tokenmill.report.sampling import DocumentReading, Text
from tokenmill.sources.compression import ClosableReadable, decompressed
from tokenmill.sources.documents import Documents
from tokenmill.sources.options import ReadOptions
from tokenmill.sources.source import TextSource
from tokenmill.sources.spool import spooled
from tokenmill.sources.stored_files import StoredFile, is_stored
from tokenmill.work.read_report import ReadReport

_READ_BYTES = 1 << 18
_BATCH_ROWS = 1024
_ARROW_FILE = b"ARROW1"


class LabelledReading:
    """(label, document) of every row of `sources` that has text. `report` is complete at the end."""

    def __init__(
        self, sources: Sequence[TextSource], options: ReadOptions, label_field: str, meter: Meter
    ) -> None:
        if options.on_error != "fail":
            raise ConfigError(
                f"a label field goes with `--on-error fail` only, found `{options.on_error}`"
            )
        self.report = ReadReport()
        self._files = [require_rows(source) for source in sources]
        self._options = options
        self._label_field = label_field
        self._meter = meter

    def __iter__(self) -> Iterator[tuple[str, Text]]:
        waiting: deque[str] = deque()
        texts = Documents(self._texts(waiting), name="rows")
        reading = DocumentReading([texts], replace(self._options, shards=None), self._meter)
        for document in reading:
            yield waiting.popleft(), document
        for file in self._files:
            file.require_unchanged()
        self.report = replace(reading.report, inputs=len(self._files))

    def _texts(self, waiting: deque[str]) -> Generator[Text]:
        field = self._options.field
        assert field is not None, "whole rows have no text to measure"
        for file in self._files:
            for label, text in _rows(file, field, self._label_field):
                if text:
                    waiting.append(label)
                    yield text


def require_rows(source: TextSource) -> StoredFile:
    """ConfigError unless `source` is a file whose rows have fields."""
    if not is_stored(source):
        raise ConfigError(f"`{source.name}` is no file, so its rows cannot be labelled by a field")
    if source.format.kind == "txt":
        raise ConfigError(
            f"`{source.name}` is plain text, which has no fields to label by",
            f"name the text itself: `--text LABEL={source.name}`",
        )
    return source


def _rows(file: StoredFile, field: str, label_field: str) -> Iterator[tuple[str, Text]]:
    if file.format.kind == "jsonl":
        yield from _json_rows(file, field, label_field)
        return
    number = 0
    for texts, labels in _batches(file, field, label_field):
        for text, label in zip(texts, labels, strict=True):
            if text is None or label is None:
                which = field if text is None else label_field
                raise SourceError(f"`{file.name}` row {number:,} has a null in `{which}`")
            yield str(label), text
            number += 1


def _json_rows(file: StoredFile, field: str, label_field: str) -> Iterator[tuple[str, Text]]:
    for number, line in enumerate(_lines(file), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise SourceError(f"`{file.name}` line {number} is not JSON: {error}") from error
        if not isinstance(row, dict):
            raise SourceError(f"`{file.name}` line {number} is no JSON object")
        for name, kinds in ((field, str), (label_field, (str, int))):
            if not isinstance(row.get(name), kinds):
                found = f"`{row[name]!r:.40}`" if name in row else "nothing"
                raise SourceError(f"`{file.name}` line {number} has {found} in `{name}`")
        try:
            text = row[field].encode()
        except UnicodeEncodeError as error:
            raise SourceError(f"`{file.name}` line {number}: `{field}`: {error.reason}") from error
        yield str(row[label_field]), text


def _lines(file: StoredFile) -> Iterator[bytes]:
    with _opened(file) as stream:
        parts: list[bytes] = []
        while block := stream.read(_READ_BYTES):
            first, *lines = block.split(b"\n")
            parts.append(first)
            if lines:
                yield b"".join(parts)
                yield from lines[:-1]
                parts = [lines[-1]]
        yield b"".join(parts)


@contextlib.contextmanager
def _opened(file: StoredFile) -> Generator[ClosableReadable]:
    compression = file.format.compression
    raw = file.open_bytes()
    stream = decompressed(raw, compression, file.name) if compression else raw
    try:
        yield stream
    finally:
        stream.close()


def _batches(
    file: StoredFile, field: str, label_field: str
) -> Iterator[tuple[list[Any], list[Any]]]:
    """The two columns, some rows at a time."""
    import pyarrow as pa

    from tokenmill.sources.arrow_text import require_text_column

    with _opened(file) as stream, spooled(b"", stream) as spool:
        try:
            is_parquet = file.format.kind == "parquet"
            schema, batches = (_parquet_batches if is_parquet else _arrow_batches)(spool)
            require_text_column(schema, field, file.name)
            if schema.get_field_index(label_field) < 0:
                listed = ", ".join(f"`{name}`" for name in schema.names)
                raise SourceError(
                    f"`{file.name}` has no column `{label_field}`; its columns are {listed}"
                )
            for batch in batches([field, label_field]):
                yield batch.column(field).to_pylist(), batch.column(label_field).to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise SourceError(
                f"`{file.name}` cannot be read: {str(error).splitlines()[0]}",
                "fetch or write the file again",
            ) from error


def _parquet_batches(spool: IO[bytes]) -> tuple[Any, Callable[[list[str]], Iterable[Any]]]:
    import pyarrow.parquet as pq

    parquet = pq.ParquetFile(spool)
    return parquet.schema_arrow, lambda columns: parquet.iter_batches(_BATCH_ROWS, columns=columns)


def _arrow_batches(spool: IO[bytes]) -> tuple[Any, Callable[[list[str]], Iterable[Any]]]:
    import pyarrow as pa

    is_file = spool.read(len(_ARROW_FILE)) == _ARROW_FILE
    spool.seek(0)
    if not is_file:
        stream = pa.ipc.open_stream(spool)
        return stream.schema, lambda _columns: stream
    file = pa.ipc.open_file(spool)
    return file.schema, lambda _columns: map(file.get_batch, range(file.num_record_batches))
