"""Flags that several commands of `tokenmill lm` share."""

from typing import Annotated

import typer

from tokenmill.cli.options import help_text

ModelPath = Annotated[str, typer.Argument(metavar="MODEL", hidden=True)]
Step = Annotated[
    str,
    typer.Option(
        "--step",
        metavar="last|best|N",
        show_default=False,
        help=help_text("Which checkpoint of a run.", "last"),
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="cpu|cuda|mps",
        help=help_text("Where the model runs.", "cuda if there is one, else cpu"),
    ),
]
ModelTokenizer = Annotated[
    str | None,
    typer.Option(
        "--tokenizer",
        metavar="DIR",
        help=help_text("The tokenizer of the model, if it is elsewhere.", "the one beside it"),
    ),
]
