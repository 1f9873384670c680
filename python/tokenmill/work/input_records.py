"""Who the inputs are: each by its bytes, not by its name or its date.

A result that was made from the same inputs with the same settings is the same result, so this is
what is compared before a command says "already done".
"""

import queue
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tokenmill.sources.remote_files import RemoteFile
from tokenmill.sources.source import TextSource
from tokenmill.sources.stored_files import StoredFile, is_stored


@dataclass(frozen=True)
class InputRecord:
    """One input. `sha256` is unknown until somebody needs it, and for ever if the input was no
    file."""

    name: str
    num_bytes: int | None
    sha256: str | None
    file: StoredFile | None = None
    version: str | None = None
    """What the server of an object elsewhere states instead of a sha256: an ETag or a date."""

    @staticmethod
    def of(source: TextSource) -> "InputRecord":
        if is_stored(source):
            version = source.version if isinstance(source, RemoteFile) else None
            return InputRecord(source.file_name, source.size_in_bytes, None, source, version)
        return InputRecord(source.name, None, None)

    def hashed(self, stop: threading.Event | None = None) -> "InputRecord":
        """The record with its sha256, if the file is still the one that was read."""
        if self.sha256 is not None or self.file is None:
            return self
        return replace(self, sha256=self.file.sha256(stop.is_set if stop else lambda: False))

    def as_json(self) -> dict[str, object]:
        known: dict[str, object] = {
            "name": self.name,
            "bytes": self.num_bytes,
            "sha256": self.sha256,
        }
        return known if self.version is None else {**known, "version": self.version}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "InputRecord":
        version = value.get("version")
        return InputRecord(str(value["name"]), value["bytes"], value["sha256"], version=version)


def hash_inputs(inputs: Sequence[InputRecord]) -> tuple[InputRecord, ...]:
    """The records with the sha256 of every file among them."""
    return tuple(each.hashed() for each in inputs)


class BackgroundHashes:
    """Hashes inputs on a thread of its own, while the next ones are being counted."""

    def __init__(self, inputs: Sequence[InputRecord]) -> None:
        self._inputs = list(inputs)
        self._wanted: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._num_wanted = 0
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="tokenmill-hash", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while (index := self._wanted.get()) is not None:
                self._inputs[index] = self._inputs[index].hashed(self._stop)
        except BaseException as error:
            self._error = error

    def want(self, num_inputs: int) -> None:
        """Hash the first `num_inputs`, as far as that was not asked for before."""
        for index in range(self._num_wanted, num_inputs):
            self._wanted.put(index)
        self._num_wanted = max(self._num_wanted, num_inputs)

    def result(self) -> tuple[InputRecord, ...]:
        """All records; those asked for with their hashes."""
        self._wanted.put(None)
        # Joined in short steps: a join without end does not hear Ctrl-C on every platform.
        while self._thread.is_alive():
            self._thread.join(0.1)
        if self._error is not None:
            raise self._error
        return tuple(self._inputs)

    def cancel(self) -> None:
        self._stop.set()
        self._wanted.put(None)
        self._thread.join()


def same_inputs(
    recorded: Sequence[Mapping[str, Any]],
    unread: int,
    found: Sequence[InputRecord],
    *,
    ordered: bool,
) -> bool:
    """Whether the inputs a manifest names are the ones found now. Sizes are compared before
    anything is hashed; order counts only where limits make it count, and what a limit left `unread`
    does not count at all."""
    if unread > 0:
        found = found[: len(recorded)]

    def arranged(values: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return values if ordered else sorted(values, key=str)

    then = [(each.get("bytes"), each.get("sha256") or each.get("version")) for each in recorded]
    if arranged([(size,) for size, _ in then]) != arranged([(each.num_bytes,) for each in found]):
        return False
    now = [(each.num_bytes, each.sha256 or each.version) for each in hash_inputs(found)]
    return arranged(then) == arranged(now) and all(digest is not None for _, digest in now)
