"""Work units: a plan cuts the inputs into pieces of work whose results are kept until all are
there.

A unit is named after everything its result depends on: the settings, and the path, size, time and
range of each file in it; where limits are in force also the units before it. So a plan made again
is the same plan, and a finished unit of an older plan counts exactly if the new plan still has it.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tokenmill.sources.options import ReadOptions
from tokenmill.sources.source import Part
from tokenmill.sources.stored_files import StoredFile

UNIT_BYTES = 256_000_000
"""Enough work to make saving cheap, little enough to lose."""


@dataclass(frozen=True)
class UnitPart:
    """A file, or a range of one."""

    file: StoredFile
    part: Part | None

    @property
    def size_in_bytes(self) -> int:
        return (self.file.size_in_bytes or 0) if self.part is None else self.part.size_in_bytes

    def as_json(self) -> dict[str, object]:
        start, end = (None, None) if self.part is None else (self.part.start, self.part.end)
        return {**self.file.identity, "start": start, "end": end}


@dataclass(frozen=True)
class Unit:
    """Parts that are read together."""

    name: str
    parts: tuple[UnitPart, ...]

    @property
    def size_in_bytes(self) -> int:
        return sum(part.size_in_bytes for part in self.parts)


def plan_units(
    files: Sequence[StoredFile],
    options: ReadOptions,
    settings: Mapping[str, object],
    unit_bytes: int = UNIT_BYTES,
    first: int = 0,
) -> list[Unit]:
    """Units of about `unit_bytes`, in the order of `files`, numbered from `first` on. `settings` are
    what else decides the result."""
    units: list[Unit] = []
    for parts in _grouped(files, options, unit_bytes):
        before = units[-1].name if units and options.has_limit else ""
        units.append(Unit(_name(parts, settings, before, first + len(units)), tuple(parts)))
    return units


def _grouped(
    files: Sequence[StoredFile], options: ReadOptions, unit_bytes: int
) -> list[list[UnitPart]]:
    groups: list[list[UnitPart]] = []
    filled = unit_bytes
    for file in files:
        for part in file.parts(options, unit_bytes):
            each = UnitPart(file, part)
            if filled + each.size_in_bytes > unit_bytes or not groups:
                groups.append([])
                filled = 0
            groups[-1].append(each)
            filled += each.size_in_bytes
    return groups


def _name(
    parts: Sequence[UnitPart], settings: Mapping[str, object], before: str, index: int
) -> str:
    content = {"settings": settings, "before": before, "parts": [part.as_json() for part in parts]}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
    return f"{index:05}-{digest}"


def plan_as_json(kind: str, units: Sequence[Unit], settings: Mapping[str, object]) -> bytes:
    """What plan.json says, for people and for `tokenmill status`."""
    plan = {
        "format": f"tokenmill {kind} plan",
        "format_version": 1,
        "settings": settings,
        "units": [
            {
                "name": unit.name,
                "bytes": unit.size_in_bytes,
                "parts": [part.as_json() for part in unit.parts],
            }
            for unit in units
        ],
    }
    return json.dumps(plan, indent=1, ensure_ascii=False).encode() + b"\n"
