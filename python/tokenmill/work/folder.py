"""The work folder `OUT.partial`: what a run has done so far, so that the next one goes on from
there.

`plan.json` comes first. Each unit leaves what it made and then its note, `unit-NAME.json`; a unit
without a note does not exist. The folder goes when the output is complete, never before.
"""

import json
import logging
import os
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self, cast

from tokenmill.errors import ConfigError
from tokenmill.storage.files import remove_folder, write_atomically
from tokenmill.work.units import Unit

_OURS = ("plan.json", "lock", "final")
_OUR_PREFIXES = (
    "unit-",
    "shard-",
    "shuffled-",
    "part-",
    "part.json",
    "tokenizer",
    ".tokenizer.",
    ".unit-",
    ".plan.json.",
    ".part.json.",
)

log = logging.getLogger("tokenmill")


def work_folder_of(out: Path) -> Path:
    """`OUT.partial`, beside the output."""
    return out.with_name(f"{out.name}.partial")


class WorkFolder:
    """One run's hold on a work folder; only one at a time has it."""

    def __init__(self, out: Path, *, is_work_folder: bool = False) -> None:
        """The work folder of `out`, or `out` itself if it is one inside another."""
        self.path = out if is_work_folder else work_folder_of(out)
        self._lock: BinaryIO | None = None

    def __enter__(self) -> Self:
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

    def begin(self, plan: bytes, keep: Collection[str]) -> None:
        """Write the plan. What an older, different plan left and is not among `keep` is removed."""
        wanted = {*_OURS, *keep}
        left = [path for path in self._files() if path.name not in wanted]
        if left:
            log.info("dropped %d files in `%s` that this run has no use for", len(left), self.path)
        for path in left:
            path.unlink()
        shutil.rmtree(self.final, ignore_errors=True)
        write_atomically(self.path / "plan.json", plan)

    def clear(self) -> None:
        """Drop what an earlier run has done."""
        for path in self._files():
            if path.name != "lock":
                path.unlink()

    def _files(self) -> list[Path]:
        """Its files, and none of the folders that others fill."""
        with os.scandir(self.path) as entries:
            return sorted(Path(entry.path) for entry in entries if not entry.is_dir())

    def planned_units(self) -> list[str] | None:
        """The names of the units of the plan that is there, `None` if there is none."""
        plan = self._plan()
        return None if plan is None else [str(unit["name"]) for unit in plan]

    def planned_files(self) -> dict[str, tuple[int, int]]:
        """The files of that plan by their paths: size, and time of change in nanoseconds."""
        parts = [part for unit in self._plan() or [] for part in unit["parts"]]
        return {str(part["file"]): (part["size"], part["mtime_ns"]) for part in parts}

    def _plan(self) -> list[dict[str, Any]] | None:
        try:
            plan: object = json.loads((self.path / "plan.json").read_bytes())["units"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return cast("list[dict[str, Any]]", plan) if isinstance(plan, list) else None

    def note(self, unit: Unit) -> dict[str, Any] | None:
        """What was noted when `unit` was done; `None` if it was not, or if nobody can read it."""
        path = self.path / note_name(unit)
        try:
            found: object = json.loads(path.read_bytes())
            if not isinstance(found, dict):
                raise ValueError("it holds no JSON object")
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            log.warning("`%s` cannot be used, so its unit is done again: %s", path, error)
            return None
        return cast("dict[str, Any]", found)

    def write_note(self, unit: Unit, note: Mapping[str, object]) -> None:
        """Say that `unit` is done, after everything it made is on the disk."""
        write_atomically(self.path / note_name(unit), json.dumps(note, indent=1).encode() + b"\n")

    @property
    def final(self) -> Path:
        """Where the output is put together before it takes its name; never taken up again."""
        return self.path / "final"

    def remove(self) -> None:
        """The output is complete: nothing here is needed any more."""
        remove_folder(self.path)


def note_name(unit: Unit) -> str:
    return f"unit-{unit.name}.json"


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
    return path.is_dir() and all(
        name in _OURS or name.startswith(_OUR_PREFIXES) for name in os.listdir(path)
    )


def _lock(file: BinaryIO) -> None:
    try:
        import fcntl
    except (
        ImportError
    ):  # Windows: two runs at once only cost time, every file is whole or absent anyway
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
