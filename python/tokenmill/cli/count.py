"""`tokenmill count`: text in, pretoken counts out; `--merge` adds counts up."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tokenmill.cli import options as flags
from tokenmill.cli.console import answering_errors, set_up_logging
from tokenmill.errors import ConfigError

if TYPE_CHECKING:
    from tokenmill.train.counts import PretokenCounts


@answering_errors
def count(
    inputs: flags.Inputs = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Parquet file for the counts; without it none is written."
        ),
    ] = None,
    merge: Annotated[
        bool,
        typer.Option("--merge", help="INPUT are files of counts: add them up.", show_default=False),
    ] = False,
    pattern: flags.Pattern = None,
    special: flags.Special = None,
    min_count: Annotated[
        int,
        typer.Option(
            "--min-count", metavar="N", help="Drop rarer pretokens and mark the counts as cut."
        ),
    ] = 1,
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
    """Count the pretokens of a text.

    INPUT are files, folders, globs, addresses (http, https, hf, s3, gs) or `-`: .txt, .jsonl,
    .parquet, .arrow, each also .gz, .zst, .bz2.
    """
    from tokenmill.cli import rendering
    from tokenmill.train.count import prepare_count
    from tokenmill.train.settings import TrainSettings

    set_up_logging(verbose)
    if not inputs:
        raise typer.BadParameter("at least one INPUT is needed")
    read = flags.read_keywords(
        field,
        separator,
        input_format,
        shards,
        doc_cap,
        max_chars,
        max_bytes,
        on_error,
        invalid_utf8,
    )
    if merge:
        if read or special:
            raise ConfigError("`--merge` reads counts, so flags about reading text do not apply")
        merged = _merge(inputs, pattern, min_count, out, force=force)
        if not quiet:
            rendering.show_counts(merged, out, already_done=False, as_json=json)
        return
    specials = flags.special_tokens(special)
    run = prepare_count(
        inputs,
        pattern=pattern or TrainSettings.pattern,
        special_tokens=TrainSettings.special_tokens if specials is None else specials,
        min_count=min_count,
        threads=threads,
        out=out,
        force=force,
        progress=not quiet,
        **read,
    )
    if dry_run:
        rendering.show_count_plan(run, as_json=json)
        return
    with rendering.resume_hint(out):
        counts = run.run()
    if not quiet:
        rendering.show_counts(counts, out, already_done=counts.report is None, as_json=json)


def _merge(
    files: list[str], pattern: str | None, min_count: int, out: Path | None, *, force: bool
) -> "PretokenCounts":
    """The sum of all `files`, saved to `out`."""
    from tokenmill.train.counts import add_files

    if out is not None and out.exists() and not force:
        raise ConfigError(
            f"`{out}` exists",
            "choose another output, or pass `--force` (`force=True`) to replace it",
        )
    total = add_files(files, pattern=pattern).at_least(min_count)
    if out is not None:
        total.save(out)
    return total
