"""A run in a process of its own, for tests that kill it or start several ranks. Arguments: data, out, JSON of more."""

import json
import os
import sys
import time
from pathlib import Path

import torch

from tokenmill.lm.distributed import Ranks
from tokenmill.lm.model_config import ModelConfig
from tokenmill.lm.pretrain import pretrain
from tokenmill.lm.sinks import LogSettings
from tokenmill.lm.token_data import DataSettings


def threads_of_a_group() -> list[str]:
    """Those of gloo: one that is left when Python ends may abort the process, once in a few dozen runs."""
    tasks = Path("/proc/self/task")
    if not tasks.is_dir():  # only Linux says
        return []
    names = [(tasks / each / "comm").read_text().strip() for each in os.listdir(tasks)]
    return [name for name in names if "gloo" in name]


def fall_behind() -> None:
    """The second rank takes its time after each meeting: what the first does next, it may see."""
    wait = Ranks.wait

    def wait_and_rest(self: Ranks) -> None:
        wait(self)
        if not self.is_first:
            time.sleep(0.3)

    Ranks.wait = wait_and_rest


def main(data: str, out: str, more: str) -> None:
    options = json.loads(more)
    torch.set_num_threads(1)
    if options.pop("float64", False):
        torch.set_default_dtype(torch.float64)
    if options.pop("fall_behind", False):
        fall_behind()
    config = ModelConfig(**options.pop("model"))

    def say(result: object) -> None:
        print(result, flush=True)

    pretrain(
        DataSettings(Path(data)),
        out,
        model=config,
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
    main(*sys.argv[1:])
