"""TRL: the same steps by `SFTTrainer` and `DPOTrainer`, from the same weights on the same rows, which it tokenizes by itself.

`form` is the stage and how: as it comes (`defaults`), in float32 without recomputing activations (`plain`), and that with packing or with
the reference's log-probs computed before (`packed`, `precomputed`). Off the clock: imports, tokenizing, what is computed before.
Tokens are those that are not padding. The answer is the loss of the first rows before any step.
"""

import importlib
import json
import os
import time
from tempfile import TemporaryDirectory
from typing import Any

from bench.child import status_bytes
from bench.job import Answer, Job
from bench.peers.peer import Library
from bench.stages.lm_shapes import import_transformers
from bench.stages.post_train_model import COMPARED

LIBRARY = Library(name="trl", distribution="trl", version="1.16.0", program=__name__)
PROGRAM = __name__
DEFAULTS, PLAIN, PACKED, PRECOMPUTED = "defaults", "plain", "packed", "precomputed"
FORMS = {"sft": (DEFAULTS, PLAIN, PACKED), "dpo": (DEFAULTS, PLAIN, PRECOMPUTED)}


def load(job: Job) -> Any:
    os.environ["HF_DATASETS_CACHE"] = job.out
    transformers = import_transformers()
    import datasets
    import torch

    # It imports what it exports when it is asked for; nothing says so in a way that types can be read from.
    trl: Any = importlib.import_module("trl")
    kinds = {"sft": (trl.SFTConfig, trl.SFTTrainer), "dpo": (trl.DPOConfig, trl.DPOTrainer)}

    torch.set_num_threads(job.threads)
    imported = status_bytes("VmRSS") or 0
    folder = TemporaryDirectory(prefix="tokenmill-bench-")
    stage, how = job.form.split(", ")
    with open(job.path, encoding="utf-8") as file:
        rows = datasets.Dataset.from_list([json.loads(line) for line in file])
    config_of, trainer_of = kinds[stage]
    trainer = trainer_of(
        job.tokenizer,
        args=config_of(output_dir=folder.name, **_settings(stage, how, job)),
        train_dataset=rows,
        processing_class=transformers.AutoTokenizer.from_pretrained(job.tokenizer),
    )
    watch = _Watch(trainer.data_collator)
    trainer.data_collator = watch
    trainer.add_callback(_callback(transformers, watch))
    assert trl.__version__ == LIBRARY.version
    return trainer, watch, imported, folder


def _settings(stage: str, how: str, job: Job) -> dict[str, Any]:
    found: dict[str, Any] = {
        "max_steps": job.size,
        "use_cpu": True,
        "report_to": "none",
        "save_strategy": "no",
        "disable_tqdm": True,
        "model_init_kwargs": {"dtype": "float32"},
        "per_device_train_batch_size": int(job.options["batch_size"]),
    }
    if stage == "sft":
        found["assistant_only_loss"] = True
    if how != DEFAULTS:
        found |= {"bf16": False, "gradient_checkpointing": False}
    if how == PACKED:
        found |= {"packing": True, "max_length": int(job.options["context"])}
    if how == PRECOMPUTED:
        found["precompute_ref_log_probs"] = True
    return found


class _Watch:
    """Counts what a collator puts together, and takes the time of steps."""

    def __init__(self, collate: Any) -> None:
        self.collate = collate
        self.tokens: list[int] = []
        self.seconds: list[float] = []
        self.started = 0.0

    def __call__(self, rows: Any) -> Any:
        batch = self.collate(rows)
        mask = batch.get("attention_mask")
        self.tokens.append(int(batch["input_ids"].numel() if mask is None else mask.sum()))
        return batch


def _callback(transformers: Any, watch: _Watch) -> Any:
    class Clock(transformers.TrainerCallback):
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            watch.started = time.perf_counter()

        def on_step_end(self, *_: Any, **__: Any) -> None:
            now = time.perf_counter()
            watch.seconds.append(now - watch.started)
            watch.started = now

    return Clock()


def run(loaded: Any, job: Job) -> Any:
    trainer, watch, imported, folder = loaded
    trainer.train()
    folder.cleanup()
    return trainer, watch, imported, job


def extra(result: Any) -> dict[str, float]:
    _, watch, imported, job = result
    warm = int(job.options["warm_steps"])
    # The loader is one batch ahead of the steps.
    return {
        "tokens": float(sum(watch.tokens[warm : len(watch.seconds)])),
        "step_seconds": sum(watch.seconds[warm:]),
        "imported_bytes": float(imported),
    }


def answer(result: Any) -> Answer:
    """With the weights as they were: the trainer has changed its own."""
    import torch

    job: Job = result[-1]
    transformers = import_transformers()
    model = transformers.AutoModelForCausalLM.from_pretrained(job.tokenizer, dtype="float32")
    tokenizer = transformers.AutoTokenizer.from_pretrained(job.tokenizer)
    ids, labels = _first_documents(tokenizer, job)
    width = max(map(len, ids))
    padded = torch.tensor([row + [0] * (width - len(row)) for row in ids])
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in ids])
    wanted = torch.tensor([row + [-100] * (width - len(row)) for row in labels])
    with torch.no_grad():
        loss = model(input_ids=padded, attention_mask=mask, labels=wanted).loss
    return [(f"{loss.item():.6f}".encode(),)]


def _first_documents(tokenizer: Any, job: Job) -> tuple[list[list[int]], list[list[int]]]:
    """As the exported template renders them, with the assistant's mask."""
    with open(job.path, encoding="utf-8") as file:
        rows = [json.loads(next(file)) for _ in range(COMPARED)]
    if "messages" in rows[0]:
        documents = [row["messages"] for row in rows]
    else:
        documents = [row["prompt"] + row[key] for row in rows for key in ("chosen", "rejected")]
        documents = documents[:COMPARED]
    ids: list[list[int]] = []
    labels: list[list[int]] = []
    for messages in documents:
        found = tokenizer.apply_chat_template(
            messages, return_dict=True, return_assistant_tokens_mask=True
        )
        ids.append(found["input_ids"])
        pairs = zip(found["input_ids"], found["assistant_masks"], strict=True)
        labels.append([token if trained else -100 for token, trained in pairs])
    return ids, labels
