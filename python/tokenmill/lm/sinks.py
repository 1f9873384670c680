# pyright: basic
"""Where metrics are shown besides their file: TensorBoard and Weights & Biases. Both only repeat `metrics.jsonl`."""

import importlib.util
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenmill.errors import ConfigError
from tokenmill.lm.metrics import Sink
from tokenmill.sources.choices import require_one_of
from tokenmill.storage.files import write_atomically

SINKS = ("tensorboard", "wandb")
TENSORBOARD_FOLDER = "tensorboard"
WANDB_FOLDER = "wandb"


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


def require_sinks(settings: LogSettings) -> None:
    """ConfigError naming the extra if a sink that was asked for is not installed."""
    for name in settings.sinks:
        found = importlib.util.find_spec(name)
        # A folder `wandb` or `tensorboard` beside us is found as well, and has no file that it begins with.
        if found is None or found.origin is None:
            extra = "lm" if name == "tensorboard" else "wandb"
            raise ConfigError(
                f"`--log {name}` needs {name}, which is not installed",
                f"pip install 'tokenmill[{extra}]'",
            )


def make_sinks(
    settings: LogSettings, folder: Path, config: Mapping[str, Any], *, after_step: int = 0
) -> list[Sink]:
    """The sinks that were asked for, for a run that goes on behind `after_step`."""
    require_sinks(settings)
    return [
        TensorBoard(folder / TENSORBOARD_FOLDER, after_step)
        if name == "tensorboard"
        else WeightsAndBiases(settings, folder, config)
        for name in settings.sinks
    ]


class TensorBoard:
    """Event files that `tensorboard --logdir` opens.

    Training and validation are two runs to TensorBoard, which draws numbers of one name into one chart: both losses side by
    side. What an interrupted run wrote behind its checkpoint is hidden when it goes on.
    """

    def __init__(self, folder: Path, after_step: int = 0) -> None:
        self._folder, self._after_step = folder, after_step
        self._writers: dict[str, Any] = {}
        self._samples = (0, 0)

    def add(self, record: Mapping[str, Any]) -> None:
        step = record["step"]
        if record["kind"] == "sample":
            # Each prompt has a place of its own, where its texts follow each other.
            number = self._samples[1] + 1 if self._samples[0] == step else 1
            self._samples = step, number
            self._writer("train").add_text(f"sample/{number}", as_markdown(record["text"]), step)
            return
        if record["kind"] == "warning":
            self._writer("train").add_text("warning", as_markdown(record["text"]), step)
            return
        writer = self._writer(record["kind"])
        for name, value in _numbers(record):
            chart = _chart(name, record)
            if chart is not None:
                writer.add_scalar(chart, value, step)

    def _writer(self, kind: str) -> Any:
        if kind not in self._writers:
            from torch.utils.tensorboard.writer import SummaryWriter

            self._writers[kind] = SummaryWriter(
                str(self._folder / kind), purge_step=self._after_step + 1
            )
        return self._writers[kind]

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


# TensorBoard shows names with the same beginning as one group, and opens the first two.
_CHARTS = {
    "loss": "loss/nats_per_token",
    "bits_per_byte": "loss/bits_per_byte",
    "lr": "step/lr",
    "grad_norm": "step/grad_norm",
    "tokens_per_second": "step/tokens_per_second",
    "mfu": "step/mfu",
    "entropy": "answers/entropy",
    "mean_token_accuracy": "answers/mean_token_accuracy",
}


def _chart(name: str, record: Mapping[str, Any]) -> str | None:
    """The chart of a number, `None` for those that are no curve. What TRL names `rewards/…` and so on keeps its name."""
    if name == "loss" and "rewards/margins" in record:
        return "loss/preference"
    return name if "/" in name else _CHARTS.get(name)


def as_markdown(text: str) -> str:
    """What shows `text` letter by letter: whatever means something to Markdown or HTML becomes an entity."""
    text = text.replace("\t", "    ")
    inert = re.sub(r"[^\w\s,;:?'\"]|_|^ +", lambda found: _entities(found[0]), text, flags=re.M)
    return inert.replace("\n", "  \n")


def _entities(characters: str) -> str:
    if (
        not characters.isprintable()
    ):  # a model may well write control characters, which HTML cannot have
        return "\N{REPLACEMENT CHARACTER}"
    return "".join("&nbsp;" if each == " " else f"&#{ord(each)};" for each in characters)


class WeightsAndBiases:
    """A W&B run: offline unless somebody is logged in, so that it never asks."""

    def __init__(self, settings: LogSettings, folder: Path, config: Mapping[str, Any]) -> None:
        import wandb  # pyright: ignore

        mode = os.environ.get("WANDB_MODE")
        if not mode:
            mode = "online" if wandb.login(prompt=False, verify=False) else "offline"
        self._run = wandb.init(
            project=settings.project,
            name=settings.name or folder.name,
            tags=list(settings.tags),
            dir=str(folder),
            config=dict(config),
            mode=mode,  # pyright: ignore
            resume="allow",
            id=_run_id(folder),
            settings=wandb.Settings(console="off"),  # a line that redraws itself is no log
        )

    def add(self, record: Mapping[str, Any]) -> None:
        if record["kind"] not in ("sample", "warning"):
            values = {f"{record['kind']}/{name}": value for name, value in _numbers(record)}
            self._run.log(values, step=record["step"])

    def close(self) -> None:
        self._run.finish()


def _run_id(folder: Path) -> str:
    """The same for a run that goes on, another one for a run that starts anew in the same folder."""
    file = folder / WANDB_FOLDER / "run-id"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        write_atomically(file, secrets.token_hex(8).encode())
    return file.read_text()


def _numbers(record: Mapping[str, Any]) -> Sequence[tuple[str, float]]:
    """`loss` and so on."""
    return [
        (name, value)
        for name, value in record.items()
        if isinstance(value, int | float) and name not in ("step", "time")
    ]
