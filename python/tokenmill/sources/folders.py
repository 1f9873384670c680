"""Folders: every text file below, sorted by path, and Hugging Face's saved datasets in their own
order."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tokenmill.errors import FormatError, SourceError
from tokenmill.sources.formats import Format, format_of_name, is_invisible
from tokenmill.storage.files import unreadable


@dataclass
class FolderListing:
    """Text files to read, in order, and the names of the others."""

    files: list[Path] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)


def walk_folder(folder: Path, given: Format | None = None) -> FolderListing:
    """All visible text files under `folder`, links followed. With a `given` format every visible
    file counts."""
    listing = FolderListing()
    _walk(folder, given, listing, set())
    return listing


def _walk(folder: Path, given: Format | None, listing: FolderListing, entered: set[str]) -> None:
    real = os.path.realpath(folder)
    if real in entered:
        raise SourceError(f"`{folder}` leads back into a folder that holds it", "remove the link")
    names = _names(folder)
    if {"state.json", "dataset_info.json"} <= set(names):
        listing.files.extend(_saved_dataset(folder))
        return
    if "dataset_dict.json" in names:
        raise _several_splits(folder)
    # Sorted as whole paths, like the shell sorts them: a folder's place is that of its name with a
    # slash.
    paths = {name: folder / name for name in names if not is_invisible(name)}
    for name in sorted(paths, key=lambda name: name + "/" if paths[name].is_dir() else name):
        if paths[name].is_dir():
            _walk(paths[name], given, listing, entered | {real})
        elif format_of_name(name, given) is None:
            listing.ignored.append(name)
        else:
            listing.files.append(paths[name])


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError as error:
        raise unreadable(folder, error) from error


def _saved_dataset(folder: Path) -> list[Path]:
    """The Arrow files of `Dataset.save_to_disk`, in the order of its state.json."""
    state = _json_object(folder / "state.json")
    if state.get("_indices_data_files"):
        raise FormatError(
            f"`{folder}` is a saved dataset with an index of its own, which is not applied here",
            "call `flatten_indices()` on it and save it again",
        )
    try:
        names = [str(each["filename"]) for each in state["_data_files"]]
    except (KeyError, TypeError) as error:
        raise FormatError(f"`{folder / 'state.json'}` does not list its `_data_files`") from error
    for name in names:
        if os.path.basename(name) != name:
            raise FormatError(
                f"`{folder / 'state.json'}` names `{name}`, which is outside its folder"
            )
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        raise SourceError(f"`{folder}` is a saved dataset without its file `{missing[0]}`")
    return [folder / name for name in names]


def _several_splits(folder: Path) -> SourceError:
    splits = cast("list[object]", _json_object(folder / "dataset_dict.json").get("splits") or [])
    listed = ", ".join(f"`{split}`" for split in splits)
    hint = f"pass one of them, such as `{folder / str(splits[0])}`" if splits else None
    return SourceError(f"`{folder}` is a saved dataset with the splits {listed or 'none'}", hint)


def _json_object(path: Path) -> dict[str, Any]:
    try:
        value: object = json.loads(path.read_bytes())
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise FormatError(f"`{path}` is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise FormatError(f"`{path}` does not hold a JSON object")
    return cast("dict[str, Any]", value)
