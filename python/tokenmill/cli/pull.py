"""`tokenmill pull`: datasets by name, files by address, into a folder that can be read meanwhile."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tokenmill.cli import options as flags
from tokenmill.cli.console import answering_errors, line, print_json, set_up_logging
from tokenmill.pull.call import DEFAULT_RETRIES, DEFAULT_SEED, DEFAULT_WORKERS

if TYPE_CHECKING:
    from tokenmill.pull.run import PullReport, PullRun


@answering_errors
def pull(
    what: Annotated[list[str] | None, typer.Argument(metavar="WHAT", hidden=True)] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="The folder that the files go to.")
    ] = None,
    config: Annotated[
        str | None,
        typer.Option("--config", metavar="NAME", help="Which one of a dataset that has several."),
    ] = None,
    shards: Annotated[
        str | None,
        typer.Option(
            "--shards",
            metavar="RANGES",
            help="Which shards of a numbered dataset: `..8`, `3,5,9`, `-1`, `..` for all.",
        ),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option("--base-url", metavar="ADDRESS", help="Where else the dataset's files are."),
    ] = None,
    sha256: Annotated[
        str | None,
        typer.Option("--sha256", metavar="HEX", help="What the one file named must be."),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", help="For splits that are drawn.")
    ] = DEFAULT_SEED,
    workers: Annotated[
        int, typer.Option("--workers", metavar="N", help="Files fetched at the same time.")
    ] = DEFAULT_WORKERS,
    retries: Annotated[
        int, typer.Option("--retries", metavar="N", help="Failures in a row that are forgiven.")
    ] = DEFAULT_RETRIES,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Read every file that is there and compare its hash.",
            show_default=False,
        ),
    ] = False,
    list_all: Annotated[
        bool, typer.Option("--list", help="Show the datasets that have a name.", show_default=False)
    ] = False,
    dry_run: flags.DryRun = False,
    json: flags.Json = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = 0,
) -> None:
    """Fetch a dataset, resumed where it stopped and checked.

    WHAT is the name of a dataset, addresses (http, https, hf, s3, gs), or a text file with one
    address on each line, optionally with its sha256.
    """
    set_up_logging(verbose)
    if list_all:
        _show_catalogue(as_json=json)
        return
    if not what:
        raise typer.BadParameter("a dataset or an address is needed; `--list` shows the datasets")
    if to is None:
        raise typer.BadParameter("`--to DIR` says where the files go")
    from tokenmill.pull.run import prepare_pull

    run = prepare_pull(
        what,
        to,
        config=config,
        shards=shards,
        base_url=base_url,
        sha256=sha256,
        seed=seed,
        workers=workers,
        retries=retries,
        verify=verify,
        progress=not quiet,
    )
    if dry_run:
        _show_plan(run, as_json=json)
        return
    try:
        report = run.run()
    except KeyboardInterrupt:
        print(f"interrupted; what has arrived is kept in `{to}`", file=sys.stderr)
        print("hint: run the same command again to go on from there", file=sys.stderr)
        raise typer.Exit(130) from None
    if not quiet:
        _show_report(report, as_json=json)


def _show_catalogue(*, as_json: bool) -> None:
    from tokenmill.pull.catalogue import CATALOGUE

    if as_json:
        print_json(
            {
                each.name: {
                    "address": f"hf://datasets/{each.repository}",
                    "about": each.about,
                    "licence": each.licence,
                    "configs": list(each.configs),
                }
                for each in CATALOGUE
            }
        )
        return
    for each in CATALOGUE:
        print(f"{each.name:<15}{each.about}")
        if each.configs:
            print(f"{'':<15}--config {' | '.join(each.configs)}")


def _show_plan(run: "PullRun", *, as_json: bool) -> None:
    from tokenmill.progress import size

    items = run.plan()
    sizes = [item.state.size if item.state is not None else None for item in items]
    known = None if None in sizes else sum(each for each in sizes if each is not None)
    if as_json:
        files = [
            {
                "path": item.path,
                "address": item.address.shown,
                "split": item.split,
                "size": num_bytes,
                "sha256": item.expected_sha256,
            }
            for item, num_bytes in zip(items, sizes, strict=True)
        ]
        print_json(
            {
                "name": run.name,
                "revision": run.items.revision,
                "folder": str(run.folder),
                "bytes": known,
                "of_files": run.items.total,
                "files": files,
            }
        )
        return
    for item, num_bytes in zip(items, sizes, strict=True):
        amount = "unknown size" if num_bytes is None else size(num_bytes)
        line("file", f"{item.path:<50}  {amount:>12}")
    total = "unknown size" if known is None else size(known)
    line("fetch", f"{_of(len(items), run.items.total)}, {total}")
    if run.dataset is not None:
        line("licence", run.dataset.licence)
    line("write", f"{run.folder}/")


def _of(number: int, total: int) -> str:
    from tokenmill.progress import quantity

    return quantity(number, "file") if number == total else f"{number:,} of {total:,} files"


def _show_report(report: "PullReport", *, as_json: bool) -> None:
    from tokenmill.progress import quantity, size

    if as_json:
        print_json(asdict(report))
        return
    if report.already_done:
        line(
            "done",
            f"already: {quantity(report.files, 'file')}, {size(report.bytes)}, all as they were",
        )
    else:
        fetched = f"{quantity(report.fetched_files, 'file')}, {size(report.fetched_bytes)}"
        line("pulled", fetched, report.seconds)
    if report.kept_files and not report.already_done:
        line("kept", f"{quantity(report.kept_files, 'file')} that were there")
    if report.replaced_files:
        line("replaced", f"{quantity(report.replaced_files, 'file')} that were something else")
    for path, rows in report.rows.items():
        line("made", f"{path}: {quantity(rows, 'row')}")
    for reason, number in report.skipped.items():
        line("skipped", f"{number:,} {reason}")
    if not report.rows and report.of_files > report.files:
        line("shards", f"{report.files:,} of {report.of_files:,}; `--shards` chooses others")
    if report.licence is not None:
        line("licence", report.licence)
    line("wrote", f"{report.folder}/")
