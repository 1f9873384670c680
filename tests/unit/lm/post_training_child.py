"""A run of fine-tuning or preference training in a process of its own. Arguments: stage, data, base, out, JSON of more."""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from pretrain_child import fall_behind, threads_of_a_group

from tokenmill.lm import pair_objective, reference
from tokenmill.lm.dpo import dpo
from tokenmill.lm.post_training_settings import DpoSettings, LoraSettings, SftSettings
from tokenmill.lm.sft import sft
from tokenmill.lm.sinks import LogSettings


def say_what_is_computed() -> None:
    """A line for each call that the reference answers."""
    score = pair_objective.score_answers

    def scoring(*args: Any) -> Any:
        found = score(*args)
        print("reference", flush=True)
        return found

    setattr(reference, "score_answers", scoring)  # noqa: B010, what is imported there is not exported


def main(stage: str, data: str, base: str, out: str, more: str) -> None:
    options = json.loads(more)
    torch.set_num_threads(1)
    if options.pop("float64", False):
        torch.set_default_dtype(torch.float64)
    if options.pop("fall_behind", False):
        fall_behind()
    lora = LoraSettings(rank=4) if options.pop("lora", False) else None
    train, kind = (sft, SftSettings) if stage == "sft" else (dpo, DpoSettings)

    def say(result: object) -> None:
        print(result, flush=True)

    train(
        Path(data),
        out,
        base=Path(base),
        options=kind(lora=lora),  # pyright: ignore[reportArgumentType]
        logs=LogSettings(()),
        progress=False,
        on_step=say,
        device="cpu",
        **options,
    )
    left = threads_of_a_group()
    if left:
        raise SystemExit(f"the ranks have parted, but these threads are left: {left}")


if __name__ == "__main__":
    say_what_is_computed()
    main(*sys.argv[1:])
