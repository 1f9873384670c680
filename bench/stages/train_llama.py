"""transformers: the same steps of `LlamaForCausalLM` from the same weights on the same rows, with torch's fused AdamW and the same clipping.

The loop is what people write: rows from a memory map, `model(...)`, cross-entropy, `backward`, clip, step. Off the clock: imports, making
the model and putting our first weights into it.
"""

import statistics
import time
from typing import Any

from bench.job import Answer, Job
from bench.stages.lm_shapes import llama

PROGRAM = __name__


def load(job: Job) -> Any:
    import numpy as np
    import torch

    from tokenmill.lm.batches import Batches
    from tokenmill.lm.packing import WrappedPlan

    torch.set_num_threads(job.threads)
    model = llama(job.form)
    tokens = np.load(job.path, mmap_mode="r")
    width = model.config.max_position_embeddings + 1
    batches = Batches(tokens, WrappedPlan(len(tokens), width))
    weights = list(model.parameters())
    groups = [
        {"params": [w for w in weights if w.ndim >= 2], "weight_decay": 0.1},
        {"params": [w for w in weights if w.ndim < 2], "weight_decay": 0.0},
    ]
    return model, torch.optim.AdamW(groups, 1e-3, (0.9, 0.95), fused=True), batches


def run(loaded: Any, job: Job) -> tuple[list[tuple[float, float]], int]:
    import torch
    import torch.nn.functional as F

    model, optimizer, batches = loaded
    steps: list[tuple[float, float]] = []
    for step in range(job.size):
        start = time.perf_counter()
        batch = batches.load(batches.rows_of(step, int(job.options["batch_size"]), 0).tolist())
        logits = model(input_ids=batch.ids_BT, use_cache=False).logits
        loss = F.cross_entropy(logits.flatten(0, 1), batch.targets_BT.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        steps.append((loss.item(), time.perf_counter() - start))
    return steps, int(job.options["warm_steps"])


def extra(result: tuple[list[tuple[float, float]], int]) -> dict[str, float]:
    steps, warm_steps = result
    return {"step_seconds": statistics.median(seconds for _, seconds in steps[warm_steps:])}


def answer(result: tuple[list[tuple[float, float]], int]) -> Answer:
    return [(f"{loss:.6f}".encode(),) for loss, _ in result[0]]
