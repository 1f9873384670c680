"""`tokenmill stats`: datasets in, what they hold out."""

from pathlib import Path
from typing import Annotated

import typer

from tokenmill.cli import options as flags
from tokenmill.cli.console import answering_errors, log, print_json, set_up_logging


@answering_errors
def stats(
    datasets: Annotated[list[Path], typer.Argument(metavar="DATASET", hidden=True)],
    split: Annotated[
        list[str] | None,
        typer.Option("--split", metavar="NAME", help="Only this split; repeat for more."),
    ] = None,
    top: Annotated[
        int,
        typer.Option("--top", metavar="N", min=0, help="Show N tokens, frequent and unused."),
    ] = 10,
    lengths_only: Annotated[
        bool,
        typer.Option("--lengths-only", help="Leave the ids unread: quick whatever the size."),
    ] = False,
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            "--tokenizer", metavar="DIR", help="For token files that come without theirs."
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option("--dtype", metavar="TYPE", help="Of the ids in a .bin of other tools."),
    ] = None,
    json: flags.Json = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = 0,
) -> None:
    """Count tokens, documents and bytes of datasets, and which ids they use.

    DATASET are dataset folders or token files. Nothing is changed, and files are read in blocks.
    """
    from tokenmill.dataset.dataset import Dataset
    from tokenmill.progress import Meter
    from tokenmill.report.render.token_counts import token_count_lines
    from tokenmill.report.token_counts import add_up, count_tokens

    set_up_logging(verbose)
    meter = Meter(False if quiet else None)
    reports = [
        count_tokens(
            Dataset.open(path, dtype=dtype, tokenizer=tokenizer),
            splits=split or None,
            top=top,
            read_tokens=not lengths_only,
            meter=meter,
        )
        for path in datasets
    ]
    for report in reports:
        for name in report.missing:
            log.warning("`%s` has no split `%s`", report.path, name)
    total = add_up([each for report in reports for each in report.splits])
    if json:
        print_json({"datasets": [report.as_json() for report in reports], "total": total.as_json()})
        return
    for line in token_count_lines(reports, total):
        print(line)
