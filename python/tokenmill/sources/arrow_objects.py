# pyright: basic
# (pyarrow has no types to be strict about)
"""Tables, arrays and datasets in memory, read through Arrow's C interface where they lie."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tokenmill import _core
from tokenmill.errors import SourceError
from tokenmill.sources.arrow_text import core_arrays, require_text_column
from tokenmill.sources.json_rows import rows_source
from tokenmill.sources.source import OpenedSource

DATASET_BATCH_ROWS = 1024


def open_table(table: Any, field: str | None, name: str) -> OpenedSource:
    """The documents of column `field` of a table, or of an array or series itself; or its rows."""
    if field is None:
        return OpenedSource(rows_source(_rows(table, name), name))
    return OpenedSource(
        _core.Source.arrow(core_arrays(_arrays(table, field, name), name), name=name)
    )


def open_dataset(dataset: Any, field: str | None, name: str) -> OpenedSource:
    """The documents of column `field` of a Hugging Face dataset, or its rows."""
    if field is None:
        tables = dataset.with_format("arrow").iter(batch_size=DATASET_BATCH_ROWS)
        return OpenedSource(
            rows_source((row for table in tables for row in _rows(table, name)), name)
        )
    arrays = core_arrays(_dataset_arrays(dataset, field, name), name)
    return OpenedSource(_core.Source.arrow(arrays, name=name))


def _rows(table: Any, name: str) -> Iterator[Any]:
    """Record batches of a table. SourceError for a column."""
    batches, schema = _batches(table)
    if schema is None:
        raise SourceError(f"`{name}` is one column, which has no rows", "pass the table")
    yield from batches


def _dataset_arrays(dataset: Any, field: str, name: str) -> Iterator[Any]:
    names = dataset.column_names
    if names is not None and field not in names:
        listed = ", ".join(f"`{each}`" for each in names)
        raise SourceError(f"`{name}` has no column `{field}`; its columns are {listed}")
    column = dataset if names is None else dataset.select_columns([field])
    for table in column.with_format("arrow").iter(batch_size=DATASET_BATCH_ROWS):
        yield from _arrays(table, field, name)


def _arrays(table: Any, field: str, name: str) -> Iterator[Any]:
    batches, schema = _batches(table)
    if schema is None:
        yield from batches
        return
    column = require_text_column(schema, field, name)
    for batch in batches:
        yield batch.column(column)


def _batches(table: Any) -> tuple[Any, pa.Schema | None]:
    """Record batches with their schema; arrays without one if `table` is a column."""
    if hasattr(table, "__arrow_c_stream__"):
        try:
            reader = pa.RecordBatchReader.from_stream(table)
        except pa.ArrowInvalid:  # a column: its stream is not one of structs
            return pa.chunked_array(table).iterchunks(), None
        return reader, reader.schema
    array = pa.array(table)
    if not pa.types.is_struct(array.type):
        return [array], None
    batch = pa.RecordBatch.from_struct_array(array)
    return [batch], batch.schema
