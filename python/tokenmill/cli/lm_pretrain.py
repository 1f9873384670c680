"""`tokenmill lm pretrain`: train a model on a dataset."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tokenmill.cli import lm_train_options as own
from tokenmill.cli import options as flags
from tokenmill.cli.console import answering_errors, line, print_json, set_up_logging
from tokenmill.progress import size

if TYPE_CHECKING:
    from tokenmill.lm.run import Run, TrainedModel


def with_hyphens(name: str) -> str:
    """`--train_data` is `--train-data`: people bring commands along that were written either way."""
    return name.replace("_", "-")


@answering_errors
def pretrain(
    data: Annotated[
        str | None,
        typer.Option(
            "--data", metavar="DS", help="A dataset, with its splits.", show_default=False
        ),
    ] = None,
    train: Annotated[
        str | None,
        typer.Option(
            "--train", "--train-data", metavar="DS", help="A dataset or a plain file of ids."
        ),
    ] = None,
    val: Annotated[
        str | None,
        typer.Option("--val", "--val-data", metavar="DS", help="The same, for validation."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "--out-dir", metavar="DIR", help="Folder of the run.", show_default=False
        ),
    ] = None,
    from_: own.From = None,
    preset: own.Preset = None,
    config: own.Config = None,
    set_: own.Set = None,
    vocab_size: Annotated[
        int | None,
        typer.Option("--vocab-size", metavar="N", help="For ids that nothing describes."),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option("--dtype", metavar="TYPE", help="Of a .bin that nothing describes."),
    ] = None,
    context: own.Context = None,
    batch_size: own.BatchSize = None,
    micro_batch_size: own.MicroBatchSize = None,
    max_steps: own.MaxSteps = None,
    lr: own.Lr = None,
    min_lr: own.MinLr = None,
    warmup_steps: own.WarmupSteps = None,
    cooldown_steps: own.CooldownSteps = None,
    schedule: own.ScheduleName = None,
    optimizer: own.Optimizer = None,
    weight_decay: own.WeightDecay = None,
    clip: own.Clip = None,
    packing: own.Packing = None,
    document_mask: Annotated[
        bool,
        typer.Option("--document-mask", help="Keep documents of a row from looking at each other."),
    ] = False,
    precision: own.Precision = None,
    compile_: own.Compile = None,
    device: own.Device = None,
    seed: own.Seed = None,
    threads: own.Threads = None,
    eval_every: own.EvalEvery = None,
    eval_rows: own.EvalRows = None,
    save_every: own.SaveEvery = None,
    keep_last: own.KeepLast = None,
    log_every: own.LogEvery = None,
    sample_every: own.SampleEvery = None,
    sample_prompt: own.SamplePrompt = None,
    log: own.Log = None,
    wandb: Annotated[bool, typer.Option("--wandb", help="As `--log tensorboard,wandb`.")] = False,
    project: Annotated[
        str | None, typer.Option("--project", metavar="NAME", help="Of the run in W&B.")
    ] = None,
    run_name: Annotated[
        str | None, typer.Option("--run-name", metavar="NAME", help="Of the run in W&B.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", metavar="NAME", help="In W&B.")] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="Go on with the run at --out; without, a folder that holds one is refused.",
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Delete the run at --out and start anew.")
    ] = False,
    dry_run: flags.DryRun = False,
    json: flags.Json = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = 0,
) -> None:
    """Train a model on a dataset.

    DS is a folder that `tokenmill encode` wrote, whose splits `train` and `validation` are used, or a
    .npy or .bin of ids. Under `torchrun` ranks share the work.
    """
    set_up_logging(verbose)
    if (data is None) == (train is None):
        raise typer.BadParameter("either `--data` or `--train` is needed")
    if out is None:
        raise typer.BadParameter("`--out` is needed")
    if wandb:
        log = "tensorboard,wandb" if log is None else f"{log},wandb"
    tables: dict[str, dict[str, Any]] = {
        "model": own.given(context=context),
        "train": own.given(
            batch_size=batch_size,
            micro_batch_size=micro_batch_size,
            max_steps=max_steps,
            lr=lr,
            min_lr=min_lr,
            warmup_steps=warmup_steps,
            cooldown_steps=cooldown_steps,
            schedule=schedule,
            optimizer=optimizer,
            weight_decay=weight_decay,
            clip=clip,
            packing=packing,
            document_mask=document_mask or None,
            precision=precision,
            compile=compile_,
            device=device,
            seed=seed,
            threads=threads,
            eval_every=eval_every,
            eval_rows=eval_rows,
            save_every=save_every,
            keep_last=keep_last,
            log_every=log_every,
            sample_every=sample_every,
            sample_prompts=sample_prompt,
        ),
        "data": own.given(train=train or data, validation=val, vocab_size=vocab_size, dtype=dtype),
        "log": own.given(
            sinks=None
            if log is None
            else [name for name in log.split(",") if name not in ("", "none")],
            project=project,
            name=run_name,
            tags=tag,
        ),
    }
    if log == "none":
        tables["log"]["sinks"] = []
    _run(tables, from_, preset, config, set_ or [], out, resume, force, dry_run, json, quiet)


def _run(
    tables: dict[str, dict[str, Any]],
    start_from: str | None,
    preset: str | None,
    config: Path | None,
    overrides: list[str],
    out: Path,
    resume: bool,
    force: bool,
    dry_run: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    try:
        from tokenmill.lm.pretrain import prepare_from_tables
    except ModuleNotFoundError as error:
        from tokenmill.errors import ConfigError

        raise ConfigError(
            f"training needs {error.name}, which is not installed", "pip install 'tokenmill[lm]'"
        ) from None
    if quiet:
        os.environ.setdefault("WANDB_SILENT", "true")
    run = prepare_from_tables(
        tables,
        start_from=start_from,
        preset_name=preset,
        config=config,
        overrides=overrides,
        out=out,
        resume=resume,
        force=force,
        progress=not quiet,
    )
    speaks = run.ranks.is_first and not quiet
    if speaks and not as_json:
        _show_plan(run)
    if dry_run:
        if as_json:
            print_json(run.describe())
        return
    result = _trained(run, out, shows=speaks)
    if speaks:
        _show(result, as_json=as_json)


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
    if run.start is not None:
        step = "" if run.start.step is None else f" at step {run.start.step:,}"
        line("from", f"{run.start.path}{step}, weights of sha256 {run.start.sha256[:16]}…")
    line("data", f"{run.train.name}: {run.train.num_tokens:,} tokens, {run.train_rows.waste}")
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


def _show(result: "TrainedModel", *, as_json: bool) -> None:
    if as_json:
        print_json(result.as_json())
        return
    losses = [f"{result.step:,} steps"]
    if result.train_loss is not None:
        losses.append(f"loss {result.train_loss:.4f}")
    if result.validation_loss is not None:
        losses.append(f"validation loss {result.validation_loss:.4f}")
    line("trained", ", ".join(losses), result.seconds)
    line("wrote", str(result.folder))
    if (result.folder / "tensorboard").is_dir():
        line("see", f"tensorboard --logdir {result.folder / 'tensorboard'}")
    line("next", f"tokenmill lm generate {result.folder} --prompt 'Once'")
