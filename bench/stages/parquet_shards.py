"""Write documents as Parquet shards the way nanochat packs its own: one column `text`, no dictionary, no statistics."""

import os
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from bench.cases import DatasetParquetCase
from bench.documents import read_through


def write_shards(documents: Iterable[str], folder: Path, about: DatasetParquetCase) -> int:
    """Shards of `shard_chars` characters, the last perhaps shorter, in `folder`; how many. On the disk and in the
    page cache when this returns."""
    import pyarrow
    import pyarrow.parquet

    folder.mkdir()
    num_shards = 0
    for rows in _shards(documents, about.shard_chars):
        path = folder / f"shard_{num_shards:05}.parquet"
        pyarrow.parquet.write_table(
            pyarrow.table({"text": pyarrow.array(rows, pyarrow.large_string())}),
            path,
            row_group_size=about.rows_per_group,
            compression=about.compression,
            compression_level=about.level,
            use_dictionary=False,
            write_statistics=False,
        )
        with path.open("rb") as file:
            os.fsync(file.fileno())
        read_through(path)
        num_shards += 1
    return num_shards


def _shards(documents: Iterable[str], shard_chars: int) -> Iterator[list[str]]:
    rows, chars = list[str](), 0
    for document in chain(documents, [None]):
        if rows and (document is None or chars >= shard_chars):
            yield rows
            rows, chars = [], 0
        if document is not None:
            rows.append(document)
            chars += len(document)
