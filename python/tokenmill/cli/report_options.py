"""The flags of `tokenmill report` alone, and arguments that have names: `NAME=PATH`."""

import re
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperCommand

from tokenmill.errors import ConfigError

TEXT_FLAG = "--text"
_NAMED = re.compile(r"(?P<name>[^=/\\*?\[]+)=(?P<path>.+)", re.DOTALL)


class TextsCommand(TyperCommand):
    """A command whose `--text` takes all words up to the next flag, as a shell's `*.txt` gives them."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return super().parse_args(ctx, spread_texts(args))


def spread_texts(words: list[str]) -> list[str]:
    """`--text a b` as `--text a --text b`. A flag ends it, and so does `--`; `-` is an input.

    >>> spread_texts(["tok", "--text", "a", "b", "--json"])
    ['tok', '--text', 'a', '--text', 'b', '--json']
    """
    spread: list[str] = []
    in_texts = is_first = False
    for index, word in enumerate(words):
        if word == "--":
            return spread + words[index:]
        if word.startswith("-") and word != "-":
            in_texts = is_first = word == TEXT_FLAG
        elif in_texts and not is_first:
            spread.append(TEXT_FLAG)
        else:
            is_first = False
        spread.append(word)
    return spread


def named(argument: str) -> tuple[str | None, str]:
    """`en=valid.txt` as (`en`, `valid.txt`). What exists as it is written is a path without a name."""
    match = _NAMED.fullmatch(argument)
    if match is None or Path(argument).exists():
        return None, argument
    return match["name"], match["path"]


def named_texts(arguments: list[str]) -> list[tuple[str, str]]:
    """(name, path) of each `--text`; a text without a name is called by its path."""
    found = [named(argument) for argument in arguments]
    plain = [path for name, path in found if name is None]
    for path in plain:
        if plain.count(path) > 1:
            raise ConfigError(f"the text `{path}` is given twice")
    return [(name or path, path) for name, path in found]


def named_tokenizers(arguments: list[str]) -> list[tuple[str, str]]:
    """(name, path) of each tokenizer; one without a name is called by the last part of its path, or by
    all of it where two would be called the same."""
    found = [named(argument) for argument in arguments]
    short = [name or Path(path).name or path for name, path in found]
    names = [
        name or (path if short.count(each) > 1 else each)
        for (name, path), each in zip(found, short, strict=True)
    ]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two tokenizers are called `{name}`", "give them names: `NAME=PATH`")
    return [(name, path) for name, (_, path) in zip(names, found, strict=True)]


def sample_size(text: str) -> int | None:
    """`--sample` as it was given: a number, or `None` for `all`."""
    if text == "all":
        return None
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"`--sample {text}` is neither a number of documents nor `all`") from None


TokenizerPath = Annotated[str, typer.Argument(metavar="TOKENIZER", hidden=True)]
TokenizerPaths = Annotated[list[str], typer.Argument(metavar="TOKENIZER", hidden=True)]
TokenizerPattern = Annotated[
    str | None,
    typer.Option(
        "--pattern",
        metavar="NAME|REGEX",
        help="Split pattern of a tokenizer file that does not say it, such as a tiktoken file.",
    ),
]
Texts = Annotated[
    list[str] | None,
    typer.Option(
        TEXT_FLAG,
        metavar="INPUT...",
        help="Files, folders, globs or `-`, up to the next flag.",
        show_default=False,
    ),
]
NamedTexts = Annotated[
    list[str] | None,
    typer.Option(
        TEXT_FLAG,
        metavar="[NAME=]INPUT...",
        help="Files, folders, globs or `-`, up to the next flag; each is measured by itself.",
        show_default=False,
    ),
]
BatchSize = Annotated[
    int, typer.Option("--batch-size", metavar="N", help="Documents in each call.")
]
Batches = Annotated[
    int, typer.Option("--batches", metavar="N", help="Batches to sample, if the text has as many.")
]
Rounds = Annotated[
    int, typer.Option("--rounds", metavar="N", help="Warm rounds, after the cold one.")
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", help="Which documents are sampled.")]
Compare = Annotated[
    str | None,
    typer.Option(
        "--compare",
        metavar="NAMES",
        help="Libraries to time with the same vocab: tiktoken,tokenizers,gigatoken,rustbpe.",
    ),
]
Validate = Annotated[
    bool,
    typer.Option(
        "--validate",
        help="Compare every id with those libraries' first; exit 1 if one differs.",
        show_default=False,
    ),
]
Extrapolate = Annotated[
    str | None,
    typer.Option(
        "--extrapolate", metavar="SIZE", help="How long as much text would take: `825GB`."
    ),
]
SampleSize = Annotated[
    str,
    typer.Option(
        "--sample", metavar="N|all", help="Documents of each text or label, chosen by seed."
    ),
]
LabelField = Annotated[
    str | None,
    typer.Option(
        "--label-field",
        metavar="NAME",
        help="Column or key with a language or domain: one text for each.",
    ),
]
