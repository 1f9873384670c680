"""`tokenmill convert`: a tokenizer in any format in, the files of another tool out."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tokenmill.cli import options as flags
from tokenmill.cli.console import answering_errors, line, print_json, set_up_logging
from tokenmill.errors import ConfigError

if TYPE_CHECKING:
    from tokenmill.tokenizer.convert import Conversion
    from tokenmill.tokenizer.same_ids import Checked

_WITH_ID = re.compile(r"(?P<token>.+)=(?P<id>\d{1,9})", re.DOTALL)


@answering_errors
def convert(
    tokenizer: Annotated[Path, typer.Argument(metavar="TOKENIZER", hidden=True)],
    to: Annotated[
        str,
        typer.Option("--to", metavar="hf|tiktoken|gpt2|nanochat|gguf", help="What to write."),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", metavar="PATH", help="A folder; a file for gguf or NAME.tiktoken."),
    ],
    pattern: Annotated[
        str | None,
        typer.Option(
            "--pattern", metavar="NAME|REGEX", help="Split pattern of a TOKENIZER that has none."
        ),
    ] = None,
    special: Annotated[
        list[str] | None,
        typer.Option(
            "--special",
            metavar="TEXT[=ID]",
            help="Special token of a TOKENIZER that has none; repeat for more.",
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Open the result with the library it is for, compare ids."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
    json: flags.Json = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = 0,
) -> None:
    """Write a tokenizer in the format of another tool, with the same ids or not at all.

    TOKENIZER is a folder or file: tokenizer.json, a tiktoken file, vocab.json with merges.txt, or
    what docs/convert.md lists.
    """
    from tokenmill.storage.files import local_path
    from tokenmill.tokenizer import same_ids
    from tokenmill.tokenizer.convert import convert as convert_tokenizer

    set_up_logging(verbose)
    if check:
        same_ids.require_library(to)
    conversion = convert_tokenizer(
        local_path(tokenizer),
        to,
        local_path(out),
        pattern=pattern,
        special_tokens=special_tokens(special),
        force=force,
    )
    if not json and not quiet:
        _show(conversion, tokenizer)
    checked = same_ids.check(conversion) if check else None
    if json and not quiet:
        _print_json(conversion, checked)
    elif checked is not None and not quiet:
        line(
            "checked",
            f"{checked.num_texts:,} texts: same ids as {checked.library} {checked.version}",
        )


def special_tokens(given: list[str] | None) -> list[str] | dict[str, int] | None:
    """`--special` as it was given: names, or names with their ids.

    >>> special_tokens(["<|bos|>=300"])
    {'<|bos|>': 300}
    """
    if given is None or given == ["none"]:
        return None if given is None else []
    with_id = [match for match in map(_WITH_ID.fullmatch, given) if match]
    if with_id and len(with_id) < len(given):
        raise ConfigError("`--special` gives some special tokens an id and some none")
    tokens = [match["token"] for match in with_id] or given
    for token in tokens:
        if tokens.count(token) > 1:
            raise ConfigError(f"special token `{token}` is given twice")
    return {match["token"]: int(match["id"]) for match in with_id} or given


def _show(conversion: "Conversion", tokenizer: Path) -> None:
    from tokenmill.progress import quantity

    vocab = conversion.vocab
    tokens, special = (
        quantity(number, noun)
        for number, noun in (
            (vocab.core.size, "token"),
            (len(vocab.special_tokens), "special token"),
        )
    )
    line("read", f"{tokenizer}: {tokens}, {special}, pattern `{vocab.pattern}`")
    if conversion.already_done:
        line("done", f"already: `{conversion.out}` holds this")
    else:
        line("wrote", ", ".join(str(file) for file in conversion.files))
    for note in conversion.notes:
        line("note", note)


def _print_json(conversion: "Conversion", checked: "Checked | None") -> None:
    from dataclasses import asdict

    vocab = conversion.vocab
    print_json(
        {
            "out": str(conversion.out),
            "to": conversion.to,
            "already_done": conversion.already_done,
            "files": [str(file) for file in conversion.files],
            "vocab_size": vocab.core.size,
            "pattern": vocab.pattern,
            "special_tokens": vocab.special_tokens,
            "unreachable": list(vocab.proof.unreachable),
            "notes": conversion.notes,
            "checked": None if checked is None else asdict(checked),
        }
    )
