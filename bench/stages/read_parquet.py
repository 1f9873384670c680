"""pyarrow reading a Parquet file's text column, a row group at a time, and doing nothing with it."""

from typing import Any

from bench.job import Answer, Job

PROGRAM = __name__


def load(job: Job) -> Any:
    import pyarrow.parquet

    return pyarrow.parquet


def run(parquet: Any, job: Job) -> int:
    num_bytes = 0
    with parquet.ParquetFile(job.path) as file:
        for group in range(file.num_row_groups):
            num_bytes += file.read_row_group(group, columns=["text"]).nbytes
    return num_bytes


def answer(num_bytes: int) -> Answer:
    return [(str(num_bytes).encode(),)]
