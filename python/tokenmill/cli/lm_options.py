"""Flags that several commands of `tokenmill lm` share."""

from typing import Annotated

import typer

from tokenmill.cli.options import help_text
from tokenmill.lm.generate_settings import GenerateSettings

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
MaxTokens = Annotated[
    int,
    typer.Option(
        "--max-tokens",
        metavar="N",
        show_default=False,
        help=help_text("Longest continuation.", GenerateSettings.max_tokens),
    ),
]
Temperature = Annotated[
    float,
    typer.Option(
        "--temperature",
        metavar="X",
        show_default=False,
        help=help_text(
            "How far from the likeliest token; 0 takes it always.", GenerateSettings.temperature
        ),
    ),
]
TopK = Annotated[
    int | None,
    typer.Option(
        "--top-k", metavar="K", help=help_text("Draw among the K likeliest tokens.", "all")
    ),
]
TopP = Annotated[
    float | None,
    typer.Option(
        "--top-p",
        metavar="P",
        help=help_text("Draw among the likeliest that have probability P.", "all"),
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        metavar="N",
        show_default=False,
        help=help_text("Of the first answer; the next takes N + 1.", GenerateSettings.seed),
    ),
]
