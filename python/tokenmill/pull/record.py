"""`.pull/record.jsonl`: which files of a folder were checked, when they had which size and date.

One line for each fact, added in one write, so that several pulls can share a folder; the last line
about a file counts and a line that was cut is none. Losing the record costs reading files once more.
"""

import json
import os
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tokenmill.errors import ConfigError
from tokenmill.storage.files import FileState, clean_errors

FOLDER = ".pull"


@dataclass(frozen=True)
class Checked:
    """A file whose content was hashed."""

    path: str
    size: int
    mtime_ns: int
    sha256: str
    address: str
    etag: str | None

    def is_of(self, state: FileState) -> bool:
        return (self.size, self.mtime_ns) == (state.size, state.mtime_ns)


class Record:
    """The record of one folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FOLDER / "record.jsonl"
        self._folder = folder
        self._lock = threading.Lock()
        self._read_bytes = 0
        self._checked: dict[str, Checked] = {}
        self._claims: list[dict[str, object]] = []
        self.refresh()

    def refresh(self) -> None:
        """Read what was added since the last time, by this process or another."""
        with self._lock:
            try:
                with open(self._path, "rb") as file:
                    file.seek(self._read_bytes)
                    added = file.read()
            except FileNotFoundError:
                return
            complete = added.rfind(b"\n") + 1
            self._read_bytes += complete
            for line in added[:complete].split(b"\n"):
                self._learn(line)

    def _learn(self, line: bytes) -> None:
        try:
            value: Any = json.loads(line)
            if "claim" in value:
                self._claims.append(value["claim"])
            else:
                checked = Checked(**value)
                self._checked[checked.path] = checked
        except (ValueError, TypeError):  # blank, or cut by a kill
            pass

    def find(self, path: str) -> Checked | None:
        return self._checked.get(path)

    def add(self, checked: Checked) -> None:
        with self._lock:
            self._checked[checked.path] = checked
            self._append(asdict(checked))

    def claim(self, what: dict[str, object]) -> None:
        """Say what this folder is for. ConfigError if it is for something else already: files of
        two datasets may have one name."""
        for claim in self._claims:
            if claim != what:
                mine, theirs = (_named(each) for each in (what, claim))
                raise ConfigError(
                    f"`{self._folder}` holds {theirs}, so {mine} cannot go there",
                    "choose another folder",
                )
        if not self._claims:
            self._append({"claim": what})
            self.refresh()

    def _append(self, value: dict[str, Any]) -> None:
        with clean_errors(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            descriptor = os.open(self._path, flags, 0o666)
            try:
                # The line break in front ends whatever a killed process left unfinished.
                os.write(descriptor, b"\n" + json.dumps(value).encode() + b"\n")
            finally:
                os.close(descriptor)


def _named(claim: dict[str, object]) -> str:
    more = [f"{name} {value}" for name, value in claim.items() if name != "name" and value]
    return f"`{claim.get('name')}`" + (f" ({', '.join(more)})" if more else "")
