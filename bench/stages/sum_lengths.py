"""pyarrow reading the text column of Parquet shards and adding up the bytes of all rows: what reading costs alone."""

from pathlib import Path
from typing import Any

from bench.job import Answer, Job

PROGRAM = __name__


def load(job: Job) -> tuple[Any, Any]:
    import pyarrow.compute
    import pyarrow.parquet

    return pyarrow.parquet, pyarrow.compute


def run(loaded: tuple[Any, Any], job: Job) -> int:
    parquet, compute = loaded
    num_bytes = 0
    for path in sorted(Path(job.path).iterdir()):
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=["text"]):
                num_bytes += compute.sum(compute.binary_length(batch.column(0))).as_py()
    return num_bytes


def answer(num_bytes: int) -> Answer:
    return [(str(num_bytes).encode(),)]
