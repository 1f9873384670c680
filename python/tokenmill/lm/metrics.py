"""`metrics.jsonl`: one JSON object a line, the truth about a run. TensorBoard and others only repeat it.

A run that goes on drops what was written after the checkpoint it goes on from, so each step is there once.
"""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

FILE_NAME = "metrics.jsonl"


class Sink(Protocol):
    """Where records go besides the file."""

    def add(self, record: Mapping[str, Any]) -> None: ...
    def close(self) -> None: ...


class Metrics:
    """Appends records; each line is whole or dropped at the next start."""

    def __init__(
        self, folder: Path, sinks: list[Sink] | None = None, *, after_step: int = 0
    ) -> None:
        self.path = folder / FILE_NAME
        _keep_until(self.path, after_step)
        self._file = self.path.open("a", encoding="utf-8")
        self._sinks = sinks or []

    def add(self, record: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(_plain(record), ensure_ascii=False) + "\n")
        self._file.flush()
        for sink in self._sinks:
            sink.add(record)

    def sync(self) -> None:
        """Bring it to the disk: before a checkpoint says that these steps are done."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()
        for sink in self._sinks:
            sink.close()


def _plain(record: Mapping[str, Any]) -> dict[str, Any]:
    """JSON has no NaN: it becomes a string."""
    return {
        key: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in record.items()
    }


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """All whole records of the run at `folder`."""
    path = folder / FILE_NAME
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    records: list[dict[str, Any]] = []
    for line in lines:
        if not line.endswith(b"\n"):
            break
        records.append(json.loads(line))
    return records


def _keep_until(path: Path, step: int) -> None:
    if not path.exists():
        return
    kept = [record for record in read_metrics(path.parent) if record["step"] <= step]
    text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in kept)
    from tokenmill.storage.files import write_atomically

    write_atomically(path, text.encode())
