"""The flags of `tokenmill train` alone; those it shares with `tokenmill count` are in options.py."""

from pathlib import Path
from typing import Annotated

import typer

from tokenmill.cli.options import help_text
from tokenmill.train.settings import ENGINES, PLACEMENTS, PROFILES, TIES, TrainSettings


def choices(names: tuple[str, ...]) -> str:
    return "|".join(names)


Counts = Annotated[
    Path | None,
    typer.Option("--counts", metavar="FILE", help="Start from these counts instead."),
]
OutFolder = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="Where the tokenizer goes; without it no file is written."
    ),
]
VocabSize = Annotated[
    int | None,
    typer.Option(
        "--vocab-size",
        metavar="N",
        help=help_text("Ids in all, bytes and special tokens included.", TrainSettings.vocab_size),
    ),
]
SpecialPlacement = Annotated[
    str | None,
    typer.Option(
        "--special-placement",
        metavar=choices(PLACEMENTS),
        help=help_text("Where special tokens get their ids.", TrainSettings.special_placement),
    ),
]
Reserve = Annotated[
    int | None,
    typer.Option("--reserve", metavar="N", help="Placeholder special tokens for later use."),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar=choices(tuple(PROFILES)),
        help="Pattern, tie rule, special tokens and caps at once; flags given as well win.",
    ),
]
Ties = Annotated[
    str | None,
    typer.Option(
        "--ties",
        metavar=choices(TIES),
        help=help_text("Which of several equally frequent pairs to merge.", TrainSettings.ties),
    ),
]
MinCount = Annotated[
    int | None,
    typer.Option(
        "--min-count",
        metavar="N",
        help=help_text(
            "Stop when the best pair occurs fewer than N times.", TrainSettings.min_count
        ),
    ),
]
MaxTokenBytes = Annotated[
    int | None,
    typer.Option("--max-token-bytes", metavar="N", help="No learned token is longer."),
]
Engine = Annotated[
    str,
    typer.Option("--engine", metavar=choices(ENGINES), help="`reference` is slow, short Python."),
]
TimeEncodeDecode = Annotated[
    bool,
    typer.Option(
        "--time-encode-decode",
        help="Then time encoding and decoding on this text, as `report throughput` does.",
        show_default=False,
    ),
]
