"""`tokenmill decode`: token ids in, the bytes they spell out."""

import contextlib
import sys
from pathlib import Path
from typing import Annotated

import typer

from tokenmill.cli import options as flags
from tokenmill.cli.console import answering_errors, line, print_json, set_up_logging
from tokenmill.cli.convert import special_tokens


@answering_errors
def decode(
    path: Annotated[str, typer.Argument(metavar="PATH", hidden=True)],
    tokenizer: Annotated[
        Path, typer.Option("--tokenizer", metavar="DIR", help="The tokenizer the ids are of.")
    ],
    pattern: Annotated[
        str | None,
        typer.Option(
            "--pattern", metavar="NAME|REGEX", help="Split pattern of a tokenizer that has none."
        ),
    ] = None,
    special: Annotated[
        list[str] | None,
        typer.Option(
            "--special",
            metavar="TEXT[=ID]",
            help="Special token of a tokenizer that has none; repeat for more.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Where the text goes. [default: stdout]"),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            "--dtype",
            metavar="TYPE",
            help="Of the ids in a .bin. [default: uint16 if the vocab fits, else uint32]",
        ),
    ] = None,
    start: Annotated[
        int, typer.Option("--start", metavar="N", min=0, help="Leave the first N tokens out.")
    ] = 0,
    count: Annotated[
        int | None,
        typer.Option("--count", metavar="N", min=0, help="Decode N tokens at most."),
    ] = None,
    json: flags.Json = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = 0,
) -> None:
    """Turn token ids back into text, byte by byte as it was.

    PATH is a .npy, a .bin (raw, or with llm.c's header), a text file of ids, or `-` for ids on
    stdin. Special tokens are spelled out, and no newline is added.
    """
    from tokenmill.progress import Meter, quantity, size
    from tokenmill.storage.files import local_path, open_atomically
    from tokenmill.tokenizer.artifact import build_bpe, read_tokenizer
    from tokenmill.tokenizer.token_files import decode_ids, ids_of_text, open_ids

    set_up_logging(verbose)
    if json and out is None:
        raise typer.BadParameter("`--json` prints to stdout, where the text goes: pass `--out`")
    vocab = read_tokenizer(
        local_path(tokenizer), pattern=pattern, special_tokens=special_tokens(special)
    )
    bpe = build_bpe(vocab)
    ids = (
        ids_of_text(sys.stdin.buffer, "stdin")
        if path == "-"
        else open_ids(local_path(path), vocab_size=bpe.vocab_size, dtype=dtype)
    )
    # A bar would stand in the middle of the text if both go to one terminal.
    meter = Meter(not quiet and not (out is None and sys.stdout.isatty()))
    meter.begin("decoding", "tokens")
    place = contextlib.nullcontext(sys.stdout.buffer) if out is None else open_atomically(out)
    try:
        with place as file:
            decoded = decode_ids(
                ids, bpe, file.write, start=start, count=count, progress=meter.update
            )
            file.flush()
    finally:
        meter.end()
    if out is None or quiet:
        return
    if json:
        print_json({"out": str(out), "tokens": decoded.num_ids, "bytes": decoded.num_bytes})
        return
    line("decoded", f"{quantity(decoded.num_ids, 'token')}, {size(decoded.num_bytes)}")
    line("wrote", str(out))
