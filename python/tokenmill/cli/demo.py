"""`tokenmill demo`: train on text every Python has, its own standard library, and look at what came
out."""

import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tokenmill.cli import options as flags
from tokenmill.cli.console import answering_errors, line, set_up_logging

if TYPE_CHECKING:
    from rich.text import Text

    from tokenmill.tokenizer.tokenizer import Tokenizer

VOCAB_SIZE = 8192
SENTENCE = "def greet(self, name):\n    return f'Hello {name}, 2026 tokens for you: ☕ naïve café'"
TELLING = (
    b" self",
    b" return",
    b"import",
    b" None",
    b" lambda",
    b"Exception",
    b"__init__",
    b" dictionary",
)
# Blue, orange, purple, teal, crimson, green out of the 256 colours that most terminals have, so that
# none has to be replaced by a likeness. All are dark enough for the white (231) on them, and both
# are set, so the terminal's own colours do not matter.
COLOURS = tuple(f"color(231) on color({number})" for number in (25, 130, 55, 23, 125, 28))


@answering_errors
def demo(threads: flags.Threads = None, verbose: flags.Verbose = 0) -> None:
    """Train on Python's own standard library and show what was learned."""
    from tokenmill.cli import rendering
    from tokenmill.sources.documents import documents
    from tokenmill.train.merges import train

    set_up_logging(verbose)
    files = list(library_files())
    version = ".".join(map(str, _python_version()))
    print(
        f"{len(files):,} source files of Python {version}'s standard library → a vocab of {VOCAB_SIZE:,}\n"
    )
    texts = documents((path.read_bytes() for path in files), name="standard library")
    tokenizer = train(
        texts,
        vocab_size=VOCAB_SIZE,
        threads=threads,
        invalid_utf8="replace",  # a few files are Latin-1 on purpose
        progress=True,
    )
    rendering.show_training(tokenizer, None, as_json=False)
    show_merges(tokenizer)
    show_sentence(tokenizer)
    print(
        '\nnext: `tokenmill train YOUR_TEXT --out tokenizer/`, then `tm.Tokenizer.load("tokenizer/")`'
    )


def library_files() -> Iterator[Path]:
    """The standard library's sources, sorted by path, without installed packages and empty files."""
    root = Path(sysconfig.get_paths()["stdlib"])
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - {"site-packages", "dist-packages", "__pycache__"})
        files = (Path(folder) / name for name in sorted(names) if name.endswith(".py"))
        yield from (file for file in files if file.stat().st_size > 0)


def _python_version() -> tuple[int, int]:
    import sys

    return sys.version_info[:2]


def show_merges(tokenizer: "Tokenizer") -> None:
    """How the vocab grew, how some well-known words came to be, and the longest words in it."""
    merges = tokenizer.merges
    print("\nthe vocab grows from letters to words:")
    for rank in (0, 1, 2, 9, 29, 99, 299, 999, 2999, len(merges) - 1):
        if rank < len(merges):
            left, right = merges[rank]
            line(
                "",
                f"merge {rank + 1:>5,}   {visible(left)} + {visible(right)} → {visible(left + right)}",
            )
    ranks = {left + right: rank for rank, (left, right) in reversed(list(enumerate(merges)))}
    print("\nwhat Python says often became one token early; each was built from its parts:")
    for token in sorted(
        (token for token in TELLING if token in ranks), key=lambda token: ranks[token]
    ):
        line(
            "",
            f"merge {ranks[token] + 1:>5,}   {visible(token):<14} = {tree(token, ranks, merges)}",
        )
    words = sorted((token for token in ranks if token.isalpha()), key=len, reverse=True)[:5]
    line("", f"longest words: {', '.join(visible(word) for word in words)}")


def tree(token: bytes, ranks: dict[bytes, int], merges: list[tuple[bytes, bytes]]) -> str:
    """`((r e) (t u r n))`-like brackets: which merges, inside which, spell `token`."""
    if token not in ranks:
        return visible(token)
    left, right = (tree(part, ranks, merges) for part in merges[ranks[token]])
    return f"({left} {right})"


def visible(token: bytes) -> str:
    """`token` with its spaces showing; bytes that are no text by themselves as hex."""
    try:
        text = token.decode()
    except UnicodeDecodeError:
        return "".join(f"‹{byte:02x}›" for byte in token)
    return text.replace(" ", "·").replace("\n", "⏎").replace("\t", "⇥")


def show_sentence(tokenizer: "Tokenizer") -> None:
    """A few lines of text, each token in a colour of its own, then the ids."""
    from rich.console import Console

    ids = tokenizer.encode(SENTENCE)
    num_bytes = len(SENTENCE.encode())
    print(f"\n{num_bytes} bytes become {len(ids)} tokens, {num_bytes / len(ids):.2f} bytes each:\n")
    console = Console(highlight=False)
    # Where colours do not show, bars tell the tokens apart.
    console.print(coloured(tokenizer, ids, "" if console.color_system else "│"), soft_wrap=True)
    console.print("\n" + " ".join(map(str, ids)), style="dim", soft_wrap=False)
    assert tokenizer.decode(ids) == SENTENCE, "decoding gives the text back"


def coloured(tokenizer: "Tokenizer", ids: list[int], between: str) -> "Text":
    """The tokens of `ids`, neighbours in different colours; a line ends where the text has a line
    end."""
    from rich.text import Text

    text = Text()
    for index, token_id in enumerate(ids):
        shown = visible(tokenizer.token_bytes(token_id)).replace("⏎", "⏎\n")
        if index:
            text.append(between)
        for part in shown.splitlines(keepends=True):
            text.append(part, style=COLOURS[index % len(COLOURS)])
    return text
