"""transformers: the same tokens by `generate` with its cache, from the same weights."""

from typing import Any

from bench.job import Answer, Job
from bench.stages.generate_model import WARM_TOKENS, prompt_of
from bench.stages.lm_shapes import llama

PROGRAM = __name__


def load(job: Job) -> Any:
    import torch

    torch.set_num_threads(job.threads)
    model = llama(job.form, context=int(job.options["context"])).eval()
    model.generation_config.eos_token_id = None
    _write(model, job, WARM_TOKENS)
    return model


def _write(model: Any, job: Job, max_tokens: int) -> list[int]:
    import torch

    prompt = torch.tensor([prompt_of(job)])
    found = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=max_tokens,
        min_new_tokens=max_tokens,
        do_sample=False,
        use_cache=True,
        pad_token_id=0,
    )
    return found[0, prompt.shape[1] :].tolist()


def run(model: Any, job: Job) -> list[int]:
    return _write(model, job, job.size)


def answer(ids: list[int]) -> Answer:
    return [(str(token).encode(),) for token in ids]
