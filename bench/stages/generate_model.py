"""Ours: `size` tokens behind a prompt, the likeliest each time. `form` is the preset, with the weights it begins with.

In `extra`, from a second text that fills the window: what a token takes at its beginning and at its end. The answer is the ids.
"""

import statistics
import time
from typing import Any

from bench.job import Answer, Job
from bench.stages.lm_shapes import our_model

PROGRAM = __name__
WARM_TOKENS = 8


def prompt_of(job: Job) -> list[int]:
    return [(7 * place + 3) % 256 for place in range(int(job.options["prompt_tokens"]))]


def load(job: Job) -> Any:
    import torch

    torch.set_num_threads(job.threads)
    model = our_model(job.form, context=int(job.options["context"]))
    _write(model, job, WARM_TOKENS)
    return model


def _write(model: Any, job: Job, max_tokens: int, stream: Any = None) -> list[int]:
    from tokenmill.lm.generate import generate

    found = generate(
        model, None, [prompt_of(job)], max_tokens=max_tokens, temperature=0, stream=stream
    )
    return list(found[0].ids)


def run(model: Any, job: Job) -> tuple[list[int], Any, Job]:
    return _write(model, job, job.size), model, job


def extra(result: tuple[list[int], Any, Job]) -> dict[str, float]:
    import torch

    from tokenmill.lm.decoding import make_decoder

    _, model, job = result
    prompt = prompt_of(job)
    room = int(job.options["context"]) - len(prompt)
    seconds: list[float] = []
    with torch.inference_mode():
        decoder = make_decoder(model, [prompt], room)
        for _ in range(room):
            start = time.perf_counter()
            decoder.feed([1])
            seconds.append(time.perf_counter() - start)
    quarter = max(1, room // 4)
    return {
        "early_seconds": statistics.median(seconds[:quarter]),
        "late_seconds": statistics.median(seconds[-quarter:]),
    }


def answer(result: tuple[list[int], Any, Job]) -> Answer:
    return [(str(token).encode(),) for token in result[0]]
