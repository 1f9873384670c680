"""Flags that several commands share. Defaults live in ReadOptions and TrainSettings; help text
reads them there."""

import re
from typing import Annotated

import typer

from tokenmill.errors import ConfigError
from tokenmill.sources.formats import COMPRESSIONS, FORMATS
from tokenmill.sources.options import INVALID_UTF8, ON_ERROR, ReadKeywords, ReadOptions
from tokenmill.train.settings import TrainSettings


def help_text(text: str, default: object) -> str:
    """What a flag does and what it is when not given. typer would put such defaults in brackets of
    its own."""
    return f"{text} [default: {default}]"


Inputs = Annotated[
    list[str] | None,
    # The commands' own help says what INPUT is: typer's list of arguments would add Python's name
    # for its type.
    typer.Argument(metavar="INPUT", hidden=True),
]
Pattern = Annotated[
    str | None,
    typer.Option(
        "--pattern",
        metavar="NAME|REGEX",
        help=help_text("Split pattern.", TrainSettings.pattern),
    ),
]
Special = Annotated[
    list[str] | None,
    typer.Option(
        "--special",
        metavar="TEXT",
        help=help_text(
            "A special token; repeat for more, `none` for none.",
            " ".join(TrainSettings.special_tokens),
        ),
    ),
]
Field = Annotated[
    str | None,
    typer.Option(
        "--field",
        metavar="NAME",
        help=help_text("Column or key with the text.", ReadOptions.field),
    ),
]
Separator = Annotated[
    str | None,
    typer.Option(
        "--separator",
        metavar="TEXT",
        help=help_text(
            r"Between the documents of a .txt; \n, \t, \0, \xNN and \\ are understood.",
            ReadOptions.separator,
        ),
    ),
]
InputFormat = Annotated[
    str | None,
    typer.Option(
        "--input-format",
        metavar="FORMAT",
        help=f"For `-` and odd names: {', '.join(FORMATS)}, with or without .{', .'.join(COMPRESSIONS)}.",
    ),
]
Shards = Annotated[
    str | None,
    typer.Option(
        "--shards",
        metavar="RANGES",
        help="Numbered files of a folder or glob: `..8`, `3,5,9`, `-1`.",
    ),
]
DocCap = Annotated[
    int | None,
    typer.Option("--doc-cap", metavar="CHARS", help="Cut each document after CHARS characters."),
]
MaxChars = Annotated[
    int | None,
    typer.Option(
        "--max-chars", metavar="N", help="Stop after the document that passes N characters."
    ),
]
MaxBytes = Annotated[
    int | None,
    typer.Option(
        "--max-bytes", metavar="N", help="Stop before the document that would pass N bytes."
    ),
]
OnError = Annotated[
    str | None,
    typer.Option(
        "--on-error",
        metavar="|".join(ON_ERROR),
        help=help_text("What a broken record does.", ReadOptions.on_error),
    ),
]
InvalidUtf8 = Annotated[
    str | None,
    typer.Option(
        "--invalid-utf8",
        metavar="|".join(INVALID_UTF8),
        help=help_text("What bytes outside UTF-8 do.", ReadOptions.invalid_utf8),
    ),
]
Threads = Annotated[
    int | None,
    typer.Option("--threads", metavar="N", help=help_text("Worker threads.", "all cores")),
]
Force = Annotated[bool, typer.Option("--force", help="Replace an output made with other settings.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan and do nothing.")]
Json = Annotated[bool, typer.Option("--json", help="Machine output on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only errors.")]
Verbose = Annotated[
    int,
    typer.Option(
        "-v",
        "--verbose",
        count=True,
        help="More messages; -vv for every merge.",
        show_default=False,
    ),
]


def read_keywords(
    field: str | None,
    separator: str | None,
    input_format: str | None,
    shards: str | None,
    doc_cap: int | None,
    max_chars: int | None,
    max_bytes: int | None,
    on_error: str | None,
    invalid_utf8: str | None,
) -> ReadKeywords:
    """The read options that were given on the command line; the others keep their defaults."""
    given = ReadKeywords()
    if field is not None:
        given["field"] = field
    if separator is not None:
        given["separator"] = unescape(separator)
    if input_format is not None:
        given["input_format"] = input_format
    if shards is not None:
        given["shards"] = shards
    if doc_cap is not None:
        given["doc_cap"] = doc_cap
    if max_chars is not None:
        given["max_chars"] = max_chars
    if max_bytes is not None:
        given["max_bytes"] = max_bytes
    if on_error is not None:
        given["on_error"] = on_error
    if invalid_utf8 is not None:
        given["invalid_utf8"] = invalid_utf8
    return given


def special_tokens(given: list[str] | None) -> list[str] | None:
    """`--special` as it was given: `None` for not at all, an empty list for `none`."""
    if not given:
        return None
    if given == ["none"]:
        return []
    if "none" in given:
        others = ", ".join(f"`{token}`" for token in given if token != "none")
        raise ConfigError(f"`--special none` goes with no other special token, found {others}")
    return given


_ESCAPE = re.compile(rb"\\(x[0-9a-fA-F]{2}|.)", re.DOTALL)
_PLAIN_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"0": b"\0", b"\\": b"\\"}


def unescape(text: str) -> bytes:
    r"""The bytes a separator stands for: shells make it hard to type `\n` otherwise."""

    def replacement(match: re.Match[bytes]) -> bytes:
        code = match[1]
        if code.startswith(b"x") and len(code) == 3:
            return bytes.fromhex(code[1:].decode())
        if code not in _PLAIN_ESCAPES:
            raise ConfigError(
                f"unknown escape `\\{code.decode(errors='replace')}` in the separator `{text}`"
            )
        return _PLAIN_ESCAPES[code]

    return _ESCAPE.sub(replacement, text.encode("utf-8", "surrogateescape"))
