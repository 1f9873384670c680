"""Ours: some steps of `lm sft` or `lm dpo` as people run them, rows packed, the reference asked once before.

`form` is the stage, `size` the number of steps, `path` the dataset, `tokenizer` a folder with the base model. Off the clock: imports.
Tokens are those that are not padding; seconds are those of the loop's own clock, without the first steps. The answer is the loss of the
first rows as `lm evaluate` would see them, before any step.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.child import status_bytes
from bench.job import Answer, Job

PROGRAM = __name__
COMPARED = 16
"""Rows, or pairs, whose loss is compared."""


def load(job: Job) -> Any:
    import torch

    from tokenmill.lm.dpo import prepare_dpo
    from tokenmill.lm.sft import prepare_sft
    from tokenmill.lm.sinks import LogSettings
    from tokenmill.lm.token_data import DataSettings

    torch.set_num_threads(job.threads)
    imported = status_bytes("VmRSS") or 0
    folder = TemporaryDirectory(prefix="tokenmill-bench-")
    prepare = {"sft": prepare_sft, "dpo": prepare_dpo}[job.form]
    prepared = prepare(
        DataSettings(job.path),
        Path(folder.name) / "run",
        base=job.tokenizer,
        train={
            "batch_size": int(job.options["batch_size"]),
            "max_steps": job.size,
            "device": "cpu",
            "eval_every": 0,
            "sample_every": 0,
            "save_every": job.size + 1,
        },
        logs=LogSettings(()),
        progress=False,
    )
    return prepared, folder, imported


def run(loaded: Any, job: Job) -> Any:
    prepared, folder, imported = loaded
    steps: list[Any] = []
    start = time.perf_counter()
    prepared.run(steps.append)
    seconds = time.perf_counter() - start
    folder.cleanup()
    return prepared, steps, seconds, imported, job


def extra(result: Any) -> dict[str, float]:
    prepared, steps, seconds, imported, job = result
    timed = steps[int(job.options["warm_steps"]) :]
    return {
        "tokens": float(sum(step.tokens for step in timed)),
        "step_seconds": sum(step.seconds for step in timed),
        "whole_tokens_per_second": sum(step.tokens for step in steps) / seconds,
        "imported_bytes": float(imported),
        "used_share": _used_share(prepared, job),
    }


def _used_share(prepared: Any, job: Job) -> float:
    """Of the places that steps compute, as the lanes share them, those that hold a token."""
    rows = prepared.train_rows
    tokens = places = 0
    for step in range(job.size):
        some = rows.rows_of(step, int(job.options["batch_size"]), 0).tolist()
        tokens += rows.num_tokens(some)
        places += sum(part.ids_BT.numel() for part in rows.load(some).shared_by(job.threads))
    return tokens / places


def answer(result: Any) -> Answer:
    return [(f"{first_loss(result[-1]):.6f}".encode(),)]


def first_loss(job: Job) -> float:
    """Of the first rows, by the base."""
    import torch

    from tokenmill.lm.batches import Batches
    from tokenmill.lm.fitting import fit_documents
    from tokenmill.lm.objective import AnswerTokens
    from tokenmill.lm.open_model import open_model
    from tokenmill.lm.packing import BestFitPlan
    from tokenmill.lm.token_data import DataSettings, open_data

    model = open_model(job.tokenizer, device="cpu").model
    data, _ = open_data(DataSettings(job.path), progress=False)
    width = model.config.context + 1
    fitting = fit_documents(data, width, "error")
    some = slice(0, COMPARED)
    plan = BestFitPlan(fitting.starts[some], fitting.lengths[some], width)
    packed = Batches(data.tokens, plan, data.mask, document_mask=True).load(range(len(plan)))
    with torch.no_grad():
        return (AnswerTokens(model)(packed)[0] / packed.num_targets).item()
