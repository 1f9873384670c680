"""From fetched files to rows on disk: `SPLIT/NAME.jsonl`, each whole or absent, the same every time."""

import contextlib
import hashlib
import importlib
import json
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, cast

from tokenmill.errors import FormatError, TokenmillError
from tokenmill.pull.catalogue import NamedDataset
from tokenmill.pull.rows.shape import Choice, Row, RowMaker
from tokenmill.storage.files import open_atomically


@dataclass
class MadeFile:
    """A file of rows."""

    size: int
    rows: int
    sha256: str


@dataclass
class Made:
    """What became of a dataset's rows."""

    files: dict[str, MadeFile] = field(default_factory=dict)
    """By path, relative to the folder."""
    skipped: "Counter[str]" = field(default_factory=Counter)


class _Writing:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.sha256()
        self._size = self._rows = 0

    def add(self, row: Row) -> None:
        line = _line(row)
        self._file.write(line)
        self._digest.update(line)
        self._size += len(line)
        self._rows += 1

    def made(self) -> MadeFile:
        return MadeFile(self._size, self._rows, self._digest.hexdigest())


def make_rows(
    dataset: NamedDataset,
    sources: Mapping[str, Sequence[Path]],
    choice: Choice,
    folder: Path,
) -> Made:
    """Write the rows of `dataset` below `folder`, a file for each split that has any."""
    assert dataset.rows is not None
    module = importlib.import_module(f"tokenmill.pull.rows.{dataset.rows}")
    maker = cast("RowMaker", module.rows)
    made = Made()
    writing: dict[str, _Writing] = {}
    for left in folder.glob(f"*/.{dataset.name}.jsonl.*.partial"):
        left.unlink(missing_ok=True)  # by a run that was killed: the caller is the only one here
    with contextlib.ExitStack() as files, _clean_errors(dataset):
        for split, row in maker(sources, choice, made.skipped):
            path = f"{split}/{dataset.name}.jsonl"
            if path not in writing:
                writing[path] = _Writing(files.enter_context(open_atomically(folder / path)))
            writing[path].add(row)
    made.files = {path: each.made() for path, each in sorted(writing.items())}
    return made


@contextlib.contextmanager
def _clean_errors(dataset: NamedDataset) -> Generator[None]:
    """Files that are not what the catalogue says, as a mirror may have them: pyarrow and Python have
    many ways to say so."""
    try:
        yield
    except (TokenmillError, OSError):
        raise
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise FormatError(
            f"the files of `{dataset.name}` are not what they should be: {reason}"
        ) from error


def _line(row: Row) -> bytes:
    try:
        return json.dumps(row, ensure_ascii=False).encode() + b"\n"
    except UnicodeEncodeError:  # half a surrogate pair: JSON can spell it, UTF-8 cannot
        return json.dumps(row).encode() + b"\n"
