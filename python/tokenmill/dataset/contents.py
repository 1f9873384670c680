"""What must hold inside the files of a dataset, block by block: headers, ids, document ends, masks.

A check gets the header of a file, then its items in order, and says at the end what was wrong.
"""

from collections.abc import Callable

import numpy as np

from tokenmill.dataset.arrays import Array, item_type, npy_header
from tokenmill.dataset.layouts import Layout, layout_named
from tokenmill.dataset.manifest import Manifest, Shard


class ContentCheck:
    """Parent of all: compares the header, hands blocks on as arrays."""

    def __init__(self, header: bytes, dtype: str) -> None:
        self.header_bytes = len(header)
        self._header = header
        self._dtype = item_type(dtype)
        self._position = 0
        self._problems: list[str] = []

    def start(self, header: bytes) -> None:
        if header != self._header:
            self._problems.append("starts with another header than its manifest asks for")

    def feed(self, block: bytes) -> None:
        if len(block) % self._dtype.itemsize:
            self._note("ends in the middle of an item")
            return
        items = np.frombuffer(block, self._dtype)
        self.look(items)
        self._position += len(items)

    def look(self, items: Array) -> None:
        """Override: what holds for items that follow each other."""

    def _note(self, problem: str) -> None:
        """The first of its kind is enough to know."""
        if not self._problems:
            self._problems.append(problem)

    def finish(self) -> list[str]:
        return self._problems


class IdCheck(ContentCheck):
    """Every id is in the vocab."""

    def __init__(self, header: bytes, dtype: str, vocab_size: int) -> None:
        super().__init__(header, dtype)
        self._vocab_size = vocab_size

    def look(self, items: Array) -> None:
        if len(items) and (items.max() >= self._vocab_size or items.min() < 0):
            wrong = int(np.flatnonzero((items >= self._vocab_size) | (items < 0))[0])
            self._note(
                f"has id {int(items[wrong])} at token {self._position + wrong:,}, "
                f"the vocab has {self._vocab_size:,}"
            )


class EndCheck(ContentCheck):
    """Document ends never go back, and the last is the end of the shard."""

    def __init__(self, header: bytes, num_tokens: int) -> None:
        super().__init__(header, "uint64")
        self._num_tokens = num_tokens
        self._last = 0

    def look(self, items: Array) -> None:
        if not len(items):
            return
        steps_back = np.flatnonzero(items[1:] < items[:-1])
        if items[0] < self._last or len(steps_back):
            place = 0 if items[0] < self._last else int(steps_back[0]) + 1
            self._note(f"has document {self._position + place:,} end before the one before it")
        self._last = int(items[-1])

    def finish(self) -> list[str]:
        if self._last != self._num_tokens:
            self._note(f"ends at token {self._last:,}, the shard has {self._num_tokens:,}")
        return self._problems


class SumCheck(ContentCheck):
    """Items add up to what the manifest says."""

    def __init__(self, header: bytes, dtype: str, total: int | None, largest: int | None) -> None:
        super().__init__(header, dtype)
        self._expected, self._largest = total, largest
        self._total = 0

    def look(self, items: Array) -> None:
        self._total += int(items.sum(dtype=np.uint64))
        if self._largest is not None and len(items) and items.max() > self._largest:
            wrong = int(np.flatnonzero(items > self._largest)[0])
            self._note(f"has {int(items[wrong])} at item {self._position + wrong:,}, not 0 or 1")

    def finish(self) -> list[str]:
        if self._expected is not None and self._total != self._expected:
            self._note(f"adds up to {self._total:,}, the manifest says {self._expected:,}")
        return self._problems


def content_checks(manifest: Manifest) -> dict[str, ContentCheck]:
    """A check for each file of the dataset that has something to check, by its path."""
    layout = layout_named(manifest.layout)
    checks: dict[str, ContentCheck] = {}
    for split in manifest.splits.values():
        for shard in split.shards:
            # A mask adds up over shards, so its sum is known for one shard only.
            trained = split.trained_tokens if len(split.shards) == 1 else None
            checks |= _shard_checks(manifest, layout, shard, trained)
    return checks


def _shard_checks(
    manifest: Manifest, layout: Layout, shard: Shard, trained: int | None
) -> dict[str, ContentCheck]:
    makers: dict[str, Callable[[], ContentCheck]] = {
        "tokens": lambda: IdCheck(
            layout.header(shard.tokens, manifest.dtype),
            manifest.dtype,
            manifest.tokenizer.vocab_size,
        ),
        "documents": lambda: EndCheck(npy_header("uint64", shard.documents), shard.tokens),
        "bytes": lambda: SumCheck(
            npy_header("uint64", shard.documents), "uint64", shard.bytes, None
        ),
        "mask": lambda: SumCheck(npy_header("uint8", shard.tokens), "uint8", trained, 1),
        "loss": lambda: SumCheck(b"", "uint8", trained, 1),
    }
    if manifest.layout == "datatrove":
        makers["index"] = lambda: EndCheck(b"", shard.tokens)
    return {record.path: makers[kind]() for kind, record in shard.files.items() if kind in makers}
