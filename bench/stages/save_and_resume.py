"""Ours: two steps with a checkpoint behind each, then a second run in the same folder up to its first step.

`form` is the preset, `path` a .npy of ids, `out` a folder on the disk that is asked about. In `extra`: what saving takes, and what lies
between asking a run to go on and its next step. The answer is the step it went on with.
"""

import contextlib
import statistics
import time
from pathlib import Path
from typing import Any

from bench.job import Answer, Job

PROGRAM = __name__


class _Enough(Exception):
    """The first step after resuming is done."""


def load(job: Job) -> Any:
    import torch

    from tokenmill.lm.model_config import preset
    from tokenmill.lm.settings import TrainSettings
    from tokenmill.lm.token_data import DataSettings

    torch.set_num_threads(job.threads)
    settings = TrainSettings(
        batch_size=int(job.options["batch_size"]), max_steps=4, save_every=1, device="cpu"
    )
    config = preset(job.form)
    return DataSettings(job.path, vocab_size=config.vocab_size), config, settings


def run(loaded: Any, job: Job) -> tuple[list[float], float, int]:
    from tokenmill.lm.loop import Loop

    saves: list[float] = []
    save = Loop.save

    def timed(self: Loop) -> None:
        start = time.perf_counter()
        save(self)
        saves.append(time.perf_counter() - start)

    Loop.save = timed
    try:
        _steps(loaded, job, 3)
        start = time.perf_counter()
        step, seconds = _steps(loaded, job, 1)
    finally:
        Loop.save = save
    return saves, time.perf_counter() - start - seconds, step


def _steps(loaded: Any, job: Job, most: int) -> tuple[int, float]:
    """The last of some steps of the run in the folder, and what it took; it ends in the middle of a step, as if killed."""
    from tokenmill.lm.pretrain import prepare_pretrain
    from tokenmill.lm.sinks import LogSettings

    data, config, settings = loaded
    done: list[Any] = []

    def count(step: Any) -> None:
        done.append(step)
        if len(done) == most:
            raise _Enough

    prepared = prepare_pretrain(
        data, Path(job.out) / "run", model=config, settings=settings, logs=LogSettings(())
    )
    with contextlib.suppress(_Enough):
        prepared.run(count)
    return done[-1].step, done[-1].seconds


def extra(result: tuple[list[float], float, int]) -> dict[str, float]:
    saves, resume_seconds, _ = result
    return {"save_seconds": statistics.median(saves), "resume_seconds": resume_seconds}


def answer(result: tuple[list[float], float, int]) -> Answer:
    return [(str(result[2]).encode(),)]
