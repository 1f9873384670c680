"""A run in a process of its own, for tests that kill it or start several ranks. Arguments: data, out, JSON of more."""

import json
import sys
from pathlib import Path

import torch

from tokenmill.lm.model_config import ModelConfig
from tokenmill.lm.pretrain import DataSettings, pretrain
from tokenmill.lm.sinks import LogSettings


def main(data: str, out: str, more: str) -> None:
    options = json.loads(more)
    torch.set_num_threads(1)
    if options.pop("float64", False):
        torch.set_default_dtype(torch.float64)
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


if __name__ == "__main__":
    main(*sys.argv[1:])
