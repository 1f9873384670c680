"""Flags of training, which all stages take: each with the default of the stage, read together into `TrainingFlags`."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from tokenmill.cli import options as flags
from tokenmill.cli.options import help_text
from tokenmill.lm.schedule import SCHEDULES
from tokenmill.lm.settings import COMPILES, OPTIMIZERS, PRECISIONS, TrainSettings

Tables = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class TrainingFlags:
    """What was said on the command line about training, whatever the stage."""

    out: Path
    config: Path | None
    overrides: list[str]
    tables: Tables
    """Settings by table of the TOML file and name, those that were given alone."""
    resume: bool
    force: bool
    dry_run: bool
    as_json: bool
    quiet: bool
    verbose: int


def takes_training_flags(
    defaults: TrainSettings, *, steps: str, tables: str, lora_lr: float | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Makes a command that has a parameter `training` take all flags that it is read from.

    `defaults` are those of the stage; `steps` is what decides their number, `tables` what a TOML file may have, `lora_lr` the peak with
    adapters.
    """

    def make(command: Callable[..., None]) -> Callable[..., None]:
        own = [
            each
            for name, each in inspect.signature(command).parameters.items()
            if name != "training"
        ]
        shared = _parameters(defaults, steps, tables, lora_lr)
        names = {each.name for each in shared}

        @functools.wraps(command)
        def wrapper(**values: Any) -> None:
            said = {name: values.pop(name) for name in names}
            command(**values, training=_read(**said))

        every = sorted([*own, *shared], key=lambda each: each.name in _LAST)
        # typer reads signatures, and types from the annotations.
        wrapper.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
        wrapper.__annotations__ = {each.name: each.annotation for each in every} | {"return": None}
        return wrapper

    return make


_LAST = ("resume", "force", "dry_run", "json", "quiet", "verbose")


def _parameters(
    defaults: TrainSettings, steps: str, tables: str, lora_lr: float | None
) -> list[inspect.Parameter]:
    def option(kind: Any, metavar: str, text: str, default: object, *names: str) -> Any:
        shown = text if default is None else help_text(text, default)
        found = typer.Option(*names, metavar=metavar, help=shown, show_default=False)
        return Annotated[kind, found]

    def number(text: str, default: object, *names: str) -> Any:
        return option(int | None, "N", text, default, *names)

    def rate(text: str, default: object, *names: str) -> Any:
        return option(float | None, "X", text, default, *names)

    def name(text: str, known: tuple[str, ...], default: object, *names: str) -> Any:
        return option(str | None, "|".join(known), text, default, *names)

    def switch(text: str, *names: str) -> Any:
        return Annotated[bool, typer.Option(*names, help=text)]

    d = defaults
    peak = f"{d.lr:g}" if lora_lr is None else f"{d.lr:g}, with LoRA {lora_lr:g}"
    falls_to = "a tenth of the peak" if d.min_lr is None else f"{d.min_lr:g}"
    cooldown = "a fifth" if d.cooldown_steps is None and d.schedule != "wsd" else "half"
    # Post-training shows answers unasked.
    samples = d.sample_every if lora_lr is None else "a quarter"
    every: dict[str, tuple[Any, Any]] = {
        "out": (option(Path | None, "DIR", "Folder of the run.", None, "--out", "--out-dir"), None),
        "config": (option(Path | None, "FILE", f"TOML with {tables}.", None, "--config"), None),
        "overrides": (
            option(
                list[str] | None,
                "A.B=C",
                "Change one setting, such as `model.qk_norm=true`.",
                None,
                "--set",
            ),
            None,
        ),
        "context": (number("Tokens the model sees at once.", "the model's", "--context"), None),
        "batch_size": (
            number("Rows of one step, on all ranks together.", d.batch_size, "--batch-size"),
            None,
        ),
        "micro_batch_size": (
            number(
                "Rows that are computed at once; the step is the same.", "all", "--micro-batch-size"
            ),
            None,
        ),
        "max_steps": (number("Steps in all.", steps, "--max-steps", "--max-iters"), None),
        "lr": (
            rate("Peak of the learning rate.", peak, "--lr", "--learning-rate"),
            None,
        ),
        "min_lr": (rate("What it falls to.", falls_to, "--min-lr"), None),
        "warmup_steps": (number("Steps until the peak.", "a twentieth", "--warmup-steps"), None),
        "cooldown_steps": (
            number("Steps of falling, with `wsd`.", cooldown, "--cooldown-steps"),
            None,
        ),
        "schedule": (
            name("Course of the learning rate.", SCHEDULES, d.schedule, "--schedule"),
            None,
        ),
        "optimizer": (
            name("How gradients change weights.", OPTIMIZERS, d.optimizer, "--optimizer"),
            None,
        ),
        "weight_decay": (rate("Of matrices.", f"{d.weight_decay:g}", "--weight-decay"), None),
        "clip": (rate("Longest gradient.", d.clip, "--clip", "--grad-clip"), None),
        "precision": (name("Of products.", PRECISIONS, d.precision, "--precision"), None),
        "compile": (
            name(
                "torch.compile; `auto` on a GPU for a long run.", COMPILES, d.compile, "--compile"
            ),
            None,
        ),
        "device": (
            option(
                str | None, "DEVICE", "cpu, cuda, cuda:1, mps.", "a GPU if there is one", "--device"
            ),
            None,
        ),
        "seed": (number("Of weights, order and dropout.", d.seed, "--seed"), None),
        "threads": (number("Of torch, on a CPU.", "all cores", "--threads"), None),
        "eval_every": (
            number(
                "Steps between validation losses, 0 for never; each checkpoint has one too.",
                "a twentieth",
                "--eval-every",
                "--eval-interval",
            ),
            None,
        ),
        "eval_rows": (number("Validation rows for each.", d.eval_rows, "--eval-rows"), None),
        "save_every": (number("Steps between checkpoints.", "a tenth", "--save-every"), None),
        "keep_last": (
            number("Checkpoints to keep beside the best.", d.keep_last, "--keep-last"),
            None,
        ),
        "log_every": (
            number(
                "Steps between lines of metrics.jsonl.",
                d.log_every,
                "--log-every",
                "--log-interval",
            ),
            None,
        ),
        "sample_every": (
            number("Steps between samples, 0 for none.", samples, "--sample-every"),
            None,
        ),
        "sample_prompts": (
            option(
                list[str] | None,
                "TEXT",
                "What samples begin with; several times for several.",
                None,
                "--sample-prompt",
            ),
            None,
        ),
        "log": (
            option(
                str | None,
                "NAMES",
                "tensorboard, wandb, both with a comma, or none.",
                "tensorboard",
                "--log",
            ),
            None,
        ),
        "wandb": (switch("As `--log tensorboard,wandb`.", "--wandb"), False),
        "project": (option(str | None, "NAME", "Of the run in W&B.", None, "--project"), None),
        "run_name": (option(str | None, "NAME", "Of the run in W&B.", None, "--run-name"), None),
        "tag": (option(list[str] | None, "NAME", "In W&B.", None, "--tag"), None),
        "resume": (
            switch(
                "Go on with the run at --out; without, a folder that holds one is refused.",
                "--resume",
            ),
            False,
        ),
        "force": (switch("Delete the run at --out and start anew.", "--force"), False),
        "dry_run": (flags.DryRun, False),
        "json": (flags.Json, False),
        "quiet": (flags.Quiet, False),
        "verbose": (flags.Verbose, 0),
    }
    return [
        inspect.Parameter(
            each, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
        )
        for each, (annotation, default) in every.items()
    ]


def _read(
    *,
    out: Path | None,
    config: Path | None,
    overrides: list[str] | None,
    context: int | None,
    log: str | None,
    wandb: bool,
    project: str | None,
    run_name: str | None,
    tag: list[str] | None,
    resume: bool,
    force: bool,
    dry_run: bool,
    json: bool,
    quiet: bool,
    verbose: int,
    **train: Any,
) -> TrainingFlags:
    if out is None:
        raise typer.BadParameter("`--out` is needed")
    if wandb:
        log = "tensorboard,wandb" if log is None else f"{log},wandb"
    tables: Tables = {
        "model": given(context=context),
        "train": given(**train),
        "log": given(project=project, name=run_name, tags=tag),
    }
    if log is not None:
        tables["log"]["sinks"] = [each for each in log.split(",") if each not in ("", "none")]
    return TrainingFlags(
        out, config, overrides or [], tables, resume, force, dry_run, json, quiet, verbose
    )


def given(**values: Any) -> dict[str, Any]:
    """Those that were given on the command line."""
    return {name: value for name, value in values.items() if value not in (None, [])}
