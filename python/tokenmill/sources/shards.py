"""Numbered shards: `..8`, `3,5,9`, `2..5`, `-1` choose files of a folder by the number in their
names."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tokenmill.errors import ConfigError, SourceError
from tokenmill.progress import quantity
from tokenmill.sources.formats import stem_of_name

_PART = re.compile(r"(?P<single>-?\d+)|(?P<start>-?\d+)?\.\.(?P<end>-?\d+)?")
_NUMBER = re.compile(r"(\d+)(?=-of-\d+)|(\d+)(?!.*\d)")


class ShardRange(NamedTuple):
    """From `start` up to but without `end`, each `None` where the range is open; or the one number
    `start`."""

    start: int | None
    end: int | None
    is_range: bool


def parse_shards(text: str) -> list[ShardRange]:
    """The parts of `..8`, `3,5,9`, `2..5,-1`. An end is exclusive; a negative number counts from
    the last shard."""
    ranges: list[ShardRange] = []
    for part in text.split(","):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise ConfigError(
                f"cannot read the shards `{text}`: `{part.strip()}` is neither a number nor a range",
                "write them like `..8`, `3,5,9`, `2..5` or `-1`",
            )
        single, start, end = (None if found is None else int(found) for found in match.groups())
        ranges.append(ShardRange(start if single is None else single, end, single is None))
    return ranges


def shard_number(path: Path) -> int | None:
    """The number in a file name: the one before `-of-`, else the last one. `shard_00012.parquet` is
    12."""
    match = _NUMBER.search(stem_of_name(path.name))
    return int(match[0]) if match else None


def choose_shards(files: Sequence[Path], text: str, where: str) -> list[Path]:
    """The files whose numbers `text` names, sorted by number, each once."""
    numbered: dict[int, Path] = {}
    for file in files:
        number = shard_number(file)
        if number is None:
            continue
        if number in numbered:
            raise SourceError(f"`{numbered[number]}` and `{file}` are both shard {number}")
        numbered[number] = file
    if not numbered:
        raise SourceError(
            f"no file of `{where}` has a number in its name, so `--shards {text}` names none"
        )
    return [numbered[number] for number in chosen_numbers(sorted(numbered), text, where)]


def chosen_numbers(present: Sequence[int], text: str, where: str) -> list[int]:
    """The numbers that `text` names out of `present` (ascending), sorted. One that is not there is
    an error."""
    chosen: set[int] = set()
    for start, end, is_range in parse_shards(text):
        low = _from_end(start or 0, present, text, where)
        if is_range and end is None:
            # An open end stops with what is there; an end somebody wrote must be there as far as it
            # says.
            chosen.update(number for number in present if number >= low)
            continue
        high = low + 1 if end is None else _from_end(end, present, text, where)
        within = [number for number in present if low <= number < high]
        if not (within and (len(within) == high - low or (end is not None and end < 0))):
            wanted = f"{low}" if high == low + 1 else f"{low}–{high - 1}" if high > low else "none"
            raise SourceError(
                f"`--shards {text}` asks for {wanted}, but `{where}` has {_listed(present)}"
            )
        chosen.update(within)
    if not chosen:
        raise SourceError(
            f"`--shards {text}` asks for nothing that `{where}` has: {_listed(present)}"
        )
    return sorted(chosen)


def _from_end(number: int, present: Sequence[int], text: str, where: str) -> int:
    if number >= 0:
        return number
    if -number > len(present):
        raise SourceError(
            f"`--shards {text}`: `{where}` has only {quantity(len(present), 'shard')}, {_listed(present)}"
        )
    return present[number]


def _listed(numbers: Iterable[int]) -> str:
    """`0–4, 7` for 0, 1, 2, 3, 4, 7."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    parts = [str(low) if low == high else f"{low}–{high}" for low, high in runs]
    return ", ".join([*parts[:8], "…"] if len(parts) > 8 else parts)
