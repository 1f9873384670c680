# pyright: basic
"""`tm.lm.pretrain`: a dataset in, a run folder with checkpoints out."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from tokenmill.errors import ConfigError
from tokenmill.lm.batches import Batches, Rows
from tokenmill.lm.config_file import merged_tables, settings_from
from tokenmill.lm.distributed import join_ranks
from tokenmill.lm.hardware import find_device
from tokenmill.lm.loop import StepResult
from tokenmill.lm.model_config import ModelConfig, preset
from tokenmill.lm.objective import NextToken
from tokenmill.lm.packing import make_plan
from tokenmill.lm.run import Run, Stage, TrainedModel, is_shown
from tokenmill.lm.run_folder import read_run
from tokenmill.lm.settings import TrainSettings
from tokenmill.lm.sinks import LogSettings, require_sinks
from tokenmill.lm.start_from import Start, find_start, require_same_vocab, shape_from
from tokenmill.lm.token_data import DataSettings, TokenData, as_data_settings, open_data
from tokenmill.progress import ProgressChoice
from tokenmill.storage.files import local_path


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
    run = prepare_pretrain(
        as_data_settings(data),
        out,
        model=model,
        start_from=start_from,
        settings=replace(settings or TrainSettings(), **changes),
        logs=logs,
        resume=resume,
        force=force,
        progress=progress,
    )
    return run.run(on_step, shows_progress=is_shown(progress))


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
) -> Run:
    """A run whose data, model and settings fit each other. The arguments are those of `pretrain`; `changes` are made to `model`."""
    settings = settings or TrainSettings()
    require_sinks(logs or LogSettings())
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    ranks = join_ranks("cuda" if settings.device.startswith("cuda") else "cpu")
    device = find_device(settings.device, ranks.local_rank)
    train, validation = open_data(data, progress)
    before = None if force else read_run(local_path(out))
    if before is not None:
        settings = settings.with_warmup_of(TrainSettings.from_json(before["settings"]))
    start = find_start(start_from, local_path(out), before)
    config = _shape(model, changes or {}, start, train)
    width = config.context + 1
    return Run(
        Stage("pretrain", NextToken),
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
        _rows(train, settings, width),
        None if validation is None else _rows(validation, settings, width),
    )


def _rows(data: TokenData, settings: TrainSettings, width: int) -> Rows:
    ends = data.ends if settings.packing == "best-fit" else None
    plan = make_plan(settings.packing, data.num_tokens, ends, width, data.name)
    return Batches(data.tokens, plan, data.mask, settings.document_mask)


def prepare_from_tables(
    tables: Mapping[str, Mapping[str, Any]],
    *,
    preset_name: str | None,
    config: Path | None,
    overrides: Sequence[str],
    **more: Any,
) -> Run:
    """A run from the tables of a TOML file, `a.b=c` and the command line."""
    values = merged_tables(tables, config, overrides, ("preset", "from"))
    return prepare_pretrain(
        settings_from(DataSettings, values["data"], "data"),
        model=preset_name or values.get("preset"),
        start_from=more.pop("start_from", None) or values.get("from"),
        settings=settings_from(TrainSettings, values["train"], "train"),
        logs=settings_from(LogSettings, values["log"], "log"),
        changes=values["model"],
        **more,
    )


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
