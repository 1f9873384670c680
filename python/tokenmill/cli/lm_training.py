"""What the commands that train have in common: a run is shown, made, and told about."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from tokenmill.cli.console import line, print_json, set_up_logging
from tokenmill.cli.lm_train_options import Tables, TrainingFlags
from tokenmill.progress import quantity, size

if TYPE_CHECKING:
    from tokenmill.lm.run import Run, TrainedModel


def with_hyphens(name: str) -> str:
    """`--train_data` is `--train-data`: people bring commands along that were written either way."""
    return name.replace("_", "-")


def train_stage(
    import_prepare: "Callable[[], Callable[..., Run]]",
    training: TrainingFlags,
    tables: Tables,
    next_command: str,
    **more: Any,
) -> None:
    """Prepare a run from the tables of the command line, and do what was asked with it.

    `import_prepare` imports what prepares it, and torch with that; `more` is handed on to it. `next_command` is what people run next, with the
    folder of the run for `{}`.
    """
    set_up_logging(training.verbose)
    try:
        prepare = import_prepare()
    except ModuleNotFoundError as error:
        from tokenmill.errors import ConfigError

        raise ConfigError(
            f"training needs {error.name}, which is not installed", "pip install 'tokenmill[lm]'"
        ) from None
    if training.quiet:
        os.environ.setdefault("WANDB_SILENT", "true")
    run = prepare(
        {**training.tables, **tables},
        config=training.config,
        overrides=training.overrides,
        out=training.out,
        resume=training.resume,
        force=training.force,
        progress=not training.quiet,
        **more,
    )
    speaks = run.ranks.is_first and not training.quiet
    if speaks and not training.as_json:
        _show_plan(run)
    if training.dry_run:
        if training.as_json:
            print_json(run.describe())
        return
    result = _trained(run, training.out, shows=speaks)
    if speaks and training.as_json:
        print_json(result.as_json())
    elif speaks:
        _show(result, next_command)


def _trained(run: "Run", out: Path, *, shows: bool) -> "TrainedModel":
    from tokenmill.lm.loop import Stopped

    try:
        return run.run(shows_progress=shows)
    except Stopped as stopped:
        if run.ranks.is_first:
            print(f"{stopped.message}", file=sys.stderr)
            print(
                f"hint: run the same command with `--resume` to go on in `{out}`", file=sys.stderr
            )
        raise typer.Exit(130) from None


def _show_plan(run: "Run") -> None:
    plan = run.describe()
    line(
        "model",
        f"{plan['parameters']:,} parameters, context {run.config.context:,}, on {run.device}",
    )
    lora = run.stage.settings.get("lora")
    if lora is not None:
        targets = ", ".join(lora["targets"])
        line("adapters", f"LoRA of rank {lora['rank']}, alpha {lora['alpha']:g}, on {targets}")
        if run.start is not None and run.start.new_ids:
            line(
                "",
                "embeddings and head are trained whole: there are tokens that nobody has learned",
            )
    if run.start is not None:
        step = "" if run.start.step is None else f" at step {run.start.step:,}"
        line("from", f"{run.start.path}{step}, weights of sha256 {run.start.sha256[:16]}…")
        new = len(run.start.new_ids)
        if new:
            line("", f"embeddings for {quantity(new, 'new token')}: the mean of those there are")
    line("data", f"{run.train.name}: {run.train.num_tokens:,} tokens, {run.train_rows.waste}")
    _show_left_out(plan["documents"])
    if run.validation is not None:
        line("", f"{run.validation.name}: {run.validation.num_tokens:,} tokens for validation")
    if run.train.encoded_with is None:
        line(
            "note",
            "nothing says which tokenizer these ids are of: whether it fits cannot be checked",
        )
    elif run.train.tokenizer is None:
        line("note", "the tokenizer is not beside these ids: `lm generate` needs `--tokenizer DIR`")
    line(
        "steps",
        f"{run.settings.max_steps:,} of {plan['tokens_per_step']:,} tokens: {plan['epochs']:.2f} epochs, "
        f"{plan['flops']:.2e} FLOPs, at least {size(plan['memory_bytes'])}",
    )


_LEFT_OUT = {
    "dropped_pairs": "pair that is left out",
    "too_long": "document longer than the context",
    "no_trained_tokens": "document without a token to be trained on",
}
_LEFT_OUT_MANY = {
    "dropped_pairs": "pairs that are left out",
    "too_long": "documents longer than the context",
    "no_trained_tokens": "documents without a token to be trained on",
}


def _show_left_out(documents: dict[str, int]) -> None:
    parts = [
        f"{count:,} {(_LEFT_OUT if count == 1 else _LEFT_OUT_MANY)[name]}"
        for name, count in documents.items()
        if name in _LEFT_OUT and count
    ]
    if parts:
        line("", "of them " + ", ".join(parts))


def _show(result: "TrainedModel", next_command: str) -> None:
    losses = [f"{result.step:,} steps"]
    if result.train_loss is not None:
        losses.append(f"loss {result.train_loss:.4f}")
    if result.validation_loss is not None:
        losses.append(f"validation loss {result.validation_loss:.4f}")
    line("trained", ", ".join(losses), result.seconds)
    line("wrote", str(result.folder))
    if (result.folder / "tensorboard").is_dir():
        line("see", f"tensorboard --logdir {result.folder / 'tensorboard'}")
    line("next", next_command.format(result.folder))
