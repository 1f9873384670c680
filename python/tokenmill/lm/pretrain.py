# pyright: basic
"""`tm.lm.pretrain`: a dataset in, a run folder with checkpoints out."""

import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from tokenmill import _core
from tokenmill.errors import ConfigError
from tokenmill.lm.accounting import account
from tokenmill.lm.batches import Batches
from tokenmill.lm.checkpoint import Checkpoint, copy_weights, latest_checkpoint
from tokenmill.lm.compiling import repays
from tokenmill.lm.config_file import apply_overrides, read_config, require_known, settings_from
from tokenmill.lm.distributed import Ranks, join_ranks, leave_ranks
from tokenmill.lm.hardware import find_device, peak_flops
from tokenmill.lm.loop import CHECKPOINTS, Loop, StepResult
from tokenmill.lm.memory import is_out_of_memory, memory_need, require_memory
from tokenmill.lm.metrics import Metrics
from tokenmill.lm.model import Model
from tokenmill.lm.model_config import ModelConfig, preset
from tokenmill.lm.objective import NextToken
from tokenmill.lm.packing import Plan, make_plan
from tokenmill.lm.passes import keep_memory
from tokenmill.lm.run_folder import read_run, require_same_rates, require_same_run, write_run
from tokenmill.lm.settings import TrainSettings
from tokenmill.lm.sinks import LogSettings, make_sinks, require_sinks
from tokenmill.lm.start_from import Start, find_start, require_same_vocab, shape_from
from tokenmill.lm.token_data import (
    TokenData,
    default_validation,
    open_split,
    require_one_tokenizer,
)
from tokenmill.progress import Meter, ProgressChoice
from tokenmill.storage.files import local_path


@dataclass(frozen=True)
class DataSettings:
    """Where ids come from."""

    train: str | Path
    """A dataset, or a plain file of ids."""
    validation: str | Path | None = None
    """`None` takes the split `validation` of `train`, if it has one."""
    vocab_size: int | None = None
    """For files that nothing describes."""
    dtype: str | None = None


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


def pretrain(
    data: str | os.PathLike[str] | DataSettings,
    out: str | os.PathLike[str],
    *,
    model: ModelConfig | str | None = None,
    start_from: str | os.PathLike[str] | None = None,
    settings: TrainSettings | None = None,
    logs: LogSettings | None = None,
    resume: bool = True,
    force: bool = False,
    progress: ProgressChoice = None,
    on_step: Callable[[StepResult], None] | None = None,
    **changes: Any,
) -> TrainedModel:
    """Train a model on the ids of `data`, in the folder `out`.

    `model` is a preset or a shape; its vocab is that of the data. `start_from` is a model whose weights are the first ones, and whose
    shape is taken: a run, a checkpoint, a folder of transformers. Keywords change single settings (`max_steps=500`). A run that was
    stopped goes on from its last good checkpoint, to the same bits; one that is done is opened, or goes on if `max_steps` are more now and
    no rate that was used depends on them. ConfigError if `out` holds another run, unless `force` clears it away.
    """
    given = data if isinstance(data, DataSettings) else DataSettings(Path(data))
    run = prepare_pretrain(
        given,
        out,
        model=model,
        start_from=start_from,
        settings=replace(settings or TrainSettings(), **changes),
        logs=logs,
        resume=resume,
        force=force,
        progress=progress,
    )
    return run.run(on_step, shows_progress=_is_shown(progress))


def _is_shown(progress: ProgressChoice) -> bool:
    return sys.stderr.isatty() if progress is None else bool(progress)


@dataclass(frozen=True)
class PretrainRun:
    """A run checked and ready."""

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
    train_plan: Plan
    validation_plan: Plan | None

    def state(self) -> dict[str, Any]:
        """What each checkpoint and the run's own file say."""
        return {
            "model": self.config.as_json(),
            "from": None if self.start is None else self.start.as_json(),
            "settings": self.settings.as_json(),
            "data": {"name": self.train.name, "sha256": self.train.sha256},
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
        counted = account(self.config, batch_size=self._rows_at_once())
        tokens = self.settings.batch_size * self.config.context
        return {
            **self.state(),
            "parameters": counted.parameters.total,
            "tokens": self.train.num_tokens,
            "tokens_per_step": tokens,
            "epochs": self.settings.max_steps * self.settings.batch_size / len(self.train_plan),
            "flops": self._flops(),
            "compiles": self._compiles(),
            "memory_bytes": counted.memory.total,
            "packing": asdict(self.train_plan.waste),
        }

    def _rows_at_once(self) -> int:
        share = max(1, self.settings.batch_size // self.ranks.world_size)
        return min(self.settings.micro_batch_size or share, share)

    def run(
        self,
        on_step: Callable[[StepResult], None] | None = None,
        *,
        shows_progress: bool = False,
    ) -> TrainedModel:
        """Train what is left of it."""
        started = time.perf_counter()
        require_memory(self.config, self._rows_at_once(), self.device)
        if self.device.type == "cpu":
            keep_memory()
        checkpoint = self._found()
        self.ranks.wait()  # all have looked; from here on the first one writes
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
                raise memory_need(self.config, self._rows_at_once(), self.device).error() from error
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
            return Model(self.config, seed=self.settings.seed).to(self.device)
        model = Model.empty(self.config, self.device)
        if is_new and self.start is not None:
            copy_weights(model, self.start.weights(self.config), f"`{self.start.path}`")
        return model

    def _loop(
        self,
        model: Model,
        metrics: Metrics | None,
        on_step: Callable[[StepResult], None] | None,
    ) -> Loop:
        masked = self.settings.document_mask
        batches = Batches(self.train.tokens, self.train_plan, self.train.mask, masked)
        validation = None
        if self.validation is not None and self.validation_plan is not None:
            validation = Batches(
                self.validation.tokens, self.validation_plan, self.validation.mask, masked
            )
        return Loop(
            model,
            NextToken(model),
            self.settings,
            batches,
            validation,
            self.out,
            metrics,
            self.state(),
            self.ranks,
            account(self.config).training_flops_per_token,
            peak_flops(self.device) if self.ranks.is_first else None,
            [] if on_step is None else [on_step],
            self._sampler(model),
            bytes_per_token=None if self.validation is None else self.validation.bytes_per_token,
        )

    def _sampler(self, model: Model) -> Callable[[int], list[str]] | None:
        """What writes samples while a model is trained, if they are wanted and can be read."""
        tokenizer, settings = self.train.tokenizer, self.settings
        if not settings.sample_every or tokenizer is None:
            return None
        from tokenmill.lm.generate import generate

        def sample(_: int) -> list[str]:
            prompts = list(settings.sample_prompts)
            found = generate(model, tokenizer, prompts, max_tokens=settings.sample_tokens)
            return [prompt + each.text for prompt, each in zip(prompts, found, strict=True)]

        return sample

    def _compiles(self) -> bool:
        if self.settings.compile != "auto":
            return self.settings.compile == "on"
        return repays(self.device, self._flops())

    def _flops(self) -> float:
        """Of the whole run."""
        tokens = self.settings.batch_size * self.config.context * self.settings.max_steps
        return account(self.config).training_flops_per_token * tokens

    def _metrics(self, step: int) -> Metrics | None:
        if not self.ranks.is_first:
            return None
        self.out.mkdir(parents=True, exist_ok=True)
        self._describe()
        sinks = make_sinks(self.logs, self.out, self.state(), after_step=step)
        return Metrics(self.out, sinks, after_step=step)

    def _describe(self) -> None:
        """What a reader of the folder wants to know, before there is a checkpoint."""
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


def prepare_pretrain(
    data: DataSettings,
    out: str | os.PathLike[str],
    *,
    model: ModelConfig | str | None = None,
    start_from: str | os.PathLike[str] | None = None,
    settings: TrainSettings | None = None,
    logs: LogSettings | None = None,
    resume: bool = True,
    force: bool = False,
    progress: ProgressChoice = None,
    changes: Mapping[str, Any] | None = None,
) -> PretrainRun:
    """A run whose data, model and settings fit each other. The arguments are those of `pretrain`; `changes` are made to `model`."""
    settings = settings or TrainSettings()
    require_sinks(logs or LogSettings())
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    ranks = join_ranks("cuda" if settings.device.startswith("cuda") else "cpu")
    device = find_device(settings.device, ranks.local_rank)
    train, validation = _open(data, progress)
    before = None if force else read_run(local_path(out))
    if before is not None:
        settings = settings.with_warmup_of(TrainSettings.from_json(before["settings"]))
    start = find_start(start_from, local_path(out), before)
    config = _shape(model, changes or {}, start, train)
    width = config.context + 1
    plans = [
        make_plan(
            settings.packing,
            each.num_tokens,
            each.ends if settings.packing == "best-fit" else None,
            width,
            each.name,
        )
        for each in (train, validation)
        if each is not None
    ]
    return PretrainRun(
        train,
        validation,
        config,
        start,
        settings,
        logs or LogSettings(),
        local_path(out),
        resume,
        force,
        device,
        ranks,
        plans[0],
        plans[1] if len(plans) > 1 else None,
    )


def prepare_from_tables(
    tables: Mapping[str, Mapping[str, Any]],
    *,
    preset_name: str | None,
    config: Path | None,
    overrides: Sequence[str],
    **more: Any,
) -> PretrainRun:
    """A run from the tables of a TOML file, changed by `a.b=c` and then by `tables`, which are those of the command line."""
    values = apply_overrides(read_config(config) if config is not None else {}, overrides)
    for name, table in tables.items():
        values[name] = {**values.get(name, {}), **table}
    name, start_from = values.pop("preset", None), values.pop("from", None)
    require_known(values, tables, "table")
    return prepare_pretrain(
        settings_from(DataSettings, values["data"], "data"),
        model=preset_name or name,
        start_from=more.pop("start_from", None) or start_from,
        settings=settings_from(TrainSettings, values["train"], "train"),
        logs=settings_from(LogSettings, values["log"], "log"),
        changes=values["model"],
        **more,
    )


def _open(data: DataSettings, progress: ProgressChoice) -> tuple[TokenData, TokenData | None]:
    meter = Meter(progress)
    try:
        options: dict[str, Any] = {
            "vocab_size": data.vocab_size,
            "dtype": data.dtype,
            "meter": meter,
        }
        train = open_split(data.train, "train", **options)
        where = data.validation if data.validation is not None else data.train
        split = default_validation(where) if data.validation is None else "validation"
        validation = None if split is None else open_split(where, split, **options)
    finally:
        meter.end()
    if validation is not None:
        require_one_tokenizer(train, validation)
    return train, validation


def _shape(
    model: ModelConfig | str | None,
    changes: Mapping[str, Any],
    start: Start | None,
    train: TokenData,
) -> ModelConfig:
    """What `model` and `changes` ask for, or what the weights of `start` have; its vocab is that of the data."""
    if isinstance(model, ModelConfig):
        changes, model = {**model.as_json(), **changes}, None
    if start is not None:
        base = start.config if model is None else preset(model)
        config = shape_from(start, settings_from(ModelConfig, changes, "model", base), changes)
        require_same_vocab(start, train)
        return config
    config = settings_from(ModelConfig, changes, "model", preset(model or "1m"))
    if "vocab_size" not in changes:
        return replace(config, vocab_size=train.vocab_size)
    if config.vocab_size != train.vocab_size:
        raise ConfigError(
            f"the model has a vocab of {config.vocab_size:,}, `{train.name}` one of {train.vocab_size:,}",
            "leave `vocab_size` of the model out: it follows from the data",
        )
    return config
