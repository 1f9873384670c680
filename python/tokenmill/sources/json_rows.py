# pyright: basic
# (pyarrow has no types to be strict about)
"""Rows of tables, each as one JSON object: what the core reads where one column is not enough.

Columns that mean nothing to a conversation are left out before a row becomes Python, so images and
embeddings beside the text cost nothing.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tokenmill import _core

KEYS = (
    "messages",
    "conversations",
    "prompt",
    "completion",
    "instruction",
    "input",
    "output",
    "system",
    "chosen",
    "rejected",
)
"""The columns that rows of conversations have."""


def row_columns(names: Iterable[str]) -> list[str]:
    """The columns of a table that its rows are made of; all of them if none means anything."""
    names = list(names)
    return [name for name in names if name in KEYS] or names


def rows_source(batches: Iterable[Any], name: str) -> _core.Source:
    """A source of the rows of record batches, or of mappings."""
    rows = (
        row
        for batch in batches
        for row in ([row_as_json(batch)] if isinstance(batch, Mapping) else rows_as_json(batch))
    )
    return _core.Source.strings(rows, name=name)


def rows_as_json(batch: Any) -> Iterator[bytes]:
    """Each row of a `pyarrow.RecordBatch` or Table as one JSON object, in order.

    Only columns of `KEYS` are in it; if there are none, all columns stand there as null, so that the
    error about such a row can name them. Text in binary columns must be UTF-8; a part that is not
    becomes the bytes it is, for whoever reads the row to judge.
    """
    known = [name for name in batch.schema.names if name in KEYS]
    if not known:
        nothing = json.dumps(dict.fromkeys(batch.schema.names)).encode()
        yield from (nothing for _ in range(batch.num_rows))
        return
    yield from map(row_as_json, batch.select(known).to_pylist())


def row_as_json(row: Mapping[str, Any]) -> bytes:
    """One row, by its columns."""
    text = json.dumps(dict(row), ensure_ascii=False, separators=(",", ":"), default=_as_text)
    return text.encode("utf-8", "surrogateescape")


def _as_text(value: object) -> object:
    """What JSON has no word for: bytes are text, a date or number of another kind is its spelling."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return str(value)
