"""`tokenmill demo`: the whole way from text to an assistant, offline, in minutes, with a report at the end."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tokenmill.cli import options as flags
from tokenmill.cli.console import answering_errors, line, print_json, set_up_logging

if TYPE_CHECKING:
    from rich.text import Text

    from tokenmill.demo.pipeline import Demo
    from tokenmill.tokenizer.tokenizer import Tokenizer

DEFAULT_OUT = Path("tokenmill-demo")
SENTENCE = (
    'On Monday, Lily and Finn walked gladly to the quiet castle. "Let us build a hut," said Finn.'
)
TELLING = (b" Lily", b" castle", b" gladly", b" butterfly", b" said")
# Blue, orange, purple, teal, crimson, green out of the 256 colours that most terminals have, so that
# none has to be replaced by a likeness. All are dark enough for the white (231) on them, and both
# are set, so the terminal's own colours do not matter.
COLOURS = tuple(f"color(231) on color({number})" for number in (25, 130, 55, 23, 125, 28))


@answering_errors
def demo(
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="DIR",
            show_default=False,
            help=flags.help_text("Folder for all that is made.", str(DEFAULT_OUT)),
        ),
    ] = DEFAULT_OUT,
    fast: Annotated[
        bool, typer.Option("--fast", help="A smaller model and less data: under a minute.")
    ] = False,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, help="Of the world and of training.")
    ] = 0,
    force: Annotated[
        bool, typer.Option("--force", help="Delete the demo at --out and start anew.")
    ] = False,
    json: flags.Json = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = 0,
) -> None:
    """Make a small assistant out of nothing but text, and see each step of the way.

    Stories of a small world become a tokenizer, ids, a language model, an assistant that answers questions (SFT), and one that answers
    as people prefer (DPO). Nothing is downloaded. A demo that was stopped goes on where it was; a report is written at the end.
    """
    from tokenmill.demo.journal import discard
    from tokenmill.demo.pipeline import Demo
    from tokenmill.demo.settings import DemoSettings

    set_up_logging(verbose)
    if force:
        discard(out)
    says = not json and not quiet
    settings = DemoSettings.fast(seed) if fast else DemoSettings(seed)
    made = Demo(
        out,
        settings,
        says=line if says else _say_nothing,
        progress=False if quiet else None,
    )
    if says:
        print("text → tokenizer → ids → language model → assistant\n")
    made.make_tokenizer()
    if says:
        show_merges(made.tokenizer)
        show_sentence(made.tokenizer)
        print()
    missing = _missing_torch()
    if missing is not None:
        _stop_half_way(out, missing, as_json=json)
        return
    made.make_assistant()
    _finish(made, as_json=json, says=says)


def _say_nothing(label: str, text: str, seconds: float) -> None:
    """For those who want JSON, or peace."""


def _missing_torch() -> str | None:
    from importlib.util import find_spec

    return next((name for name in ("torch", "safetensors") if find_spec(name) is None), None)


def _stop_half_way(out: Path, missing: str, *, as_json: bool) -> None:
    """Without torch there is a tokenizer and ids, and that is all."""
    if as_json:
        print_json({"out": str(out), "missing": missing})
        return
    line("note", f"{missing} is not installed, so the demo ends with the tokenizer")
    line("next", "pip install 'tokenmill[lm]', and `tokenmill demo` again: it goes on from here")


def _finish(made: "Demo", *, as_json: bool, says: bool) -> None:
    from tokenmill.demo.report import results, write_report

    page, text = write_report(made.folder, made.journal)
    found = results(made.journal)
    if as_json:
        reports = {"html": str(page), "markdown": str(text)}
        print_json({**found, "out": str(made.folder), "report": reports})
        return
    if not says:
        return
    _show_answers(made)
    right, ranked = found["answers_right"], found["preference_accuracy"]
    print()
    line(
        "right",
        f"{right['base']:.1%} of held-out questions before, {right['sft']:.1%} after SFT, {right['dpo']:.1%} after DPO; "
        f"a guess {right['chance']:.1%}",
    )
    line(
        "ranked", f"{ranked['sft']:.1%} of held-out pairs after SFT, {ranked['dpo']:.1%} after DPO"
    )
    line("report", f"{page} and {text}", found["total_seconds"])
    line("next", f"tokenmill lm chat {made.folder / 'dpo'}")


def _show_answers(made: "Demo") -> None:
    """One question, and what each model makes of it."""
    print()
    first = {
        stage: made.journal.parts[f"{stage}-measured"]["answers"][0]
        for stage in ("pretrain", "sft", "dpo")
    }
    line("question", first["pretrain"]["prompt"])
    for label, stage in (("base", "pretrain"), ("sft", "sft"), ("dpo", "dpo")):
        text = " ".join(first[stage]["answer"].split())
        line(label, text if len(text) < 90 else text[:89] + "…")


def show_merges(tokenizer: "Tokenizer") -> None:
    """How the vocab grew, how some words came to be, and the longest words in it."""
    merges = tokenizer.merges
    print("\nthe vocab grows from letters to words:")
    for rank in (0, 1, 2, 9, 29, 99, 299, len(merges) - 1):
        if rank < len(merges):
            left, right = merges[rank]
            line(
                "",
                f"merge {rank + 1:>5,}   {visible(left)} + {visible(right)} → {visible(left + right)}",
            )
    ranks = {left + right: rank for rank, (left, right) in reversed(list(enumerate(merges)))}
    print("\nwords that are said often became one token; each was built from its parts:")
    for token in sorted(
        (token for token in TELLING if token in ranks), key=lambda token: ranks[token]
    ):
        line(
            "",
            f"merge {ranks[token] + 1:>5,}   {visible(token):<14} = {tree(token, ranks, merges)}",
        )


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
