"""Flags of `encode`. Defaults live in EncodeSettings; help text reads them there."""

from typing import Annotated

import typer

from tokenmill.chat.encoder import SHAPES, TOO_LONG
from tokenmill.cli.options import help_text
from tokenmill.dataset.manifest import DTYPES, LAYOUT_NAMES, MODES
from tokenmill.dataset.settings import EncodeKeywords, EncodeSettings

Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="|".join(LAYOUT_NAMES),
        help=help_text(
            "Format of the token files: numpy's, nanoGPT's, llm.c's, Megatron's or datatrove's.",
            EncodeSettings.layout,
        ),
    ),
]
Mode = Annotated[
    str | None,
    typer.Option(
        "--mode",
        metavar="|".join(MODES),
        help=help_text(
            "What documents are: text, rows with a conversation, or rows with a chosen and a "
            "rejected one.",
            EncodeSettings.mode,
        ),
    ),
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME|FILE",
        help=help_text(
            "How conversations are rendered: `chat`, `alpaca-tags`, `nanochat` or a .toml file.",
            EncodeSettings.profile,
        ),
    ),
]
ChatTemplate = Annotated[
    str | None,
    typer.Option(
        "--chat-template",
        metavar="FILE|tokenizer",
        help="Render by a Jinja template of others, run in a sandbox, and not by a profile; it must "
        "have `{% generation %}`.",
    ),
]
Shape = Annotated[
    str | None,
    typer.Option(
        "--shape",
        metavar="|".join(SHAPES),
        help=help_text("How rows hold a conversation.", "found out by their keys"),
    ),
]
MaxTokens = Annotated[
    int | None,
    typer.Option("--max-tokens", metavar="N", help=help_text("Longest conversation.", "no limit")),
]
TooLong = Annotated[
    str | None,
    typer.Option(
        "--too-long",
        metavar="|".join(TOO_LONG),
        help=help_text("What happens to a longer one.", EncodeSettings.too_long),
    ),
]
Eos = Annotated[
    str | None,
    typer.Option(
        "--eos",
        metavar="TOKEN",
        help=help_text("Special token after each document; `none` for none.", EncodeSettings.eos),
    ),
]
Bos = Annotated[
    str | None,
    typer.Option(
        "--bos",
        metavar="TOKEN",
        help=help_text("Special token before each document.", "none"),
    ),
]
AllowSpecial = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-special",
        metavar="TOKEN",
        help="Special token that becomes its id where the text spells it; repeat for more, `all` "
        "for all. The others are text and counted.",
    ),
]
ValFraction = Annotated[
    float | None,
    typer.Option(
        "--val-fraction",
        metavar="F",
        help="Share of the training documents to hold out for validation, by the hash of their text.",
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed", metavar="N", help=help_text("Of the choice of those.", EncodeSettings.seed)
    ),
]
ShardTokens = Annotated[
    int | None,
    typer.Option(
        "--shard-tokens",
        metavar="N",
        help=help_text(
            "End a shard with the document that brings it to N tokens.", "one shard for each split"
        ),
    ),
]
Shuffle = Annotated[
    int | None,
    typer.Option(
        "--shuffle-documents",
        metavar="SEED",
        help="Put the documents into a random order, on disk where they do not fit the memory.",
    ),
]
Append = Annotated[
    bool,
    typer.Option(
        "--append", help="Add the inputs to the dataset that is at --out, in further shards."
    ),
]
Part = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="I/N",
        help="Do job I of N, counted from 0: for job arrays that share a file system.",
    ),
]
Collect = Annotated[
    bool, typer.Option("--collect", help="Put what all jobs have done together to the dataset.")
]
Dtype = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        metavar="|".join(DTYPES),
        help=help_text("Type of the ids.", "the narrowest that holds the vocab"),
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads", "--num-proc", metavar="N", help=help_text("Worker threads.", "all cores")
    ),
]


def settings_keywords(
    layout: str | None,
    mode: str | None,
    profile: str | None,
    chat_template: str | None,
    shape: str | None,
    max_tokens: int | None,
    too_long: str | None,
    eos: str | None,
    bos: str | None,
    allow_special: list[str] | None,
    val_fraction: float | None,
    seed: int | None,
    shard_tokens: int | None,
    shuffle_documents: int | None,
    dtype: str | None,
) -> EncodeKeywords:
    """The settings that were given on the command line; the others keep their defaults."""
    given = EncodeKeywords()
    if layout is not None:
        given["layout"] = layout
    if mode is not None:
        given["mode"] = mode
    if profile is not None:
        given["profile"] = profile
    if chat_template is not None:
        given["chat_template"] = chat_template
    if shape is not None:
        given["shape"] = shape
    if max_tokens is not None:
        given["max_tokens"] = max_tokens
    if too_long is not None:
        given["too_long"] = too_long
    if eos is not None:
        given["eos"] = None if eos == "none" else eos
    if bos is not None:
        given["bos"] = None if bos == "none" else bos
    if allow_special:
        given["allow_special"] = "all" if "all" in allow_special else allow_special
    if val_fraction is not None:
        given["val_fraction"] = val_fraction
    if seed is not None:
        given["seed"] = seed
    if shard_tokens is not None:
        given["shard_tokens"] = shard_tokens
    if shuffle_documents is not None:
        given["shuffle_documents"] = shuffle_documents
    if dtype is not None:
        given["dtype"] = dtype
    return given
