"""`pull.json`: what lies in a folder, where it came from, and under what licence.

Several pulls into one folder (other shards, more addresses) add up: each is an entry, with its files
by path. Written under a lock that pulls of this folder share, so that none forgets another's.
"""

import contextlib
import json
import threading
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tokenmill import _core
from tokenmill.errors import FormatError
from tokenmill.pull.record import FOLDER
from tokenmill.storage.files import unreadable, write_atomically

NAME = "pull.json"
FORMAT = "tokenmill pull"


@dataclass(frozen=True)
class Pulled:
    """One entry."""

    name: str
    """Of the dataset; `addresses` for files that were named one by one."""
    config: str | None
    address: str | None
    revision: str | None
    licence: str | None
    settings: Mapping[str, object]
    files: Mapping[str, Mapping[str, object]]
    """Path → size, sha256, split, address, rows."""
    sources: Mapping[str, Mapping[str, object]]
    """For rows that were given another shape: what was fetched to make them, which is gone."""
    skipped: Mapping[str, int]

    def as_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "config": self.config,
            "address": self.address,
            "revision": self.revision,
            "licence": self.licence,
            "settings": dict(self.settings),
            "files": {path: dict(self.files[path]) for path in sorted(self.files)},
            "sources": {path: dict(self.sources[path]) for path in sorted(self.sources)},
            "skipped": dict(self.skipped),
        }


def read_manifest(folder: Path) -> list[dict[str, Any]]:
    """The entries of `folder`; none if nothing was pulled to its end there."""
    path = folder / NAME
    try:
        value: Any = json.loads(path.read_bytes())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise FormatError(f"`{path}` is not JSON: {error}") from error
    known = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    pulls = known.get("pulls")
    if not isinstance(pulls, list) or known.get("format") != FORMAT:
        raise FormatError(f"`{path}` is no manifest of a pull", "move it away")
    return cast("list[dict[str, Any]]", pulls)


def add_to_manifest(folder: Path, pulled: Pulled) -> None:
    """Write `pulled` into the manifest, beside or over what is there. The caller holds the lock."""
    entries = read_manifest(folder)
    entry = pulled.as_json()
    same = [each for each in entries if _key(each) == _key(entry)]
    if same:
        # Files of an earlier pull stay, as far as they were not fetched anew.
        entry["files"] = dict(sorted({**same[0].get("files", {}), **pulled.files}.items()))
    others = [each for each in entries if _key(each) != _key(entry)]
    for left in folder.glob(f".{NAME}.*.partial"):
        left.unlink(missing_ok=True)  # by a run that was killed
    value = {
        "format": FORMAT,
        "format_version": 1,
        "tool": "tokenmill",
        "tool_version": _core.__version__,
        "pulls": sorted([*others, entry], key=lambda each: str(_key(each))),
    }
    write_atomically(
        folder / NAME, json.dumps(value, indent=1, ensure_ascii=False).encode() + b"\n"
    )


def _key(entry: Mapping[str, Any]) -> tuple[object, object]:
    return entry.get("name"), entry.get("config")


@contextlib.contextmanager
def folder_lock(folder: Path, stop: threading.Event) -> Generator[None]:
    """One pull at a time; the others wait."""
    path = folder / FOLDER / "lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        try:
            import fcntl
        except ImportError:  # Windows: every file is whole or absent anyway
            yield
            return
        while not stop.is_set():
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.1)
        yield
