"""What every library that encodes is asked for, and how what it gives is compared.

Every method does what the library's own documentation would have a user do for speed. Results stay in the
library's own form while the clock runs; `rows` takes them apart afterwards. Loaded by every peer's process,
so it imports nothing but the standard library.
"""

import hashlib
import importlib
from array import array
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from bench.job import Answer, Job

Numbers: TypeAlias = "array[int]"  # which takes no brackets before Python 3.12 when it runs

IDS, OFFSETS = "ids", "offsets"


class Encoder(Protocol):
    """A library with a tokenizer loaded. Special tokens in the text are text."""

    def encode_batch(self, texts: list[str]) -> Any: ...
    def encode_text(self, text: str) -> Any: ...

    def encode_call(self, text: str) -> Any:
        """One short text, called with the library's defaults, to Python's ints."""
        ...

    def rows(self, batch: Any) -> Iterable[Sequence[int]]:
        """The ids of each text of what `encode_batch` gave."""
        ...

    def batch_of(self, ids: Numbers, offsets: Numbers) -> Any:
        """Ids in the form `decode_batch` takes."""
        ...

    def ids_of(self, ids: Numbers) -> Any:
        """Ids in the form `decode_text` takes."""
        ...

    def decode_batch(self, batch: Any) -> list[str]: ...
    def decode_text(self, ids: Any) -> str: ...


def open_ready(job: Job) -> Encoder:
    """With the modules imported that the library would import at its first call: imports are not timed."""
    adapter = importlib.import_module(job.encoder)
    for module in getattr(adapter, "LATE_IMPORTS", ()):
        importlib.import_module(module)
    return adapter.open_encoder(job)


def rows_of(ids: Numbers, offsets: Numbers) -> list[list[int]]:
    """The ids of each text as Python's lists, which is what most libraries decode."""
    whole = ids.tolist()
    return [whole[start:end] for start, end in pairwise(offsets)]


def ids_answer(rows: Iterable[Sequence[int]]) -> Answer:
    """A digest of the ids of every text and where each text ends, and the number of ids."""
    digest = hashlib.sha256()
    num_tokens = 0
    for row in rows:
        num_tokens += len(row)
        digest.update(len(row).to_bytes(8, "little"))
        digest.update(array("I", row).tobytes())
    return [(digest.digest(),), (str(num_tokens).encode(),)]


def texts_answer(texts: Iterable[str]) -> Answer:
    """A digest of every text and where it ends, and the number of bytes."""
    digest = hashlib.sha256()
    num_bytes = 0
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        num_bytes += len(data)
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return [(digest.digest(),), (str(num_bytes).encode(),)]


def write_ids(folder: Path, ids: Numbers, offsets: Numbers) -> None:
    """Ids as 32-bit and offsets as 64-bit machine words, for every library to take in its own form."""
    folder.mkdir()
    (folder / IDS).write_bytes(ids)
    (folder / OFFSETS).write_bytes(offsets)


def read_ids(folder: Path) -> tuple[Numbers, Numbers]:
    ids, offsets = array("I"), array("q")
    ids.frombytes((folder / IDS).read_bytes())
    offsets.frombytes((folder / OFFSETS).read_bytes())
    return ids, offsets
