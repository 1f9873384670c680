"""Finished units on their way to the disk."""

import queue
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenmill.storage.files import fsync_file
from tokenmill.work.folder import WorkFolder
from tokenmill.work.units import Unit


class Committer:
    """Brings finished units to the disk and writes their notes, in order, on a thread of its own."""

    def __init__(self, work: WorkFolder) -> None:
        self._work = work
        self._jobs: queue.Queue[tuple[Unit, Sequence[Path], Mapping[str, Any]] | None]
        # One unit at most waits: what is not on the disk yet would be lost with the power.
        self._jobs = queue.Queue(1)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="tokenmill-commit", daemon=True)

    def __enter__(self) -> "Committer":
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._jobs.put(None)
        self._thread.join()
        if error is None:
            self._raise()

    def commit(self, unit: Unit, files: Sequence[Path], note: Mapping[str, Any]) -> None:
        self._raise()
        self._jobs.put((unit, files, note))

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            if self._error is not None:
                continue
            unit, files, note = job
            try:
                for file in files:
                    fsync_file(file)
                self._work.write_note(unit, note)
            except BaseException as error:
                self._error = error
