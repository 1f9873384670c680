"""Bytes written to one file and brought to the disk, and nothing else: what the disk allows."""

import os
import tempfile

from bench.documents import BLOCK_BYTES
from bench.job import Answer, Job

PROGRAM = __name__


def load(job: Job) -> bytes:
    return os.urandom(BLOCK_BYTES)


def run(block: bytes, job: Job) -> int:
    with tempfile.TemporaryFile(dir=job.out, buffering=0) as file:
        written = 0
        while written < job.size:
            written += file.write(block[: job.size - written])
        os.fsync(file.fileno())
    return written


def answer(written: int) -> Answer:
    return [(str(written).encode(),)]
