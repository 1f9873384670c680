"""`tokenmill verify`: an artifact in, what differs from its manifest out."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from tokenmill.cli import options as flags
from tokenmill.cli.console import answering_errors, line, print_json, set_up_logging


@answering_errors
def verify(
    path: Annotated[Path, typer.Argument(metavar="PATH", hidden=True)],
    source: Annotated[
        Path | None,
        typer.Option(
            "--source",
            metavar="DIR",
            help="Compare the inputs too: the folder they are in, or the only one.",
        ),
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            "--tokenizer", metavar="DIR", help="Compare with this tokenizer, by its sha256."
        ),
    ] = None,
    threads: flags.Threads = None,
    json: flags.Json = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = 0,
) -> None:
    """Hash an artifact again and name what differs.

    PATH is a dataset, a tokenizer folder or a file of counts. Ids, document ends and masks are
    checked too. Exit code 1 if anything differs; files that the manifest does not know are warnings.
    """
    from tokenmill.progress import Meter, quantity, size
    from tokenmill.report.verification import verify as verify_artifact
    from tokenmill.storage.files import local_path
    from tokenmill.tokenizer.tokenizer import Tokenizer

    set_up_logging(verbose)
    findings = verify_artifact(
        local_path(path),
        source=None if source is None else local_path(source),
        tokenizer=None if tokenizer is None else Tokenizer.load(tokenizer),
        threads=threads,
        meter=Meter(False if quiet else None),
    )
    if json:
        print_json(findings.as_json())
    else:
        for warning in findings.warnings:
            print(f"warning: {warning}", file=sys.stderr)
        for problem in findings.problems:
            print(f"error: {problem}", file=sys.stderr)
        if findings.is_sound and not quiet:
            files = quantity(findings.files, "file")
            line("verified", f"{findings.kind}, {files}, {size(findings.bytes)}: nothing differs")
    if not findings.is_sound:
        raise typer.Exit(1)
