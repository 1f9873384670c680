"""`tokenmill train`: text or counts in, a tokenizer folder out."""

from pathlib import Path
from typing import Annotated

import typer

from tokenmill.cli import options as flags
from tokenmill.cli.console import answering_errors, set_up_logging
from tokenmill.train.settings import ENGINES, PLACEMENTS, PROFILES, TIES, TrainSettings


def _choices(names: tuple[str, ...]) -> str:
    return "|".join(names)


@answering_errors
def train(
    inputs: flags.Inputs = None,
    counts: Annotated[
        Path | None,
        typer.Option("--counts", metavar="FILE", help="Start from these counts instead."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="Where the tokenizer goes; without it no file is written."
        ),
    ] = None,
    vocab_size: Annotated[
        int | None,
        typer.Option(
            "--vocab-size",
            metavar="N",
            help=flags.help_text(
                "Ids in all, bytes and special tokens included.", TrainSettings.vocab_size
            ),
        ),
    ] = None,
    pattern: flags.Pattern = None,
    special: flags.Special = None,
    special_placement: Annotated[
        str | None,
        typer.Option(
            "--special-placement",
            metavar=_choices(PLACEMENTS),
            help=flags.help_text(
                "Where special tokens get their ids.", TrainSettings.special_placement
            ),
        ),
    ] = None,
    reserve: Annotated[
        int | None,
        typer.Option("--reserve", metavar="N", help="Placeholder special tokens for later use."),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar=_choices(tuple(PROFILES)),
            help="Pattern, tie rule, special tokens and caps at once; flags given as well win.",
        ),
    ] = None,
    ties: Annotated[
        str | None,
        typer.Option(
            "--ties",
            metavar=_choices(TIES),
            help=flags.help_text(
                "Which of several equally frequent pairs to merge.", TrainSettings.ties
            ),
        ),
    ] = None,
    min_count: Annotated[
        int | None,
        typer.Option(
            "--min-count",
            metavar="N",
            help=flags.help_text(
                "Stop when the best pair occurs fewer than N times.", TrainSettings.min_count
            ),
        ),
    ] = None,
    max_token_bytes: Annotated[
        int | None,
        typer.Option("--max-token-bytes", metavar="N", help="No learned token is longer."),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            "--engine", metavar=_choices(ENGINES), help="`reference` is slow, short Python."
        ),
    ] = "rust",
    field: flags.Field = None,
    separator: flags.Separator = None,
    input_format: flags.InputFormat = None,
    shards: flags.Shards = None,
    doc_cap: flags.DocCap = None,
    max_chars: flags.MaxChars = None,
    max_bytes: flags.MaxBytes = None,
    on_error: flags.OnError = None,
    invalid_utf8: flags.InvalidUtf8 = None,
    threads: flags.Threads = None,
    force: flags.Force = False,
    dry_run: flags.DryRun = False,
    json: flags.Json = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = 0,
) -> None:
    """Train a tokenizer on text, or on counts made by `tokenmill count`.

    INPUT are files, folders, globs or `-`: .txt, .jsonl, .parquet, .arrow, each also .gz, .zst,
    .bz2.
    """
    from tokenmill.cli import rendering
    from tokenmill.train.merges import prepare_training

    set_up_logging(verbose)
    if not inputs and counts is None:
        raise typer.BadParameter("at least one INPUT is needed, or `--counts`")
    run = prepare_training(
        inputs or None,
        counts=counts,
        vocab_size=vocab_size,
        pattern=pattern,
        special_tokens=flags.special_tokens(special),
        special_placement=special_placement,
        reserve=reserve,
        ties=ties,
        min_count=min_count,
        max_token_bytes=max_token_bytes,
        profile=profile,
        engine=engine,
        threads=threads,
        out=out,
        force=force,
        progress=not quiet,
        **flags.read_keywords(
            field,
            separator,
            input_format,
            shards,
            doc_cap,
            max_chars,
            max_bytes,
            on_error,
            invalid_utf8,
        ),
    )
    if dry_run:
        rendering.show_training_plan(run, as_json=json)
        return
    with rendering.resume_hint(out):
        tokenizer = run.run()
    if not quiet:
        rendering.show_training(tokenizer, out, as_json=json)
