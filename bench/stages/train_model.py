"""Ours: some steps of the training loop as `lm pretrain` runs them, data loading, clipping and optimizer included.

`form` is the preset, with `, compiled` behind it for torch.compile; `size` the number of steps, `path` a .npy of ids. Off the clock:
imports. What a step takes is in `extra`, from the loop's own clock, without the first ones. The answer is the loss of each step.
"""

import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.job import Answer, Job

PROGRAM = __name__
COMPILED = ", compiled"
LOADED_STEPS = 50


def load(job: Job) -> Any:
    import torch

    from tokenmill.lm.model_config import preset
    from tokenmill.lm.pretrain import prepare_pretrain
    from tokenmill.lm.settings import TrainSettings
    from tokenmill.lm.sinks import LogSettings
    from tokenmill.lm.token_data import DataSettings

    torch.set_num_threads(job.threads)
    settings = TrainSettings(
        batch_size=int(job.options["batch_size"]),
        max_steps=job.size,
        warmup_steps=0,
        schedule="constant",
        device="cpu",
        compile="on" if job.form.endswith(COMPILED) else "off",
        eval_every=0,
        save_every=job.size + 1,
    )
    folder = TemporaryDirectory(prefix="tokenmill-bench-")
    config = preset(job.form.removesuffix(COMPILED))
    data = DataSettings(job.path, vocab_size=config.vocab_size)
    out = Path(folder.name) / "run"
    logs = LogSettings(())
    prepared = prepare_pretrain(data, out, model=config, settings=settings, logs=logs)
    return prepared, folder


def run(loaded: Any, job: Job) -> tuple[list[Any], float, int]:
    prepared, folder = loaded
    steps: list[Any] = []
    prepared.run(steps.append)
    folder.cleanup()
    return steps, _load_seconds(prepared, job), int(job.options["warm_steps"])


def _load_seconds(prepared: Any, job: Job) -> float:
    """Of one step's rows that nobody has read before."""
    batches = prepared.train_rows
    start = time.perf_counter()
    for step in range(job.size, job.size + LOADED_STEPS):
        batches.load(batches.rows_of(step, int(job.options["batch_size"]), 0).tolist())
    return (time.perf_counter() - start) / LOADED_STEPS


def extra(result: tuple[list[Any], float, int]) -> dict[str, float]:
    steps, load_seconds, warm_steps = result
    return {
        "step_seconds": statistics.median(step.seconds for step in steps[warm_steps:]),
        "first_step_seconds": steps[0].seconds,
        "load_seconds": load_seconds,
        "tokens": float(steps[0].tokens),
    }


def answer(result: tuple[list[Any], float, int]) -> Answer:
    return [(f"{step.loss:.6f}".encode(),) for step in result[0]]
