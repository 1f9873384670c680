# pyright: basic
"""Where metrics are shown besides their file: TensorBoard and Weights & Biases. Both only repeat `metrics.jsonl`."""

import importlib.util
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenmill.errors import ConfigError
from tokenmill.lm.metrics import Sink
from tokenmill.sources.choices import require_one_of

SINKS = ("tensorboard", "wandb")
TENSORBOARD_FOLDER = "tensorboard"


@dataclass(frozen=True)
class LogSettings:
    """Which sinks, and what they want to know."""

    sinks: tuple[str, ...] = ("tensorboard",)
    project: str = "tokenmill"
    name: str | None = None
    tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for sink in self.sinks:
            require_one_of("log", sink, SINKS)


def make_sinks(settings: LogSettings, folder: Path, config: Mapping[str, Any]) -> list[Sink]:
    """The sinks that were asked for. ConfigError if one is not installed."""
    sinks: list[Sink] = []
    for name in settings.sinks:
        if importlib.util.find_spec(name) is None:
            extra = "lm" if name == "tensorboard" else "wandb"
            raise ConfigError(
                f"`--log {name}` needs {name}, which is not installed",
                f"pip install 'tokenmill[{extra}]'",
            )
        sinks.append(
            TensorBoard(folder / TENSORBOARD_FOLDER)
            if name == "tensorboard"
            else WeightsAndBiases(settings, folder, config)
        )
    return sinks


class TensorBoard:
    """Event files that `tensorboard --logdir` opens."""

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard.writer import SummaryWriter

        self._writer = SummaryWriter(str(folder))

    def add(self, record: Mapping[str, Any]) -> None:
        step = record["step"]
        if record["kind"] == "sample":
            self._writer.add_text("sample", record["text"], step)
            return
        for name, value in _numbers(record):
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class WeightsAndBiases:
    """A W&B run: offline unless somebody is logged in, so that it never asks."""

    def __init__(self, settings: LogSettings, folder: Path, config: Mapping[str, Any]) -> None:
        import wandb  # pyright: ignore

        logged_in = bool(os.environ.get("WANDB_API_KEY") or wandb.api.api_key)
        mode = os.environ.get("WANDB_MODE") or ("online" if logged_in else "offline")
        self._run = wandb.init(
            project=settings.project,
            name=settings.name or folder.name,
            tags=list(settings.tags),
            dir=str(folder),
            config=dict(config),
            mode=mode,  # pyright: ignore
            resume="allow",
            id=_run_id(folder),
        )

    def add(self, record: Mapping[str, Any]) -> None:
        if record["kind"] != "sample":
            self._run.log(dict(_numbers(record)), step=record["step"])

    def close(self) -> None:
        self._run.finish()


def _run_id(folder: Path) -> str:
    """The same for a run that goes on."""
    import hashlib

    return hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]


def _numbers(record: Mapping[str, Any]) -> Sequence[tuple[str, float]]:
    """`train/loss` and so on."""
    skipped = ("step", "time")
    return [
        (f"{record['kind']}/{name}", value)
        for name, value in record.items()
        if isinstance(value, int | float) and name not in skipped
    ]
