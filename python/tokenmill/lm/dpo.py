# pyright: basic
"""`tm.lm.dpo`: a model and pairs of answers in, a model that prefers the chosen ones out.

The reference is the model the run starts from, or another one. What it thinks of each answer is computed once, by the code that trains,
and kept; in training there is one model in memory. Before the first step a model that is its own reference must have margins of 0: if it has
not, the two did not see the same, and the run stops.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from tokenmill.errors import ConfigError
from tokenmill.lm.checkpoint import copy_weights
from tokenmill.lm.fitting import fit_documents
from tokenmill.lm.loop import StepResult
from tokenmill.lm.model import Model
from tokenmill.lm.pair_objective import Preference
from tokenmill.lm.pairs import PairRows
from tokenmill.lm.post_training import Beginning, arguments_from, begin, with_tokens_of
from tokenmill.lm.post_training_settings import DpoSettings
from tokenmill.lm.preference_watch import PreferenceWatch
from tokenmill.lm.reference import find_log_probs, reference_key
from tokenmill.lm.run import Run, Stage, TrainedModel, is_shown
from tokenmill.lm.sinks import LogSettings
from tokenmill.lm.start_from import Start, open_start
from tokenmill.lm.token_data import DataSettings, TokenData, as_data_settings
from tokenmill.progress import Meter, ProgressChoice
from tokenmill.storage.files import local_path


def dpo(
    data: str | os.PathLike[str] | DataSettings,
    out: str | os.PathLike[str],
    *,
    base: str | os.PathLike[str],
    reference: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    options: DpoSettings | None = None,
    logs: LogSettings | None = None,
    resume: bool = True,
    force: bool = False,
    progress: ProgressChoice = None,
    on_step: Callable[[StepResult], None] | None = None,
    **changes: Any,
) -> TrainedModel:
    """Teach the model at `base` to prefer the chosen answers of `data`, in the folder `out`.

    `data` is a dataset of `encode --mode preference` with the tokenizer of the model. `reference` is the model it is held to, `None` the base
    itself; what that thinks of all answers is kept in `cache`, `None` for `out`. Keywords are settings of `TrainSettings`. Resuming, and
    everything else, is as in `pretrain`.
    """
    run = prepare_dpo(
        as_data_settings(data),
        out,
        base=base,
        reference=reference,
        cache=cache,
        options=options,
        train=changes,
        logs=logs,
        resume=resume,
        force=force,
        progress=progress,
    )
    return run.run(on_step, shows_progress=is_shown(progress))


def prepare_dpo(
    data: DataSettings,
    out: str | os.PathLike[str],
    *,
    base: str | os.PathLike[str] | None,
    reference: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    options: DpoSettings | None = None,
    train: Mapping[str, Any] | None = None,
    model: Mapping[str, Any] | None = None,
    **how: Any,
) -> Run:
    """A run whose base, pairs and settings fit each other. `train` and `model` are the settings that were given."""
    options, given = options or DpoSettings(), train or {}
    found = begin(data, out, base=base, mode="preference", train=given, **how)
    _require_same_template(found)
    # Dropout would make a model differ from itself.
    config = found.config({"dropout": 0.0, **(model or {})})
    if config.dropout:
        raise ConfigError(
            f"with dropout {config.dropout:g} a model is not its own reference", "leave it out"
        )
    rows = _rows(found.train, config.context + 1, options.too_long)
    validation = None
    if found.validation is not None:
        validation = _rows(found.validation, config.context + 1, options.too_long)
    settings = found.settings(given, options.defaults, len(rows), options.epochs)
    held_to = None if reference is None else _reference(reference, found, config.context)
    stage = Stage(
        "dpo",
        partial(
            Preference,
            options=options,
            is_own_reference=held_to is None,
            precision=settings.precision,
        ),
        {**options.as_json(), "reference": None if held_to is None else held_to.sha256},
        adapt=found.adapters(options.lora, settings.seed),
        make_ready=partial(
            _find_reference, held_to, found.out if cache is None else local_path(cache)
        ),
        watch=partial(PreferenceWatch, options.beta, rows.mean_answer_tokens),
        documents=rows.as_json(),
    )
    return found.run(stage, config, settings, rows, validation)


def prepare_dpo_from_tables(
    tables: Mapping[str, Mapping[str, Any]],
    *,
    config: Path | None,
    overrides: Sequence[str],
    base: str | None,
    **more: Any,
) -> Run:
    """A run from the tables of a TOML file, `a.b=c` and the command line."""
    said = arguments_from(tables, "dpo", DpoSettings, config=config, overrides=overrides, base=base)
    return prepare_dpo(**said, **more)


def _require_same_template(found: Beginning) -> None:
    """ConfigError if the pairs were rendered in another way than the model was taught to talk in."""
    ours, theirs = found.start.tokenizer, found.train.tokenizer
    if ours is None or theirs is None or ours.chat_template is None:
        return
    if theirs.chat_template != ours.chat_template:
        raise ConfigError(
            f"`{found.start.path}` was taught to talk by another chat template than `{found.train.name}` was rendered with",
            "encode the pairs with the `--profile` of the model's conversations",
        )


def _rows(data: TokenData, width: int, too_long: str) -> PairRows:
    return PairRows(data, fit_documents(data, width, too_long), width)


def _reference(path: str | os.PathLike[str], run: Beginning, context: int) -> Start:
    """A model to be held to. ConfigError if its tokenizer is not that of the data, or it has learned fewer positions than rows have."""
    found = with_tokens_of(open_start(path, run.out), run.train)
    if found.config.positions == "learned" and found.config.context < context:
        raise ConfigError(
            f"`{path}` has learned {found.config.context:,} positions, so it cannot be asked about rows of {context:,}",
            "pass a smaller `--context`",
        )
    return found


def _find_reference(
    held_to: Start | None, folder: Path, run: Run, progress: ProgressChoice
) -> None:
    """Give the pairs of `run` what the reference thinks of them."""
    start = run.start if held_to is None else held_to
    assert start is not None
    config = run.config
    if held_to is not None:
        # As the model is: without dropout, and with room for the tokens of the data.
        size = max(held_to.config.vocab_size, run.config.vocab_size)
        config = replace(held_to.config, dropout=0.0, vocab_size=size)

    def make_model() -> Model:
        model = Model.empty(config, run.device)
        copy_weights(model, start.weights(config), f"`{start.path}`")
        return model

    for rows in (run.train_rows, run.validation_rows):
        if isinstance(rows, PairRows):
            rows.reference = find_log_probs(
                make_model,
                rows,
                reference_key(start.sha256, config, run.settings.precision, rows),
                folder,
                ranks=run.ranks,
                pairs_at_once=run.settings.micro_batch_size or run.settings.batch_size,
                precision=run.settings.precision,
                meter=Meter(progress),
            )
