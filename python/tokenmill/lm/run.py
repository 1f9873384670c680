# pyright: basic
"""A run of training: checked parts in, a folder with checkpoints out. All stages are one; what tells them apart is in `Stage`."""

import math
import platform
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from tokenmill import _core
from tokenmill.errors import ConfigError
from tokenmill.lm.accounting import account
from tokenmill.lm.batches import Rows
from tokenmill.lm.checkpoint import Checkpoint, copy_weights, latest_checkpoint
from tokenmill.lm.compiling import repays
from tokenmill.lm.distributed import Ranks, leave_ranks
from tokenmill.lm.hardware import peak_flops
from tokenmill.lm.loop import CHECKPOINTS, Loop, StepResult, Watch
from tokenmill.lm.memory import MemoryNeed, available_memory, is_out_of_memory
from tokenmill.lm.metrics import Metrics
from tokenmill.lm.model import Model
from tokenmill.lm.model_config import ModelConfig
from tokenmill.lm.objective import Objective
from tokenmill.lm.passes import keep_memory
from tokenmill.lm.run_folder import read_run, require_same_rates, require_same_run, write_run
from tokenmill.lm.settings import TrainSettings
from tokenmill.lm.sinks import LogSettings, make_sinks
from tokenmill.lm.start_from import Start
from tokenmill.lm.token_data import TokenData
from tokenmill.progress import ProgressChoice
from tokenmill.tokenizer.tokenizer import Tokenizer


def continue_texts(model: Model, tokenizer: Tokenizer, settings: TrainSettings) -> list[str]:
    """The prompts of `settings`, and how `model` goes on with them."""
    from tokenmill.lm.generate import generate

    prompts = list(settings.sample_prompts)
    found = generate(model, tokenizer, prompts, max_tokens=settings.sample_tokens)
    return [prompt + each.text for prompt, each in zip(prompts, found, strict=True)]


@dataclass(frozen=True)
class Stage:
    """What tells one kind of training from another."""

    name: str
    objective: Callable[[Model], Objective]
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Those of its own that decide weights: by name, as JSON has them."""
    adapt: Callable[[Model], None] | None = None
    """What becomes of a model before it is trained, besides its weights."""
    sample: Callable[[Model, Tokenizer, TrainSettings], list[str]] = continue_texts
    """What a model writes while it is trained, for those who want to see."""
    make_ready: "Callable[[Run, ProgressChoice], None] | None" = None
    """What has to be known before the first step, and takes its time."""
    watch: Callable[[], Watch] | None = None
    """What looks at each step, and has something to say now and then."""
    documents: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many are used, and how many are not for which reason; empty where all are."""


@dataclass(frozen=True)
class TrainedModel:
    """What a run has made."""

    folder: Path
    model: Model
    step: int
    train_loss: float | None
    validation_loss: float | None
    seconds: float
    """Of this call."""

    def as_json(self) -> dict[str, Any]:
        return {
            "out": str(self.folder),
            "step": self.step,
            "parameters": self.model.num_parameters,
            "loss": self.train_loss,
            "validation_loss": self.validation_loss,
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class Run:
    """A run checked and ready."""

    stage: Stage
    train: TokenData
    validation: TokenData | None
    config: ModelConfig
    start: Start | None
    """What the first weights are; `None` draws them."""
    settings: TrainSettings
    logs: LogSettings
    out: Path
    resume: bool
    force: bool
    device: torch.device
    ranks: Ranks
    train_rows: Rows
    validation_rows: Rows | None

    def state(self) -> dict[str, Any]:
        """What each checkpoint and the run's own file say."""
        return {
            "stage": self.stage.name,
            "stage_settings": dict(self.stage.settings),
            "model": self.config.as_json(),
            "from": None if self.start is None else self.start.as_json(),
            "settings": self.settings.as_json(),
            "data": {"name": self.train.name, "sha256": self.train.sha256},
            "documents": dict(self.stage.documents),
            "tokenizer_sha256": self.train.tokenizer_sha256,
            "ranks": self.ranks.world_size,
            "threads": torch.get_num_threads(),
            "versions": {
                "tokenmill": _core.__version__,
                "torch": torch.__version__,
                "python": platform.python_version(),
            },
        }

    def describe(self) -> dict[str, Any]:
        """What the run is going to cost."""
        tokens = round(self.settings.batch_size * self.train_rows.positions_per_row)
        return {
            **self.state(),
            "parameters": account(self.config).parameters.total,
            "tokens": self.train.num_tokens,
            "tokens_per_step": tokens,
            "epochs": self.settings.max_steps * self.settings.batch_size / len(self.train_rows),
            "flops": self._flops(),
            "compiles": self._compiles(),
            "memory_bytes": self._memory_need().wanted,
            "packing": asdict(self.train_rows.waste),
        }

    def _rows_at_once(self) -> int:
        """As many rows of a whole context as are computed at once."""
        share = max(1, self.settings.batch_size // self.ranks.world_size)
        rows = min(self.settings.micro_batch_size or share, share)
        return max(1, math.ceil(rows * self.train_rows.positions_per_row / self.config.context))

    def _memory_need(self) -> MemoryNeed:
        return MemoryNeed(
            self.config,
            self._rows_at_once(),
            available_memory(self.device),
            self.settings.precision,
            is_frozen=self.stage.adapt is not None,
        )

    def run(
        self,
        on_step: Callable[[StepResult], None] | None = None,
        *,
        shows_progress: bool = False,
    ) -> TrainedModel:
        """Train what is left of it."""
        started = time.perf_counter()
        self._memory_need().require()
        if self.device.type == "cpu":
            keep_memory()
        checkpoint = self._found()
        self.ranks.wait()  # all have looked; from here on the first one writes
        if self.stage.make_ready is not None:
            self._describe()
            self.stage.make_ready(self, shows_progress)
        model = self._model(is_new=checkpoint is None)
        metrics = self._metrics(0 if checkpoint is None else checkpoint.step)
        loop = self._loop(model, metrics, on_step)
        shown = loop.show_progress() if shows_progress and self.ranks.is_first else None
        try:
            if checkpoint is not None:
                loop.resume(checkpoint)
            loop.prepare(compiled=self._compiles())
            loop.run()
        except Exception as error:
            if is_out_of_memory(error):
                raise self._memory_need().error() from error
            raise
        finally:
            if shown is not None:
                shown.end()
            if metrics is not None:
                metrics.close()
            loop.forward = loop.objective
            leave_ranks()
        seconds = time.perf_counter() - started
        return TrainedModel(
            self.out, model, loop.step, loop.last_loss, loop.last_validation_loss, seconds
        )

    def _model(self, *, is_new: bool) -> Model:
        """A model of our shape; with its first weights, if it `is_new`."""
        if is_new and self.start is None:
            model = Model(self.config, seed=self.settings.seed).to(self.device)
        else:
            model = Model.empty(self.config, self.device)
        if is_new and self.start is not None:
            copy_weights(model, self.start.weights(self.config), f"`{self.start.path}`")
        if self.stage.adapt is not None:
            self.stage.adapt(model)
        return model

    def _loop(
        self,
        model: Model,
        metrics: Metrics | None,
        on_step: Callable[[StepResult], None] | None,
    ) -> Loop:
        return Loop(
            model,
            self.stage.objective(model),
            self.settings,
            self.train_rows,
            self.validation_rows,
            self.out,
            metrics,
            self.state(),
            self.ranks,
            account(self.config).training_flops_per_token,
            peak_flops(self.device) if self.ranks.is_first else None,
            [] if on_step is None else [on_step],
            self._sampler(model),
            bytes_per_token=self._bytes_per_token(),
            watch=None if self.stage.watch is None else self.stage.watch(),
        )

    def _bytes_per_token(self) -> float | None:
        """Of the validation text, where all of it is scored."""
        if self.validation is None or self.validation.mask is not None:
            return None
        return self.validation.bytes_per_token

    def _sampler(self, model: Model) -> Callable[[int], list[str]] | None:
        """What writes samples while a model is trained, if they are wanted and can be read."""
        tokenizer, settings = self.train.tokenizer, self.settings
        if not settings.sample_every or tokenizer is None:
            return None
        return lambda _: self.stage.sample(model, tokenizer, settings)

    def _compiles(self) -> bool:
        if self.settings.compile != "auto":
            return self.settings.compile == "on"
        return repays(self.device, self._flops())

    def _flops(self) -> float:
        """Of the whole run."""
        rows = self.settings.batch_size * self.settings.max_steps
        tokens = rows * self.train_rows.positions_per_row
        return account(self.config).training_flops_per_token * tokens

    def _metrics(self, step: int) -> Metrics | None:
        if not self.ranks.is_first:
            return None
        self._describe()
        sinks = make_sinks(self.logs, self.out, self.state(), after_step=step)
        return Metrics(self.out, sinks, after_step=step)

    def _describe(self) -> None:
        """What a reader of the folder wants to know, before there is a checkpoint."""
        if not self.ranks.is_first:
            return
        self.out.mkdir(parents=True, exist_ok=True)
        write_run(self.out, self.state())
        if self.train.tokenizer is not None and not (self.out / "tokenizer").exists():
            self.train.tokenizer.save(self.out / "tokenizer")

    def _found(self) -> Checkpoint | None:
        """The checkpoint to go on from, after a look at what `out` holds."""
        if self.force and self.ranks.is_first and read_run(self.out) is not None:
            shutil.rmtree(self.out)
        self.ranks.wait()
        before = read_run(self.out)
        # The first rank writes here next, and the others are to have read what was there before.
        self.ranks.wait()
        if before is None:
            return None
        require_same_run(self.out, before, self.state())
        if not self.resume:
            raise ConfigError(
                f"`{self.out}` holds a run already",
                "pass `--resume` to go on with it, `--force` to start anew, or name another folder",
            )
        found = latest_checkpoint(self.out / CHECKPOINTS)
        begun_with = TrainSettings.from_json(before["settings"])
        require_same_rates(self.out, begun_with, self.settings, 0 if found is None else found.step)
        return found


def is_shown(progress: ProgressChoice) -> bool:
    """Whether there is a line of progress: as asked, else where somebody looks."""
    return sys.stderr.isatty() if progress is None else bool(progress)
