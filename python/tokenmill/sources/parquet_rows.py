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
from tokenmill.sources.source import OpenedSource, Part

BATCH_BYTES = 1 << 22
BUFFER_BYTES = 1 << 20


def open_parquet(file: Path | IO[bytes], name: str, field: str, part: Part | None) -> OpenedSource:
    """The documents of column `field`, of all row groups or of those in `part`."""
    parquet = _open(file, name)
    progress = [0]
    try:
        column = require_text_column(parquet.schema_arrow, field, name)
    except BaseException:
        parquet.close()
        raise
    groups = range(parquet.num_row_groups) if part is None else range(part.start, part.end)
    batches = _batches(parquet, name, field, column, groups, progress)
    documents = _core.Source.arrow(core_arrays(batches, name), name=name)
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
    parquet: pq.ParquetFile, name: str, field: str, column: int, groups: range, progress: list[int]
) -> Iterator[Any]:
    leaf = _leaf_index(parquet, column)
    for group in groups:
        metadata = parquet.metadata.row_group(group)
        chunk = metadata.column(leaf)
        mean_bytes = max(1, chunk.total_uncompressed_size // max(1, metadata.num_rows))
        rows = max(1, min(65536, BATCH_BYTES // mean_bytes))
        try:
            for batch in parquet.iter_batches(
                rows, row_groups=[group], columns=[field], use_threads=False
            ):
                yield batch.column(0)
        except (pa.ArrowException, OSError) as error:
            offset = chunk.dictionary_page_offset or chunk.data_page_offset
            raise _corrupt(name, f"row group {group}, byte {offset:,}", error) from error
        progress[0] += _stored_bytes(parquet.metadata, group)


def _leaf_index(parquet: pq.ParquetFile, column: int) -> int:
    """Where the column's data lie in the file: nested columns before it take several leaves."""
    name = parquet.schema_arrow.field(column).name
    names = [parquet.schema.column(index).path for index in range(len(parquet.schema))]
    return names.index(name)


def _stored_bytes(metadata: "pq.FileMetaData", group: int) -> int:
    columns = metadata.row_group(group)
    return sum(columns.column(index).total_compressed_size for index in range(columns.num_columns))


def _corrupt(name: str, where: str, error: Exception) -> SourceError:
    return SourceError(
        f"`{name}` cannot be read as Parquet at its {where}: {str(error).splitlines()[0]}",
        "fetch or write the file again",
    )
