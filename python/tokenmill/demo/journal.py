"""What a demo has done so far: `demo.json`, written behind each part, so that one that was stopped goes on with the next."""

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from tokenmill.demo.settings import FORMAT_VERSION, DemoSettings
from tokenmill.errors import ConfigError, FormatError
from tokenmill.lm.settings import differing_setting
from tokenmill.storage.files import write_atomically

FILE_NAME = "demo.json"
FORMAT = "tokenmill demo"
OTHER_FOLDER = "name another folder with `--out`"
SAME_FOLDER = f"{OTHER_FOLDER}, or pass `--force` to start anew"


class Journal:
    """The parts that are done, with what came out of them and how long they took."""

    def __init__(self, folder: Path, settings: DemoSettings) -> None:
        self.path, self.settings = folder / FILE_NAME, settings
        self.parts: dict[str, dict[str, Any]] = _read(folder, settings)

    def do(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What `work` found, now or the last time."""
        if name not in self.parts:
            started = time.perf_counter()
            found = work()
            self.parts[name] = {**found, "seconds": time.perf_counter() - started}
            self._write()
        return self.parts[name]

    def _write(self) -> None:
        told = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "settings": self.settings.as_json(),
            "parts": self.parts,
        }
        write_atomically(
            self.path, (json.dumps(told, indent=1, ensure_ascii=False) + "\n").encode()
        )


def discard(folder: Path) -> None:
    """Delete the demo in `folder`, if there is one. ConfigError or FormatError for what is not ours, which stays."""
    if _found(folder) is not None:
        shutil.rmtree(folder)


def _read(folder: Path, settings: DemoSettings) -> dict[str, dict[str, Any]]:
    """The parts that are done in `folder`. ConfigError if it holds something else, or a demo of other settings."""
    found = _found(folder)
    if found is None:
        return {}
    begun = f"the demo at `{folder}` was begun with"
    if found.get("format_version") != FORMAT_VERSION:
        raise ConfigError(f"{begun} version {found.get('format_version')}", SAME_FOLDER)
    for name in ("settings", "parts"):
        if not isinstance(found.get(name), dict):
            raise FormatError(f"`{folder / FILE_NAME}` has no `{name}`", SAME_FOLDER)
    difference = differing_setting(found["settings"], settings.as_json())
    if difference is not None:
        raise ConfigError(f"{begun} {difference}", SAME_FOLDER)
    return found["parts"]


def _found(folder: Path) -> dict[str, Any] | None:
    """What the journal in `folder` says; `None` if nothing is there."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return None
    file = folder / FILE_NAME
    try:
        found = json.loads(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise ConfigError(f"`{folder}` exists and is no demo of ours", OTHER_FOLDER) from None
    except ValueError as error:
        raise FormatError(f"`{file}` is not valid JSON: {error}", OTHER_FOLDER) from None
    if not isinstance(found, dict) or cast("dict[str, Any]", found).get("format") != FORMAT:
        raise FormatError(f"`{file}` is not ours", OTHER_FOLDER)
    return cast("dict[str, Any]", found)
