"""`tokenmill inspect`: how a document became tokens, on a screen, line by line or as JSON."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tokenmill.cli import encode_options as rows
from tokenmill.cli import options as flags
from tokenmill.cli.console import answering_errors, print_json, set_up_logging
from tokenmill.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console

    from tokenmill.dataset.settings import EncodeSettings
    from tokenmill.report.document_view import Inspection


@answering_errors
def inspect(
    path: Annotated[str, typer.Argument(metavar="PATH", hidden=True)],
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            "--tokenizer", metavar="DIR", help="For raw text, and ids that come without theirs."
        ),
    ] = None,
    index: Annotated[
        int | None,
        typer.Option(
            "--index", metavar="N", help="Show document or row N, counted from 0, and end."
        ),
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", metavar="NAME", help="Of a dataset. [default: train]")
    ] = None,
    search: Annotated[
        str | None,
        typer.Option("--search", metavar="TEXT", help="Start at the first document with TEXT."),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--source", metavar="INPUT", help="The raw text or rows of a dataset, to compare with."
        ),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option("--text", metavar="TEXT", help="Of a tokenizer: show the tokens of TEXT."),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option("--dtype", metavar="TYPE", help="Of the ids in a .bin of other tools."),
    ] = None,
    mode: rows.Mode = None,
    profile: rows.Profile = None,
    shape: rows.Shape = None,
    max_tokens: rows.MaxTokens = None,
    too_long: rows.TooLong = None,
    field: flags.Field = None,
    separator: flags.Separator = None,
    input_format: flags.InputFormat = None,
    invalid_utf8: flags.InvalidUtf8 = None,
    json: flags.Json = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = 0,
) -> None:
    """Look at documents and the tokens they became.

    PATH is a dataset, a file of text with `--tokenizer`, rows of conversations with `--tokenizer` and
    `--mode`, or a tokenizer, of which you type texts. On a terminal this is a full screen; otherwise
    every line of stdin is a number, `/text` or `q`.
    """
    from tokenmill.report.inspection import open_inspection
    from tokenmill.sources.options import ReadOptions

    set_up_logging(verbose)
    read = flags.read_keywords(
        field, separator, input_format, None, None, None, None, None, invalid_utf8
    )
    inspection = open_inspection(
        path,
        tokenizer=tokenizer,
        split=split,
        source=source,
        dtype=dtype,
        texts=text or (),
        options=ReadOptions.from_keywords(read) if read else None,
        settings=_settings(
            mode=mode, profile=profile, shape=shape, max_tokens=max_tokens, too_long=too_long
        ),
    )
    if text and index is None and search is None:
        _show_all(inspection, as_json=json)
    elif index is not None or json:
        _show_one(inspection, index or 0, search, as_json=json)
    else:
        _leaf_through(inspection, search)


def _settings(**given: str | int | None) -> "EncodeSettings | None":
    """What `encode` would do by these flags; None if there are none."""
    from tokenmill.dataset.settings import EncodeSettings

    named = {name: value for name, value in given.items() if value is not None}
    return EncodeSettings(**named) if named else None  # pyright: ignore[reportArgumentType]


def _show_one(inspection: "Inspection", index: int, search: str | None, *, as_json: bool) -> None:
    if search is not None:
        found = inspection.search(search, index)
        if found is None:
            raise ConfigError(f"`{search}` is in no {inspection.noun} from {index:,} on")
        index = found
    try:
        if as_json:
            print_json(_as_json(inspection, index))
            return
        from tokenmill.report.render.inspection import print_inspection

        print_inspection(_console(), inspection, index)
    except IndexError as error:
        raise ConfigError(str(error)) from None


def _show_all(inspection: "Inspection", *, as_json: bool) -> None:
    """Every text that was given."""
    from tokenmill.report.render.inspection import print_inspection

    numbers = range(inspection.length or 0)
    if as_json:
        print_json({"texts": [_as_json(inspection, number) for number in numbers]})
        return
    for number in numbers:
        print_inspection(_console(), inspection, number)


def _as_json(inspection: "Inspection", index: int) -> dict[str, object]:
    views = inspection.view(index)
    return {
        "name": inspection.name,
        "index": index,
        "length": inspection.length,
        "documents": [view.as_json() for view in views],
    }


def _leaf_through(inspection: "Inspection", search: str | None) -> None:
    from tokenmill.cli.viewer import run_lines, run_screen
    from tokenmill.report.render.inspection import print_inspection

    console = _console()
    has_screen = sys.stdin.isatty() and sys.stdout.isatty() and sys.platform != "win32"
    if has_screen and not console.is_dumb_terminal:
        run_screen(inspection, console, index=0, wanted=search)
        return
    if search is not None:
        found = inspection.search(search)
        if found is None:
            raise ConfigError(f"`{search}` is in no {inspection.noun}")
        print_inspection(console, inspection, found)
        return
    run_lines(inspection, console, sys.stdin)


def _console() -> "Console":
    from rich.console import Console

    return Console(highlight=False)
