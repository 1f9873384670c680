"""How far an encode has come: which units are done, what they made and what they met."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenmill.dataset.shard_sizes import Growth
from tokenmill.dataset.splits import SPLITS
from tokenmill.errors import ConfigError
from tokenmill.progress import Meter, quantity
from tokenmill.sources.source import Part, TextSource
from tokenmill.sources.stored_files import is_stored
from tokenmill.work.folder import WorkFolder, note_name
from tokenmill.work.read_report import ReadReport
from tokenmill.work.units import Unit

log = logging.getLogger("tokenmill")

KINDS = ("tokens", "documents", "bytes", "mask")
"""The files of a shard."""


@dataclass(frozen=True)
class SplitUnit:
    """Parts that are encoded together, all of one split."""

    unit: Unit
    split: str
    parts: tuple[tuple[TextSource, Part | None], ...]

    @property
    def inputs_begun(self) -> int:
        """Sources whose first part is in it."""
        return sum(part is None or part.start == 0 for _, part in self.parts)

    @property
    def can_resume(self) -> bool:
        """Whether the unit can be known again by its name; what is not a file cannot."""
        return all(is_stored(source) for source, _ in self.parts)


def unit_bytes(unit: SplitUnit) -> int | None:
    """Bytes of input, None if nobody knows."""
    sizes = [part.size_in_bytes if part else source.size_in_bytes for source, part in unit.parts]
    return None if None in sizes else sum(size or 0 for size in sizes)


def shard_path(folder: Path, split: str, number: int, kind: str, *, shuffled: bool = False) -> Path:
    """A file of a shard while it grows, or of those with the documents in another order."""
    return folder / f"{shard_prefix(split, shuffled=shuffled)}-{number:05}.{kind}"


def shard_prefix(split: str, *, shuffled: bool = False) -> str:
    """What the names of a split's files in the work folder start with."""
    return f"{'shuffled' if shuffled else 'shard'}-{split}"


@dataclass
class EncodeReport:
    """What encoding met. Adds up over units."""

    read: ReadReport = field(default_factory=ReadReport)
    special_lookalikes: dict[str, int] = field(default_factory=dict[str, int])
    """Special tokens that the text spells and that were encoded as text."""
    left_out: dict[str, int] = field(default_factory=dict[str, int])
    """Rows that became no document, by reason."""
    truncated: int = 0
    """Documents that were cut to `max_tokens`."""

    def add(self, other: "EncodeReport") -> None:
        self.read.add(other.read)
        self.truncated += other.truncated
        for total, found in (
            (self.special_lookalikes, other.special_lookalikes),
            (self.left_out, other.left_out),
        ):
            for name, number in found.items():
                total[name] = total.get(name, 0) + number

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "EncodeReport":
        return EncodeReport(
            ReadReport(**value["read"]),
            dict(value["special_lookalikes"]),
            dict(value["left_out"]),
            int(value["truncated"]),
        )


class EncodeProgress:
    """How far the units have come: what they made, what they met, how much is left."""

    def __init__(self, units: Sequence[SplitUnit], work: WorkFolder) -> None:
        self._units = units
        self._work = work
        self.growth = Growth()
        self.report = EncodeReport()
        self._read: dict[str, ReadReport] = {}
        self._input_bytes = 0
        sizes = [unit_bytes(unit) for unit in units]
        self.total_bytes = None if None in sizes else sum(size or 0 for size in sizes)

    def take_up(self, usable: int) -> int:
        """Go on from the notes of an earlier run, of the first `usable` units at most. Gives the
        number of units that are done."""
        for number, unit in enumerate(self._units[:usable]):
            note = self._work.note(unit.unit) if unit.can_resume else None
            if note is None:
                return number
            try:
                if "limit" not in note:
                    self.add(unit, note)
            except (KeyError, TypeError, ValueError) as error:
                path = self._work.path / note_name(unit.unit)
                log.warning("`%s` cannot be used, so its unit is done again: %s", path, error)
                return number
        return usable

    def add(self, unit: SplitUnit, note: Mapping[str, Any]) -> None:
        report = EncodeReport.from_json(note["report"])
        for split, grown in note["splits"].items():
            self.growth.go_on(split, grown["shard"], grown["sizes"])
        self.report.add(report)
        self._read.setdefault(unit.split, ReadReport()).add(report.read)
        self._input_bytes += unit_bytes(unit) or 0

    def begin(self, meter: Meter, done: int) -> None:
        fraction = self._input_bytes / self.total_bytes if self.total_bytes else 0.0
        meter.begin("encoding", "bytes", self.report.read.bytes if done else 0, fraction)

    def read_before(self, split: str) -> ReadReport:
        """What was read of the split so far; limits count for each split on its own."""
        return self._read.get(split, ReadReport())

    def limit_reached(self, split: str) -> bool:
        return self.read_before(split).limit_reached

    def bytes_before(self) -> tuple[int, int]:
        """(input bytes, text bytes) of the units so far."""
        return self._input_bytes, self.report.read.bytes

    def files_to_keep(self, done: Sequence[SplitUnit]) -> set[str]:
        """What the units that are done have left."""
        if not done:
            return set()
        grown = {
            shard_path(self._work.path, split, number, kind).name
            for split in SPLITS
            for number in range(self.growth.last(split)[0] + 1)
            for kind in KINDS
        }
        return grown | {note_name(unit.unit) for unit in done}

    def files_of(self, note: Mapping[str, Any]) -> list[Path]:
        """The files that the unit of this note has written to."""
        found = [
            shard_path(self._work.path, split, grown["shard"] + index, kind)
            for split, grown in note["splits"].items()
            for index in range(len(grown["sizes"]))
            for kind in KINDS
        ]
        return [path for path in found if path.exists()]


def require_same_plan(work: WorkFolder, units: Sequence[SplitUnit]) -> int:
    """How many of `units` an earlier run in this folder had planned, too, from the first on.

    ConfigError if that run has finished units that this one cannot use: nobody's hours of work are
    thrown away in silence."""
    planned = work.planned_units()
    if planned is None:
        return len(units)
    names = [unit.unit.name for unit in units]
    same = next(
        (n for n, (a, b) in enumerate(zip(planned, names, strict=False)) if a != b),
        min(len(planned), len(names)),
    )
    lost = [name for name in planned[same:] if (work.path / f"unit-{name}.json").exists()]
    if not lost:
        return same
    raise ConfigError(
        f"`{work.path}` holds {quantity(len(lost), 'finished unit')} of a run with other settings or inputs, "
        f"{_what_changed(work, units)}",
        "pass `--force` (`force=True`) to drop them, or choose another output",
    )


def _what_changed(work: WorkFolder, units: Sequence[SplitUnit]) -> str:
    before = work.planned_files()
    for unit in units:
        for part in unit.unit.parts:
            now = part.as_json()
            then = before.get(str(now["file"]))
            if then is not None and then != (now["size"], now["mtime_ns"]):
                return f"and `{now['file']}` changed since: {then[0]:,} bytes then, {now['size']:,} now"
    return "such as another tokenizer or other files"
