"""Merging alone: counts made beforehand (word_pairs.py), loaded off the clock, then `train_merges`."""

from pathlib import Path
from typing import Any

from bench.job import Answer, Job

PROGRAM = __name__


def load(job: Job) -> Any:
    from tokenmill import _core

    folder = Path(job.path)
    buffers = [(folder / name).read_bytes() for name in ("offsets", "data", "counts")]
    return _core.train_merges, _core.Counts.from_buffers(*buffers)


def run(loaded: Any, job: Job) -> Any:
    train_merges, counts = loaded
    return train_merges(counts, num_tokens=job.vocab_size, ties=job.ties, threads=job.threads)


def answer(merges: Any) -> Answer:
    tokens = merges.tokens()
    return [(tokens[left], tokens[right]) for left, right, _joined in merges.triples()]
