"""The counts of one unit, kept in the work folder: `unit-NAME.counts` and then its note."""

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tokenmill import _core
from tokenmill.storage.files import open_atomically
from tokenmill.work.folder import WorkFolder, note_name
from tokenmill.work.read_report import ReadReport
from tokenmill.work.units import Unit

log = logging.getLogger("tokenmill")


@dataclass(frozen=True)
class UnitResult:
    """What counting one unit gave. The report says how much of the limits it used."""

    counts: _core.Counts
    report: ReadReport


def file_names(units: Sequence[Unit]) -> set[str]:
    """Everything that these units may have left."""
    return {name for unit in units for name in (_counts_name(unit), note_name(unit))}


def _counts_name(unit: Unit) -> str:
    return f"unit-{unit.name}.counts"


def load_unit(work: WorkFolder, unit: Unit) -> UnitResult | None:
    """The result of `unit`, if it is there and whole."""
    note = work.note(unit)
    if note is None:
        return None
    file = work.path / _counts_name(unit)
    try:
        counts = _read_counts(file, note["sha256"], note["lengths"])
        return None if counts is None else UnitResult(counts, ReadReport(**note["report"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("`%s` cannot be used and will be counted again: %s", file, error)
        return None


def _read_counts(file: Path, sha256: str, lengths: Sequence[int]) -> _core.Counts | None:
    data = file.read_bytes()
    if hashlib.sha256(data).hexdigest() != sha256:
        log.warning("`%s` is damaged and will be counted again", file)
        return None
    buffers: list[memoryview] = []
    start = 0
    for length in lengths:
        buffers.append(memoryview(data)[start : start + length])
        start += length
    return _core.Counts.from_buffers(*buffers)


def save_unit(work: WorkFolder, unit: Unit, result: UnitResult) -> None:
    """Keep the result of `unit`; its note comes last."""
    buffers = result.counts.buffers()
    digest = hashlib.sha256()
    with open_atomically(work.path / _counts_name(unit)) as file:
        for buffer in buffers:
            digest.update(buffer)
            file.write(buffer)
    note = {
        "lengths": [len(buffer) for buffer in buffers],
        "sha256": digest.hexdigest(),
        "report": asdict(result.report),
    }
    work.write_note(unit, note)
