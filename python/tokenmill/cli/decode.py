"""`tokenmill decode`: token ids in, the bytes they spell out."""

import contextlib
import functools
import sys
from collections.abc import Callable
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
        Path | None,
        typer.Option(
            "--tokenizer",
            metavar="DIR",
            help="The tokenizer the ids are of. [default: the dataset's own]",
        ),
    ] = None,
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
    split: Annotated[
        str | None,
        typer.Option("--split", metavar="NAME", help="Of a dataset. [default: train]"),
    ] = None,
    document: Annotated[
        int | None,
        typer.Option("--document", metavar="N", help="Of a dataset: document N alone, from 0."),
    ] = None,
    separator: Annotated[
        str | None,
        typer.Option(
            "--separator",
            metavar="TEXT",
            help="Between the documents of a dataset. [default: its eos, else <|endoftext|>]",
        ),
    ] = None,
    json: flags.Json = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = 0,
) -> None:
    """Turn token ids back into text, byte by byte as it was.

    PATH is a dataset, a .npy, a .bin (raw, or with llm.c's header), a text file of ids, or `-` for
    ids on stdin. Special tokens are spelled out, and no newline is added. Documents of a dataset come
    without their bos and eos, with the separator between them.
    """
    from tokenmill.dataset.manifest import read_manifest
    from tokenmill.storage.files import local_path

    set_up_logging(verbose)
    if json and out is None:
        raise typer.BadParameter("`--json` prints to stdout, where the text goes: pass `--out`")
    is_dataset = path != "-" and read_manifest(local_path(path)) is not None
    whole_file = start or count is not None
    if is_dataset and not (whole_file and local_path(path).is_file()):
        for flag, given in (
            ("--start", start),
            ("--count", count is not None),
            ("--pattern", pattern),
            ("--special", special),
        ):
            if given:
                raise typer.BadParameter(f"`{flag}` is for files of ids, `{path}` is a dataset")
        run: Callable[..., dict[str, int]] = functools.partial(
            _decode_dataset, path, tokenizer, dtype, split, document, separator
        )
    else:
        for flag, given in (
            ("--split", split),
            ("--document", document),
            ("--separator", separator),
        ):
            if given is not None:
                raise typer.BadParameter(f"`{flag}` is for datasets, `{path}` is none")
        if tokenizer is None:
            raise typer.BadParameter("`--tokenizer` is needed: a file of ids has none")
        run = functools.partial(
            _decode_file, path, tokenizer, pattern, special, dtype, start=start, count=count
        )
    _decode_to(run, out, as_json=json, quiet=quiet)


def _decode_to(
    run: Callable[..., dict[str, int]], out: Path | None, *, as_json: bool, quiet: bool
) -> None:
    """Hand `run` a place to write to, and say what it did."""
    from tokenmill.progress import Meter, quantity, size
    from tokenmill.storage.files import open_atomically

    # A bar would stand in the middle of the text if both go to one terminal.
    meter = Meter(not quiet and not (out is None and sys.stdout.isatty()))
    meter.begin("decoding", "tokens")
    place = contextlib.nullcontext(sys.stdout.buffer) if out is None else open_atomically(out)
    try:
        with place as file:
            decoded = run(file.write, progress=meter.update)
            file.flush()
    finally:
        meter.end()
    if out is None or quiet:
        return
    if as_json:
        print_json({"out": str(out), **decoded})
        return
    documents = quantity(decoded["documents"], "document") + ", " if "documents" in decoded else ""
    line("decoded", f"{documents}{quantity(decoded['tokens'], 'token')}, {size(decoded['bytes'])}")
    line("wrote", str(out))


def _decode_dataset(
    path: str,
    tokenizer: Path | None,
    dtype: str | None,
    split: str | None,
    document: int | None,
    separator: str | None,
    write: Callable[[bytes], object],
    *,
    progress: Callable[[int, float | None], None],
) -> dict[str, int]:
    from tokenmill.dataset.dataset import Dataset
    from tokenmill.dataset.decode import decode_documents, default_separator

    dataset = Dataset.open(path, dtype=dtype, tokenizer=tokenizer)
    between = default_separator(dataset) if separator is None else flags.unescape(separator)
    view = dataset.main_split if split is None else dataset[split]
    decoded = decode_documents(view, write, separator=between, document=document, progress=progress)
    return {"documents": decoded.documents, "tokens": decoded.tokens, "bytes": decoded.bytes}


def _decode_file(
    path: str,
    tokenizer: Path,
    pattern: str | None,
    special: list[str] | None,
    dtype: str | None,
    write: Callable[[bytes], object],
    *,
    start: int,
    count: int | None,
    progress: Callable[[int, float | None], None],
) -> dict[str, int]:
    from tokenmill.storage.files import local_path
    from tokenmill.tokenizer.artifact import build_bpe, read_tokenizer
    from tokenmill.tokenizer.token_files import decode_ids, ids_of_text, open_ids

    vocab = read_tokenizer(
        local_path(tokenizer), pattern=pattern, special_tokens=special_tokens(special)
    )
    bpe = build_bpe(vocab)
    ids = (
        ids_of_text(sys.stdin.buffer, "stdin")
        if path == "-"
        else open_ids(local_path(path), vocab_size=bpe.vocab_size, dtype=dtype)
    )
    decoded = decode_ids(ids, bpe, write, start=start, count=count, progress=progress)
    return {"tokens": decoded.num_ids, "bytes": decoded.num_bytes}
