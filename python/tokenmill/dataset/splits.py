"""Which split an input belongs to: `train`, `validation` or `test`, by the names people give.

A folder or file called `train`, `validation`, `valid`, `val` or `test` says it, and so do
`stories-valid.txt` and Hugging Face's `test-00000-of-00002.parquet`; everything else is `train`. Only
names below what the caller named count: a project that lives in `/home/me/test` is not a test split.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import cast

from tokenmill.sources.formats import stem_of_name
from tokenmill.sources.inputs import find_inputs
from tokenmill.sources.options import ReadOptions
from tokenmill.sources.source import TextSource

SPLITS = ("train", "validation", "test")
_WORDS = {"train": "train", "validation": "validation", "valid": "validation"} | {
    "val": "validation",
    "test": "test",
}
_NAME = "|".join(_WORDS)
_IN_FILE_NAME = re.compile(rf"(?P<only>{_NAME})|(?P<first>{_NAME})-\d.*|.*[-_.](?P<last>{_NAME})")


@dataclass(frozen=True)
class SplitSource:
    """A source and the split its documents go to."""

    split: str
    source: TextSource


def find_split_inputs(inputs: object, options: ReadOptions) -> list[SplitSource]:
    """The sources that `inputs` names, by split, in the order they were named within each."""
    found = [each for item in _items(inputs) for each in _of_item(item, options)]
    return sorted(found, key=lambda each: SPLITS.index(each.split))


def _items(inputs: object) -> Iterable[object]:
    """What the caller named, one by one. A list without an address in it is documents."""
    if isinstance(inputs, (list, tuple)):
        items = cast("list[object]", inputs)
        if any(isinstance(item, (str, os.PathLike)) for item in items):
            return items
    return [cast("object", inputs)]


def _of_item(item: object, options: ReadOptions) -> Iterator[SplitSource]:
    if not isinstance(item, (str, os.PathLike)):
        yield from (SplitSource("train", source) for source in find_inputs(item, options))
        return
    address = os.fspath(cast("str | os.PathLike[str]", item))
    saved = _splits_of_saved_dataset(Path(address))
    for folder in saved or [address]:
        for source in find_inputs(folder, options):
            yield SplitSource(split_of_name(_name_below(address, source.name)), source)


def _splits_of_saved_dataset(folder: Path) -> list[str]:
    """The folders of a `DatasetDict` that was saved to disk; none if `folder` is no such thing."""
    try:
        names: object = json.loads((folder / "dataset_dict.json").read_bytes())["splits"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    if not isinstance(names, list):
        return []
    # Only plain names: whoever wrote the file may not send us elsewhere.
    plain = [name for name in cast("list[object]", names) if isinstance(name, str)]
    return [
        str(folder / name) for name in plain if os.path.basename(name) == name and name[:1] != "."
    ]


def _name_below(address: str, name: str) -> str:
    """The part of `name` that the caller did not write, and at least the file's own name."""
    given = address if "://" in address else str(Path(address))
    # A glob was written as far as its first wildcard.
    fixed = re.split(r"[*?\[]", given, maxsplit=1)[0]
    base = given if fixed == given else fixed.rpartition("/")[0]
    below = name.removeprefix(base).lstrip("/") if name.startswith(base) else ""
    return below or PurePosixPath(name).name


def split_of_name(name: str) -> str:
    """The split that a path says it is; the part nearest to the file decides."""
    *folders, file = name.split("/")
    match = _IN_FILE_NAME.fullmatch(stem_of_name(file).lower())
    if match is not None:
        return _WORDS[match["only"] or match["first"] or match["last"]]
    for folder in reversed(folders):
        if folder.lower() in _WORDS:
            return _WORDS[folder.lower()]
    return "train"
