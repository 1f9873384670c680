"""Open a dataset and read one document, again for each of some documents; each time on a clock of its own.

Off the clock: imports. `warm_path` names the documents to read (sparse_dataset.py).
"""

import gc
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.child import peak_bytes, status_bytes
from bench.job import Answer, Job
from bench.stages.sparse_dataset import Chosen, read_chosen

PROGRAM = __name__


@dataclass
class Reading:
    seconds: list[float]
    found: list[tuple[int, int]]
    bytes_before: int
    most_bytes: int


def load(job: Job) -> tuple[Any, list[Chosen]]:
    import tokenmill.dataset.layouts
    import tokenmill.dataset.split_view  # noqa: F401
    from tokenmill import Dataset

    return Dataset, read_chosen(Path(job.warm_path))


def resident_bytes() -> int:
    """What this process holds now, pages of mapped files included; where that is unknown, its peak."""
    return status_bytes("VmRSS") or peak_bytes()


def run(loaded: tuple[Any, list[Chosen]], job: Job) -> Reading:
    dataset_class, chosen = loaded
    before = resident_bytes()
    reading = Reading([], [], before, before)
    for each in chosen:
        start = time.perf_counter()
        dataset = dataset_class.open(job.path)
        ids = dataset.document(each.index)
        # The sum touches every page of the document.
        found = len(ids), int(ids.sum())
        reading.seconds.append(time.perf_counter() - start)
        reading.found.append(found)
        reading.most_bytes = max(reading.most_bytes, resident_bytes())
        # Off the clock: what was open is let go of, and the collector has nothing left to do.
        del dataset, ids
        gc.collect()
    return reading


def extra(reading: Reading) -> dict[str, float]:
    return {
        "median_seconds": statistics.median(reading.seconds),
        "worst_seconds": max(reading.seconds),
        "growth_bytes": reading.most_bytes - reading.bytes_before,
    }


def answer(reading: Reading) -> Answer:
    return [(str(length).encode(), str(total).encode()) for length, total in reading.found]


def right_answer(chosen: list[Chosen]) -> Answer:
    """All other tokens are zero."""
    return [(str(each.length).encode(), str(each.first).encode()) for each in chosen]
