# pyright: basic
# (pyarrow has no types to be strict about)
"""Counts on disk: Parquet with `pretoken: binary, count: uint64`, sorted by pretoken.

Anything that writes Parquet can make such a file; ours carry a description under one metadata key,
so that counts of different patterns never meet unnoticed.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tokenmill import _core
from tokenmill.errors import FormatError
from tokenmill.storage.files import local_path, open_atomically, sha256_of, unreadable
from tokenmill.train.counts import PretokenCounts, described
from tokenmill.train.origin import Origin

METADATA_KEY = b"tokenmill"
FORMAT = "tokenmill counts"
FORMAT_VERSION = 1
ROW_GROUP_ROWS = 1 << 20
# `binary` has 32-bit offsets, so a row group must stay below 2 GiB of pretokens.
ROW_GROUP_BYTES = 1 << 30


def save_counts(counts: PretokenCounts, path: str | os.PathLike[str]) -> Path:
    """Write `counts` to `path`, whole or not at all."""
    final = local_path(path)
    buffers = counts.core.buffers()
    origin = counts.origin.as_json()
    description = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        **origin,
        "sha256": _content_sha256(origin, buffers),
    }
    schema = pa.schema(
        [
            pa.field("pretoken", pa.binary(), nullable=False),
            pa.field("count", pa.uint64(), nullable=False),
        ],
        metadata={METADATA_KEY: json.dumps(description, ensure_ascii=False).encode()},
    )
    with (
        open_atomically(final) as file,
        pq.ParquetWriter(
            file, schema, compression="zstd", use_dictionary=False, write_page_checksum=True
        ) as writer,
    ):
        for batch in _batches(buffers, schema):
            writer.write_batch(batch, row_group_size=ROW_GROUP_ROWS)
    counts.file_sha256 = sha256_of(final)
    return final


def _content_sha256(origin: dict[str, object], buffers: tuple[bytes, bytes, bytes]) -> str:
    """Of where counts come from and what they are, however a file keeps it."""
    digest = hashlib.sha256()
    for part in (json.dumps(origin, sort_keys=True).encode(), *buffers):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def changed_content(path: Path, counts: PretokenCounts) -> str | None:
    """What is wrong with `counts`, read from `path`, if they are not those that were saved there;
    None also for files that do not say, those of others and of older versions."""
    with pq.ParquetFile(path) as parquet:
        stated = (_description(parquet.schema_arrow, path) or {}).get("sha256")
    found = _content_sha256(counts.origin.as_json(), counts.core.buffers())
    if stated is None or stated == found:
        return None
    return f"holds counts of sha256 {found}, it says {stated}"


def _batches(buffers: tuple[bytes, bytes, bytes], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    offsets_buffer, data, counts_buffer = buffers
    offsets = np.frombuffer(offsets_buffer, np.int64)
    start, rows = 0, len(offsets) - 1
    while start < rows:
        fits = int(np.searchsorted(offsets, offsets[start] + ROW_GROUP_BYTES, "right")) - 1
        end = max(start + 1, min(start + ROW_GROUP_ROWS, fits))
        ends = (offsets[start : end + 1] - offsets[start]).astype(np.int32)
        text = pa.py_buffer(memoryview(data)[offsets[start] : offsets[end]])
        pretokens = pa.Array.from_buffers(
            pa.binary(), end - start, [None, pa.py_buffer(ends), text]
        )
        numbers = pa.Array.from_buffers(
            pa.uint64(),
            end - start,
            [None, pa.py_buffer(memoryview(counts_buffer)[8 * start : 8 * end])],
        )
        yield pa.RecordBatch.from_arrays([pretokens, numbers], schema=schema)
        start = end


def load_counts(path: str | os.PathLike[str], pattern: str | None = None) -> PretokenCounts:
    """Read counts of ours or of others. FormatError if the file is something else."""
    file = local_path(path)
    if not file.is_file():
        raise unreadable(file, FileNotFoundError())
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as parquet:
            _require_columns(parquet.schema_arrow, file)
            origin = _origin(parquet.schema_arrow, file, pattern)
            counts = _read(parquet, file)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(
            f"`{file}` cannot be read as Parquet: {str(error).splitlines()[0]}"
        ) from error
    loaded = PretokenCounts(counts, origin)
    loaded.file_sha256 = sha256_of(file)
    return loaded


def read_origin(path: Path) -> Origin | None:
    """Where the counts at `path` come from; `None` if the file is not one of ours."""
    try:
        with pq.ParquetFile(path) as parquet:
            description = _description(parquet.schema_arrow, path)
    except (pa.ArrowException, OSError):
        return None
    return None if description is None else Origin.from_json(description)


def _require_columns(schema: Any, file: Path) -> None:
    found = ", ".join(f"`{each.name}` ({each.type})" for each in schema) or "none"
    expected = "counts have the columns `pretoken` (binary) and `count` (uint64)"
    if schema.get_field_index("pretoken") < 0 or schema.get_field_index("count") < 0:
        raise FormatError(f"`{file}` holds no counts: its columns are {found}", expected)
    spelled, number = schema.field("pretoken").type, schema.field("count").type
    texts = (
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_string,
        pa.types.is_large_string,
    )
    if not any(is_type(spelled) for is_type in texts) or not pa.types.is_integer(number):
        raise FormatError(f"`{file}` holds no counts: its columns are {found}", expected)


def _description(schema: Any, file: Path) -> dict[str, Any] | None:
    text = (schema.metadata or {}).get(METADATA_KEY)
    if text is None:
        return None
    try:
        description = json.loads(text)
        version = description["format_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise FormatError(
            f"the metadata of `{file}` are not what tokenmill writes: {error}"
        ) from error
    if version > FORMAT_VERSION:
        raise FormatError(
            f"`{file}` has format version {version}, this tokenmill reads up to {FORMAT_VERSION}",
            "install a newer tokenmill",
        )
    return description


def _origin(schema: Any, file: Path, pattern: str | None) -> Origin:
    description = _description(schema, file)
    if description is None:
        if pattern is None:
            raise FormatError(
                f"`{file}` does not say which pattern its pretokens were cut by",
                "pass `--pattern` (`pattern=`) with the one that was used",
            )
        return replace(described(pattern, ()), special_tokens=None)
    origin = Origin.from_json(description)
    if pattern is not None and described(pattern, ()).pattern != origin.pattern:
        raise FormatError(
            f"`{file}` was counted with the pattern `{origin.pattern}`, but `{pattern}` was asked for",
            "count again, or leave the pattern out",
        )
    return origin


def _read(parquet: pq.ParquetFile, file: Path) -> _core.Counts:
    lengths: list[np.ndarray[Any, Any]] = []
    texts: list[Any] = []
    numbers: list[np.ndarray[Any, Any]] = []
    for batch in parquet.iter_batches(ROW_GROUP_ROWS, columns=["pretoken", "count"]):
        pretokens, counts = batch.column("pretoken"), batch.column("count")
        if pretokens.null_count or counts.null_count:
            raise FormatError(f"`{file}` holds nulls; every row needs a pretoken and a count")
        wide = pretokens.cast(pa.large_binary())
        ends = np.frombuffer(wide.buffers()[1], np.int64)[wide.offset : wide.offset + len(wide) + 1]
        lengths.append(np.diff(ends))
        texts.append(memoryview(wide.buffers()[2] or b"")[ends[0] : ends[-1]])
        numbers.append(_as_uint64(counts, file))
    offsets = np.zeros(sum(map(len, lengths)) + 1, np.int64)
    np.cumsum(np.concatenate(lengths or [np.zeros(0, np.int64)]), out=offsets[1:])
    total = np.concatenate(numbers or [np.zeros(0, np.uint64)])
    return _core.Counts.from_buffers(offsets.data, b"".join(texts), total.data)


def _as_uint64(counts: Any, file: Path) -> "np.ndarray[Any, Any]":
    if len(counts) == 0:
        return np.zeros(0, np.uint64)
    # Arrow's own `to_numpy` would load pandas where that is installed: a second for nothing.
    numbers = np.frombuffer(counts.buffers()[1], np.dtype(str(counts.type)))
    numbers = numbers[counts.offset : counts.offset + len(counts)]
    if numbers.min() < 1:
        raise FormatError(f"`{file}` has the count {numbers.min()}; every count is at least 1")
    return numbers.astype(np.uint64, copy=False)
