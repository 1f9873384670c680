"""The shards of one split: files that are mapped when they are first needed, and arrays end to end.

Every size is compared with the manifest when a dataset is opened, and again when a file is mapped.
"""

import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tokenmill.dataset.arrays import (
    NPY_HEADER_BYTES,
    Array,
    has_size,
    item_type,
    map_npy,
    require_size,
)
from tokenmill.dataset.layouts import Layout, open_tokens
from tokenmill.dataset.layouts.layout import ARRAYS
from tokenmill.dataset.manifest import Shard
from tokenmill.errors import FormatError

_SCAN_TOKENS = 1 << 22


class ShardArrays(Protocol):
    """What a split reads from: ids, and where documents end among them."""

    @property
    def num_tokens(self) -> int: ...
    @property
    def num_documents(self) -> int: ...
    @property
    def tokens(self) -> Array: ...
    @property
    def ends(self) -> Array:
        """FormatError if nobody knows where documents end."""
        ...

    @property
    def num_bytes(self) -> Array | None:
        """Raw bytes of each document, None if nobody counted."""
        ...

    @property
    def mask(self) -> Array | None: ...


class DescribedShard:
    """A shard that a manifest describes."""

    def __init__(
        self, folder: Path, layout: Layout, dtype: str, shard: Shard, eos_id: int | None
    ) -> None:
        self._folder, self._layout, self._dtype = folder, layout, dtype
        self._shard, self._eos_id = shard, eos_id
        self.num_tokens, self.num_documents = shard.tokens, shard.documents
        self._mapped: dict[str, Array] = {}
        self._require_sizes()

    def _require_sizes(self) -> None:
        folder = os.fspath(self._folder)
        for kind, dtype in (("tokens", self._dtype), *ARRAYS.items()):
            record = self._shard.files.get(kind)
            if record is None:
                continue
            header = self._layout.header_bytes if kind == "tokens" else NPY_HEADER_BYTES
            length = self._length(kind)
            size = header + length * item_type(dtype).itemsize
            # By a string, and with nothing to say: a Path for each of hundreds of files takes longer
            # than asking the system about them.
            if not has_size(f"{folder}/{record.path}", size):
                require_size(self._path(kind), size, f"{length:,} items of `{dtype}`")

    def _path(self, kind: str) -> Path:
        return self._folder / self._shard.files[kind].path

    def _length(self, kind: str) -> int:
        return self.num_tokens if kind in ("tokens", "mask") else self.num_documents

    @property
    def tokens(self) -> Array:
        return self._once("tokens", self._map_tokens)

    @property
    def ends(self) -> Array:
        return self._once("documents", self._map_ends)

    @property
    def num_bytes(self) -> Array | None:
        return self._array("bytes")

    @property
    def mask(self) -> Array | None:
        return self._array("mask")

    def _array(self, kind: str) -> Array | None:
        return self._once(kind, lambda: self._map(kind)) if kind in self._shard.files else None

    def _once(self, kind: str, open_array: Callable[[], Array]) -> Array:
        if kind not in self._mapped:
            self._mapped[kind] = open_array()
        return self._mapped[kind]

    def _map(self, kind: str) -> Array:
        return map_npy(self._path(kind), ARRAYS[kind], self._length(kind))

    def _map_tokens(self) -> Array:
        return open_tokens(self._layout, self._path("tokens"), self.num_tokens, self._dtype)

    def _map_ends(self) -> Array:
        if "documents" not in self._shard.files:
            return self._found_ends()
        found = self._map("documents")
        if self.num_documents and int(found[-1]) != self.num_tokens:
            raise FormatError(
                f"`{self._path('documents')}` ends at token {int(found[-1]):,}, "
                f"the shard has {self.num_tokens:,}"
            )
        return found

    def _found_ends(self) -> Array:
        """Where documents end in a file that comes alone: behind each eos, if that is so."""
        path = self._path("tokens")
        if self._eos_id is None:
            raise FormatError(
                f"nothing says where the documents of `{path}` end",
                "encode to a folder, which keeps the ends of documents",
            )
        starts = range(0, self.num_tokens, _SCAN_TOKENS)
        blocks = [
            np.flatnonzero(self.tokens[start : start + _SCAN_TOKENS] == self._eos_id) + start + 1
            for start in starts
        ]
        ends = np.concatenate([np.zeros(0, np.int64), *blocks]).astype(np.uint64)
        if len(ends) != self.num_documents:
            raise FormatError(
                f"`{path}` has {len(ends):,} times the end-of-document token for "
                f"{self.num_documents:,} documents, so it does not tell where they end",
                "encode to a folder, which keeps the ends of documents",
            )
        return ends


class ShardedArray:
    """Arrays of several shards as one: indexed and sliced like an array of numpy.

    A slice inside one shard is a view of its file, one across shards is a copy.
    """

    ndim = 1

    def __init__(self, arrays: Sequence[Array]) -> None:
        self.shards = tuple(arrays)
        self._starts = [0, *accumulate(len(array) for array in arrays)]

    def __len__(self) -> int:
        return self._starts[-1]

    @property
    def shape(self) -> tuple[int]:
        return (len(self),)

    @property
    def size(self) -> int:
        return len(self)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.shards[0].dtype

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if step != 1:
                return self._gather(np.arange(start, stop, step))
            return self._slice(start, max(start, stop))
        if np.ndim(key):
            return self._gather(np.asarray(key))
        return self._one(int(key))

    def _one(self, index: int) -> Any:
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"index {index} is out of bounds for {len(self):,} items")
        shard = bisect_right(self._starts, place) - 1
        return self.shards[shard][place - self._starts[shard]]

    def _slice(self, start: int, stop: int) -> Array:
        first = max(bisect_right(self._starts, start) - 1, 0)
        parts: list[Array] = []
        for shard in range(first, len(self.shards)):
            begin = self._starts[shard]
            if begin >= stop:
                break
            parts.append(self.shards[shard][max(start - begin, 0) : stop - begin])
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts) if parts else np.empty(0, self.dtype)

    def _gather(self, key: Array) -> Array:
        """Items at many places, or where `key` is true."""
        places = np.flatnonzero(key) if key.dtype == bool else key.astype(np.int64)
        places = np.where(places < 0, places + len(self), places)
        if places.size and (places.min() < 0 or places.max() >= len(self)):
            raise IndexError(f"an index is out of bounds for {len(self):,} items")
        shards = np.searchsorted(self._starts, places, "right") - 1
        found = np.empty(places.shape, self.dtype)
        for shard in np.unique(shards):
            here = shards == shard
            found[here] = self.shards[shard][places[here] - self._starts[shard]]
        return found

    def __iter__(self) -> Iterator[Any]:
        for array in self.shards:
            yield from array

    def tolist(self) -> list[int]:
        """All items as Python's numbers."""
        return [item for array in self.shards for item in array.tolist()]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("several files are not one array without a copy")
        whole = np.concatenate(self.shards)
        return whole if dtype is None else whole.astype(dtype)

    def __repr__(self) -> str:
        return f"ShardedArray({len(self):,} of {self.dtype} in {len(self.shards)} shards)"


def as_one(arrays: Sequence[Array], dtype: str) -> Array | ShardedArray:
    """The mapped file itself if there is one, else a view over all."""
    if not arrays:
        return np.empty(0, item_type(dtype))
    return arrays[0] if len(arrays) == 1 else ShardedArray(arrays)
