# pyright: basic
# (pyarrow has no types to be strict about)
"""Parquet: one text column, a few megabytes of rows at a time, so that no row group is ever held
whole."""

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tokenmill import _core
from tokenmill.errors import SourceError
from tokenmill.sources.arrow_text import core_arrays, require_text_column
from tokenmill.sources.json_rows import row_columns, rows_source
from tokenmill.sources.source import OpenedSource, Part

BATCH_BYTES = 1 << 22
BUFFER_BYTES = 1 << 20


def open_parquet(
    file: Path | IO[bytes], name: str, field: str | None, part: Part | None
) -> OpenedSource:
    """The documents of column `field`, or whole rows, of all row groups or of those in `part`."""
    parquet = _open(file, name)
    progress = [0]
    try:
        columns = _columns(parquet, field, name)
    except BaseException:
        parquet.close()
        raise
    groups = range(parquet.num_row_groups) if part is None else range(part.start, part.end)
    batches = _batches(parquet, name, columns, groups, progress)
    if field is None:
        documents = rows_source(batches, name)
    else:
        texts = (batch.column(0) for batch in batches)
        documents = _core.Source.arrow(core_arrays(texts, name), name=name)
    return OpenedSource(documents, lambda: progress[0], [parquet.close])


def parquet_parts(file: Path | IO[bytes], part_bytes: int, name: str) -> list[Part]:
    """Runs of row groups of about `part_bytes` packed bytes each; none if the file has no row
    groups."""
    with _open(file, name) as parquet:
        sizes = [_stored_bytes(parquet.metadata, index) for index in range(parquet.num_row_groups)]
    parts: list[Part] = []
    start = size = 0
    for index, stored in enumerate(sizes):
        size += stored
        if size >= part_bytes or index == len(sizes) - 1:
            parts.append(Part(start, index + 1, size))
            start, size = index + 1, 0
    return parts


def _open(file: Path | IO[bytes], name: str) -> pq.ParquetFile:
    try:
        # Without pre_buffer pages are read as they are needed: 4 GB/s either way, and no row group
        # in memory.
        return pq.ParquetFile(
            file, pre_buffer=False, buffer_size=BUFFER_BYTES, page_checksum_verification=True
        )
    except (pa.ArrowException, OSError) as error:
        raise _corrupt(name, "footer", error) from error


def _batches(
    parquet: pq.ParquetFile, name: str, columns: list[str], groups: range, progress: list[int]
) -> Iterator[Any]:
    leaves = _leaves(parquet, columns)
    for group in groups:
        metadata = parquet.metadata.row_group(group)
        chunks = [metadata.column(leaf) for leaf in leaves]
        num_bytes = sum(chunk.total_uncompressed_size for chunk in chunks)
        mean_bytes = max(1, num_bytes // max(1, metadata.num_rows))
        rows = max(1, min(65536, BATCH_BYTES // mean_bytes))
        try:
            yield from parquet.iter_batches(
                rows, row_groups=[group], columns=columns, use_threads=False
            )
        except (pa.ArrowException, OSError) as error:
            offset = chunks[0].dictionary_page_offset or chunks[0].data_page_offset
            raise _corrupt(name, f"row group {group}, byte {offset:,}", error) from error
        progress[0] += _stored_bytes(parquet.metadata, group)


def _columns(parquet: pq.ParquetFile, field: str | None, name: str) -> list[str]:
    schema = parquet.schema_arrow
    if field is None:
        return row_columns(schema.names)
    return [schema.field(require_text_column(schema, field, name)).name]


def _leaves(parquet: pq.ParquetFile, columns: list[str]) -> list[int]:
    """Where the columns' data lie in the file: a nested column takes several leaves."""
    paths = [parquet.schema.column(index).path for index in range(len(parquet.schema))]
    return [
        index
        for index, path in enumerate(paths)
        if any(path == column or path.startswith(f"{column}.") for column in columns)
    ]


def _stored_bytes(metadata: "pq.FileMetaData", group: int) -> int:
    columns = metadata.row_group(group)
    return sum(columns.column(index).total_compressed_size for index in range(columns.num_columns))


def _corrupt(name: str, where: str, error: Exception) -> SourceError:
    return SourceError(
        f"`{name}` cannot be read as Parquet at its {where}: {str(error).splitlines()[0]}",
        "fetch or write the file again",
    )
