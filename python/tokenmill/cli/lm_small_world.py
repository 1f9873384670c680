"""`tokenmill lm small-world`: simple stories by the number, with their exact entropy."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from tokenmill.cli import options as flags
from tokenmill.cli.console import answering_errors, line, print_json, set_up_logging
from tokenmill.errors import ConfigError
from tokenmill.sources.options import ReadOptions

REPORT_EVERY = 1000


@answering_errors
def small_world(
    count: Annotated[
        int, typer.Option("--stories", metavar="N", min=0, help="How many stories.")
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
            help=f"Write them there, with {ReadOptions.separator} between. [default: stdout]",
        ),
    ] = None,
    force: flags.Force = False,
    json: flags.Json = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = 0,
) -> None:
    """Write stories of the small world, a grammar whose entropy is known.

    A story depends on the seed and its number alone, so other numbers are stories never seen before.
    """
    from tokenmill.progress import size

    set_up_logging(verbose)
    if out is None:
        _print_stories(seed, count, start, as_json=json)
        return
    num_bytes, is_new = _write(out, seed, count, start, force=force, quiet=quiet)
    if json:
        print_json(
            {
                "out": str(out),
                "already_done": not is_new,
                "bytes": num_bytes,
                **_settings(seed, count, start),
            }
        )
    elif not quiet and is_new:
        line("wrote", f"{out}, {count:,} stories, {size(num_bytes)}")
        _show_measures()
    elif not quiet:
        line("done", f"already: `{out}` holds these stories")


def _settings(seed: int, count: int, start: int) -> dict[str, Any]:
    from tokenmill.lm import small_world as world

    return {
        "stories": count,
        "seed": seed,
        "start": start,
        "entropy_bits_per_story": world.entropy_bits_per_story(),
        "mean_bytes_per_story": float(world.mean_bytes_per_story()),
        "entropy_bits_per_byte": world.entropy_bits_per_byte(),
    }


def _show_measures() -> None:
    from tokenmill.lm import small_world as world

    line(
        "entropy",
        f"{world.entropy_bits_per_story():.2f} bits a story, {world.entropy_bits_per_byte():.4f} bits "
        "per byte: no model needs fewer",
    )


def _print_stories(seed: int, count: int, start: int, *, as_json: bool) -> None:
    from tokenmill.lm.small_world import stories

    texts = stories(seed, count, start)
    if as_json:
        print_json({"texts": list(texts), **_settings(seed, count, start)})
        return
    for text in texts:
        print(text)


def _chunks(seed: int, count: int, start: int, *, quiet: bool) -> Iterator[bytes]:
    """The bytes of the file, some stories at a time."""
    from tokenmill.lm.small_world import stories
    from tokenmill.progress import Meter

    separator = str(ReadOptions.separator)
    meter = Meter(False if quiet else None)
    meter.begin("writing", "stories")
    done = 0
    try:
        while done < count:
            now = min(REPORT_EVERY, count - done)
            text = separator.join(stories(seed, now, start + done))
            yield (text if done == 0 else separator + text).encode()
            done += now
            meter.update(done, done / count)
    finally:
        meter.end()


def _write(
    out: Path, seed: int, count: int, start: int, *, force: bool, quiet: bool
) -> tuple[int, bool]:
    """The file's size, and whether it had to be written."""
    from tokenmill.storage.files import open_atomically

    if out.exists() and not force:
        if _holds(out, _chunks(seed, count, start, quiet=quiet)):
            return out.stat().st_size, False
        raise ConfigError(
            f"`{out}` is there already and holds something else", "pass `--force` to replace it"
        )
    num_bytes = 0
    with open_atomically(out) as file:
        for chunk in _chunks(seed, count, start, quiet=quiet):
            num_bytes += file.write(chunk)
    return num_bytes, True


def _holds(out: Path, chunks: Iterator[bytes]) -> bool:
    with open(out, "rb") as file:
        return all(file.read(len(chunk)) == chunk for chunk in chunks) and not file.read(1)
