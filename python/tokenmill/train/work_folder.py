"""The work folder `OUT.partial`: what a count has done so far, so that the next run goes on from
there.

`plan.json` comes first. Each unit leaves `unit-NAME.counts` and then `unit-NAME.json`; a unit
without the second does not exist. The folder goes when the output is complete, never before.
"""

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from tokenmill import _core
from tokenmill.errors import ConfigError
from tokenmill.storage.files import open_atomically, remove_folder, write_atomically
from tokenmill.train.report import ReadReport
from tokenmill.train.units import Unit

log = logging.getLogger("tokenmill")


@dataclass(frozen=True)
class UnitResult:
    """What counting one unit gave. The report says how much of the limits it used."""

    counts: _core.Counts
    report: ReadReport


def work_folder_of(out: Path) -> Path:
    """`OUT.partial`, beside the output."""
    return out.with_name(f"{out.name}.partial")


class WorkFolder:
    """One run's hold on a work folder; only one at a time has it."""

    def __init__(self, out: Path) -> None:
        self.path = work_folder_of(out)
        self._lock: BinaryIO | None = None

    def __enter__(self) -> "WorkFolder":
        if self.path.exists() and not _is_work_folder(self.path):
            raise ConfigError(
                f"`{self.path}` is in the way: work in progress goes there, but it holds something else",
                "move it away, or choose another output",
            )
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = open(self.path / "lock", "wb")
        try:
            _lock(self._lock)
        except OSError as error:
            self._lock.close()
            raise ConfigError(
                f"another run is at work in `{self.path}`", "wait for it, or choose another output"
            ) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._lock is not None
        self._lock.close()

    def begin(self, plan: bytes, units: Sequence[Unit]) -> None:
        """Write the plan. What an older, different plan left and this one cannot use is removed."""
        wanted = {"plan.json", "lock"} | {path.name for unit in units for path in self._files(unit)}
        left = sorted(name for name in os.listdir(self.path) if name not in wanted)
        if left:
            log.info("dropped %d files in `%s` that this run has no use for", len(left), self.path)
        for name in left:
            with contextlib.suppress(OSError):
                os.unlink(self.path / name)
        write_atomically(self.path / "plan.json", plan)

    def _files(self, unit: Unit) -> tuple[Path, Path]:
        return self.path / f"unit-{unit.name}.counts", self.path / f"unit-{unit.name}.json"

    def load(self, unit: Unit) -> UnitResult | None:
        """The result of `unit`, if it is there and whole."""
        counts_file, note_file = self._files(unit)
        try:
            note = json.loads(note_file.read_bytes())
            data = counts_file.read_bytes()
            if hashlib.sha256(data).hexdigest() != note["sha256"]:
                log.warning("`%s` is damaged and will be counted again", counts_file)
                return None
            buffers: list[memoryview] = []
            start = 0
            for length in note["lengths"]:
                buffers.append(memoryview(data)[start : start + length])
                start += length
            counts = _core.Counts.from_buffers(*buffers)
            report = ReadReport(**note["report"])
            return UnitResult(counts, report)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("`%s` cannot be used and will be counted again: %s", note_file, error)
            return None

    def save(self, unit: Unit, result: UnitResult) -> None:
        """Keep the result of `unit`; its json comes last."""
        counts_file, note_file = self._files(unit)
        buffers = result.counts.buffers()
        digest = hashlib.sha256()
        with open_atomically(counts_file) as file:
            for buffer in buffers:
                digest.update(buffer)
                file.write(buffer)
        note = {
            "lengths": [len(buffer) for buffer in buffers],
            "sha256": digest.hexdigest(),
            "report": asdict(result.report),
        }
        write_atomically(note_file, json.dumps(note, indent=1).encode() + b"\n")

    def remove(self) -> None:
        """The output is complete: nothing here is needed any more."""
        remove_folder(self.path)


def units_done(out: Path) -> tuple[int, int] | None:
    """How many units of how many an interrupted run towards `out` has done; `None` if there is
    none."""
    folder = work_folder_of(out)
    try:
        planned = len(json.loads((folder / "plan.json").read_bytes())["units"])
        done = sum(
            name.startswith("unit-") and name.endswith(".json") for name in os.listdir(folder)
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return done, planned


def _is_work_folder(path: Path) -> bool:
    """Whether everything in it is ours: nothing else may be removed when the work is done."""
    ours = ("plan.json", "lock")
    return path.is_dir() and all(
        name in ours or name.startswith(("unit-", ".unit-", ".plan.json."))
        for name in os.listdir(path)
    )


def _lock(file: BinaryIO) -> None:
    try:
        import fcntl
    except (
        ImportError
    ):  # Windows: two runs at once only cost time, every file is whole or absent anyway
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
