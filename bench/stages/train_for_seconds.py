"""Ours: a model trained for as long as `options["seconds"]` allow, then held against documents it has not seen.

`path` is the dataset of training, `warm_path` that of the held-out documents, `form` the preset. Some steps are timed first, and count; the
learning rate needs to know how many there will be. In `extra`: bits per byte, and where `options["samples"]` asks for them, which
share of the sentences of texts from the model belongs to the small world.
"""

import time
from pathlib import Path
from typing import Any

from bench.job import Answer, Job

PROGRAM = __name__
PROBE_STEPS = 30
SHARE = 0.9
"""Of the seconds that are left, to be planned with: machines have slow minutes."""


def load(job: Job) -> Any:
    import torch

    from tokenmill.lm.pretrain import pretrain

    torch.set_num_threads(job.threads)
    return pretrain


def run(pretrain: Any, job: Job) -> tuple[Any, int, Job]:
    start = time.perf_counter()
    seconds = _train(pretrain, job, "probe", PROBE_STEPS)[1]
    left = job.options["seconds"] - (time.perf_counter() - start)
    num_steps = max(PROBE_STEPS, int(SHARE * left / seconds))
    return _train(pretrain, job, "run", num_steps)[0], num_steps, job


def _train(pretrain: Any, job: Job, name: str, num_steps: int) -> tuple[Any, float]:
    """The model, and what one of its later steps took."""
    from tokenmill.lm.settings import TrainSettings
    from tokenmill.lm.sinks import LogSettings
    from tokenmill.lm.token_data import DataSettings

    settings = TrainSettings(
        batch_size=int(job.options["batch_size"]),
        max_steps=num_steps,
        lr=job.options["lr"],
        min_lr=0.0,
        device="cpu",
        eval_every=0,
        save_every=num_steps,
    )
    steps: list[Any] = []
    trained = pretrain(
        DataSettings(job.path),
        Path(job.out) / name,
        model=job.form,
        settings=settings,
        logs=LogSettings(()),
        on_step=steps.append,
        progress=False,
    )
    later = sorted(step.seconds for step in steps[2:])
    return trained.model, later[len(later) // 2]


def extra(result: tuple[Any, int, Job]) -> dict[str, float]:
    from tokenmill import Dataset
    from tokenmill.lm.evaluate import evaluate

    model, num_steps, job = result
    found = evaluate(model, Dataset.open(job.warm_path)["train"])
    return {
        "bits_per_byte": found.bits_per_byte or 0.0,
        "num_steps": float(num_steps),
        **_accepted(model, job),
    }


def _accepted(model: Any, job: Job) -> dict[str, float]:
    from tokenmill import Tokenizer
    from tokenmill.lm import small_world
    from tokenmill.lm.generate import generate

    wanted = int(job.options.get("samples", 0))
    if not wanted:
        return {}
    tokenizer = Tokenizer.load(job.tokenizer)
    prompts = [[tokenizer.special_tokens["<|endoftext|>"]]] * wanted
    texts = generate(model, tokenizer, prompts, max_tokens=400, temperature=1.0)
    sentences = [each for text in texts for each in small_world.split_sentences(text.text)]
    accepted = sum(map(small_world.is_sentence, sentences))
    whole = sum(small_world.accepts(text.text) for text in texts)
    return {
        "accepted": accepted / len(sentences),
        "sentences": float(len(sentences)),
        "whole_stories": whole / wanted,
    }


def answer(result: tuple[Any, int, Job]) -> Answer:
    return [(str(result[1]).encode(),)]
