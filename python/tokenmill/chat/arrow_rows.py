# pyright: basic
# (pyarrow has no types to be strict about)
"""Rows of Arrow and Parquet tables as the JSON that the core reads.

Columns that mean nothing to a conversation are left out before a row becomes Python, so images and
embeddings beside the text cost nothing.
"""

import json
from collections.abc import Iterator
from typing import Any

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
    for row in batch.select(known).to_pylist():
        text = json.dumps(row, ensure_ascii=False, separators=(",", ":"), default=_as_text)
        yield text.encode("utf-8", "surrogateescape")


def _as_text(value: object) -> object:
    """What JSON has no word for: bytes are text, a date or number of another kind is its spelling."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    return str(value)
