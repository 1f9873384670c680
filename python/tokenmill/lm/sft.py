# pyright: basic
"""`tm.lm.sft`: a model and rows of conversations in, a model that answers out.

It is the loop of pretraining with other rows: whole conversations, packed so that none looks into another, and only what the
assistant says is learned.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenmill.lm.batches import Batches
from tokenmill.lm.fitting import fit_documents
from tokenmill.lm.loop import StepResult
from tokenmill.lm.objective import AnswerTokens
from tokenmill.lm.packing import BestFitPlan
from tokenmill.lm.post_training import arguments_from, begin
from tokenmill.lm.post_training_settings import SftSettings
from tokenmill.lm.run import Run, Stage, TrainedModel, is_shown
from tokenmill.lm.sinks import LogSettings
from tokenmill.lm.token_data import DataSettings, TokenData, as_data_settings
from tokenmill.progress import ProgressChoice


def sft(
    data: str | os.PathLike[str] | DataSettings,
    out: str | os.PathLike[str],
    *,
    base: str | os.PathLike[str],
    options: SftSettings | None = None,
    logs: LogSettings | None = None,
    resume: bool = True,
    force: bool = False,
    progress: ProgressChoice = None,
    on_step: Callable[[StepResult], None] | None = None,
    **changes: Any,
) -> TrainedModel:
    """Teach the model at `base` to answer as the assistant does in `data`, in the folder `out`.

    `data` is a dataset of `encode --mode sft` with the tokenizer of the model; special tokens that it has more get embeddings of
    their own. Keywords are settings of `TrainSettings`. Resuming, and everything else, is as in `pretrain`.
    """
    run = prepare_sft(
        as_data_settings(data),
        out,
        base=base,
        options=options,
        train=changes,
        logs=logs,
        resume=resume,
        force=force,
        progress=progress,
    )
    return run.run(on_step, shows_progress=is_shown(progress))


def prepare_sft(
    data: DataSettings,
    out: str | os.PathLike[str],
    *,
    base: str | os.PathLike[str] | None,
    options: SftSettings | None = None,
    train: Mapping[str, Any] | None = None,
    model: Mapping[str, Any] | None = None,
    **how: Any,
) -> Run:
    """A run whose base, rows and settings fit each other. `train` and `model` are the settings that were given."""
    options, given = options or SftSettings(), train or {}
    found = begin(data, out, base=base, mode="sft", train=given, **how)
    config = found.config(model or {})
    rows, left_out = _rows(found.train, config.context + 1, options.too_long)
    validation = None
    if found.validation is not None:
        validation, _ = _rows(found.validation, config.context + 1, options.too_long)
    settings = found.settings(given, options.defaults, len(rows), options.epochs)
    stage = Stage(
        "sft",
        AnswerTokens,
        options.as_json(),
        adapt=found.adapters(options.lora, settings.seed),
        documents=left_out,
    )
    return found.run(stage, config, settings, rows, validation)


def prepare_sft_from_tables(
    tables: Mapping[str, Mapping[str, Any]],
    *,
    config: Path | None,
    overrides: Sequence[str],
    base: str | None,
    **more: Any,
) -> Run:
    """A run from the tables of a TOML file, `a.b=c` and the command line."""
    said = arguments_from(tables, "sft", SftSettings, config=config, overrides=overrides, base=base)
    return prepare_sft(**said, **more)


def _rows(data: TokenData, width: int, too_long: str) -> tuple[Batches, dict[str, int]]:
    """Rows of whole conversations, and what was left out."""
    fitting = fit_documents(data, width, too_long)
    kept = fitting.is_kept
    plan = BestFitPlan(
        fitting.starts[kept],
        fitting.lengths[kept],
        width,
        dropped=data.num_tokens - int(fitting.lengths[kept].sum()),
        cut=0 if too_long == "drop" else fitting.too_long,
    )
    return Batches(data.tokens, plan, data.mask, document_mask=True), fitting.as_json()
