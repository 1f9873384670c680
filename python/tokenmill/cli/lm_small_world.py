"""`tokenmill lm small-world`: simple stories by the number, with their exact entropy, and questions about them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from tokenmill.cli import options as flags
from tokenmill.cli.console import answering_errors, line, print_json, set_up_logging
from tokenmill.errors import ConfigError
from tokenmill.sources.choices import require_one_of
from tokenmill.sources.options import ReadOptions

REPORT_EVERY = 1000
KINDS = ("stories", "conversations", "pairs", "held-out-pairs", "questions")


@answering_errors
def small_world(
    kind: Annotated[
        str,
        typer.Option(
            "--kind",
            metavar="|".join(KINDS),
            show_default=False,
            help=flags.help_text(
                "What to write: stories to pretrain on, conversations about them for `sft`, pairs of answers for `dpo`, "
                "held-out pairs and questions to evaluate with.",
                KINDS[0],
            ),
        ),
    ] = KINDS[0],
    count: Annotated[
        int, typer.Option("--count", "--stories", metavar="N", min=0, help="How many.")
    ] = 20_000,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of the world.")] = 1,
    start: Annotated[
        int, typer.Option("--start", metavar="N", min=0, help="Number of the first story.")
    ] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help=f"Write them there: stories with {ReadOptions.separator} between, the others as JSONL. [default: stdout]",
        ),
    ] = None,
    force: flags.Force = False,
    json: flags.Json = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = 0,
) -> None:
    """Write stories of the small world, a grammar whose entropy is known, or questions about them.

    What is written depends on the seed and the numbers alone, so other numbers are stories never seen before. A question has one of
    eight answers. Held-out pairs and questions ask for facts, such as a purple hat, that no conversation and no other pair has.
    """
    from tokenmill.progress import size

    set_up_logging(verbose)
    require_one_of("kind", kind, KINDS)
    world = _World(kind, seed, count, start)
    if out is None:
        world.print(as_json=json)
        return
    num_bytes, is_new = _write(out, world, force=force, quiet=quiet)
    if json:
        done = {"out": str(out), "already_done": not is_new, "bytes": num_bytes}
        print_json({**done, **world.settings})
    elif not quiet and is_new:
        line("wrote", f"{out}, {count:,} {kind.replace('-', ' ')}, {size(num_bytes)}")
        if kind == "stories":
            _show_measures()
    elif not quiet:
        line("done", f"already: `{out}` holds these {kind.replace('-', ' ')}")


@dataclass(frozen=True)
class _World:
    """Some texts of the small world."""

    kind: str
    seed: int
    count: int
    start: int

    @property
    def texts(self) -> Iterator[str]:
        from tokenmill.lm import small_world_questions as questions
        from tokenmill.lm.small_world import stories

        if self.kind == "stories":
            return stories(self.seed, self.count, self.start)
        makers: dict[str, Callable[..., Iterator[dict[str, Any]]]] = {
            "conversations": questions.sft_rows,
            "pairs": questions.preference_rows,
            "held-out-pairs": partial(questions.preference_rows, held_out=True),
            "questions": questions.question_rows,
        }
        rows = makers[self.kind](self.seed, self.count, self.start)
        return (questions.as_line(row) for row in rows)

    @property
    def between(self) -> str:
        return str(ReadOptions.separator) if self.kind == "stories" else ""

    @property
    def settings(self) -> dict[str, Any]:
        from tokenmill.lm import small_world as world

        told = {self.kind.replace("-", "_"): self.count, "seed": self.seed, "start": self.start}
        if self.kind != "stories":
            return told
        return {
            **told,
            "entropy_bits_per_story": world.entropy_bits_per_story(),
            "mean_bytes_per_story": float(world.mean_bytes_per_story()),
            "entropy_bits_per_byte": world.entropy_bits_per_byte(),
        }

    def print(self, *, as_json: bool) -> None:
        if as_json:
            print_json({"texts": [text.rstrip("\n") for text in self.texts], **self.settings})
            return
        for text in self.texts:
            print(text.rstrip("\n"))

    def chunks(self, *, quiet: bool) -> Iterator[bytes]:
        """The bytes of the file, some texts at a time."""
        from tokenmill.progress import Meter

        meter = Meter(False if quiet else None)
        meter.begin("writing", self.kind.replace("-", " "))
        done = 0
        try:
            texts = self.texts
            while some := list(islice(texts, REPORT_EVERY)):
                text = self.between.join(some)
                yield (text if done == 0 else self.between + text).encode()
                done += len(some)
                meter.update(done, done / self.count)
        finally:
            meter.end()


def _show_measures() -> None:
    from tokenmill.lm import small_world as world

    line(
        "entropy",
        f"{world.entropy_bits_per_story():.2f} bits a story, {world.entropy_bits_per_byte():.4f} bits "
        "per byte: no model needs fewer",
    )


def _write(out: Path, world: _World, *, force: bool, quiet: bool) -> tuple[int, bool]:
    """The file's size, and whether it had to be written."""
    from tokenmill.storage.files import open_atomically

    if out.exists() and not force:
        if _holds(out, world.chunks(quiet=quiet)):
            return out.stat().st_size, False
        raise ConfigError(
            f"`{out}` is there already and holds something else", "pass `--force` to replace it"
        )
    num_bytes = 0
    with open_atomically(out) as file:
        for chunk in world.chunks(quiet=quiet):
            num_bytes += file.write(chunk)
    return num_bytes, True


def _holds(out: Path, chunks: Iterator[bytes]) -> bool:
    with open(out, "rb") as file:
        return all(file.read(len(chunk)) == chunk for chunk in chunks) and not file.read(1)
