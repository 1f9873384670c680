"""SplitView: the documents and tokens of one split, read from files that are mapped, not loaded."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from tokenmill.dataset.arrays import BLOCK_ITEMS, Array
from tokenmill.dataset.shards import ShardArrays, ShardedArray, as_one
from tokenmill.errors import ConfigError, FormatError

if TYPE_CHECKING:
    from tokenmill.dataset.origin import Origin
    from tokenmill.dataset.windows import TorchWindows, Windows


@dataclass(frozen=True)
class Pair:
    """One row of preference data: two completions of one prompt, the prompt included in both."""

    chosen: Array
    rejected: Array
    chosen_mask: Array
    rejected_mask: Array
    """1 on the completion, 0 on the prompt."""


class SplitView(Sequence[Array]):
    """A sequence of documents; `tokens` has them end to end.

    Nothing is read before it is asked for, and what is given out are views of the files.
    """

    def __init__(
        self, origin: "Origin", name: str, shards: Sequence[ShardArrays], dtype: str
    ) -> None:
        self.origin = origin
        self.name = name
        self.dtype = dtype
        self.shards = tuple(shards)
        self._documents_before = [0, *accumulate(shard.num_documents for shard in shards)]

    @property
    def num_tokens(self) -> int:
        return sum(shard.num_tokens for shard in self.shards)

    @property
    def num_documents(self) -> int:
        return self._documents_before[-1]

    @cached_property
    def tokens(self) -> Array | ShardedArray:
        """All ids: the mapped file if there is one shard, else a view over shards."""
        return as_one([shard.tokens for shard in self.shards], self.dtype)

    @cached_property
    def mask(self) -> Array | ShardedArray | None:
        """1 for each token that is trained on; None if all are."""
        masks = [shard.mask for shard in self.shards]
        known = [mask for mask in masks if mask is not None]
        return as_one(known, "uint8") if known and len(known) == len(masks) else None

    @cached_property
    def num_bytes(self) -> int | None:
        """Of raw text, all documents together; None if nobody counted."""
        total = 0
        for shard in self.shards:
            if shard.num_bytes is None:
                return self._stated_bytes()
            for start in range(0, shard.num_documents, BLOCK_ITEMS):
                total += int(shard.num_bytes[start : start + BLOCK_ITEMS].sum())
        return total

    def _stated_bytes(self) -> int | None:
        manifest = self.origin.manifest
        return None if manifest is None else manifest.splits[self.name].bytes

    def __len__(self) -> int:
        return self.num_documents

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self.document(i) for i in range(*index.indices(len(self)))]
        return self.document(index)

    def __iter__(self) -> Iterator[Array]:
        """The ids of each document in order."""
        for shard in self.shards:
            tokens, last = shard.tokens, 0
            for start in range(0, shard.num_documents, BLOCK_ITEMS):
                for end in shard.ends[start : start + BLOCK_ITEMS].tolist():
                    if not last <= end <= shard.num_tokens:
                        raise self._no_span(last, end)
                    yield tokens[last:end]
                    last = end

    def document(self, index: int) -> Array:
        """The ids of one document, eos and bos included, without a copy."""
        shard, start, end = self._span(index)
        return shard.tokens[start:end]

    def document_mask(self, index: int) -> Array | None:
        """1 for each token of a document that is trained on; None if all are."""
        shard, start, end = self._span(index)
        return None if shard.mask is None else shard.mask[start:end]

    def bytes_of(self, index: int) -> int | None:
        """Raw bytes of the text of one document; None if nobody counted."""
        shard, place = self._locate(index)
        return None if shard.num_bytes is None else int(shard.num_bytes[place])

    def _locate(self, index: int) -> tuple[ShardArrays, int]:
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(
                f"document {index:,} of split `{self.name}`: it has {len(self):,}, from 0 on"
            )
        shard = bisect_right(self._documents_before, place) - 1
        return self.shards[shard], place - self._documents_before[shard]

    def _span(self, index: int) -> tuple[ShardArrays, int, int]:
        shard, place = self._locate(index)
        start, end = int(shard.ends[place - 1]) if place else 0, int(shard.ends[place])
        # Sizes are right and the last end too, or it would not be open; the ends between may lie.
        if not 0 <= start <= end <= shard.num_tokens:
            raise self._no_span(start, end)
        return shard, start, end

    def _no_span(self, start: int, end: int) -> FormatError:
        return FormatError(
            f"split `{self.name}` of `{self.origin.path}` has a document from token {start:,} to "
            f"{end:,}, which cannot be",
            "`tokenmill verify` says what else is wrong",
        )

    @property
    def pairs(self) -> "Pairs":
        """Preference data two by two; ConfigError for other datasets."""
        return Pairs(self)

    def windows(self, length: int, stride: int | None = None) -> "Windows":
        """Runs of `length` tokens and the one that follows, one every `stride` (`length` if left
        out), as views of the file."""
        from tokenmill.dataset.windows import Windows

        return Windows(self, length, length if stride is None else stride)

    def as_torch(self, length: int, stride: int | None = None) -> "TorchWindows":
        """The same for `torch.utils.data.DataLoader`: (inputs, targets) as int64."""
        from tokenmill.dataset.windows import TorchWindows

        return TorchWindows(self.windows(length, stride))

    # Mapped arrays would be pickled by their contents; a path says as much.
    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.name, *self.origin.arguments)

    def __repr__(self) -> str:
        return (
            f"SplitView({self.name!r}, {self.num_documents:,} documents, "
            f"{self.num_tokens:,} tokens, {self.dtype})"
        )


def _reopen(name: str, path: str, dtype: str | None, tokenizer: Any) -> SplitView:
    """What unpickling calls."""
    from tokenmill.dataset.dataset import Dataset

    return Dataset.open(path, dtype=dtype, tokenizer=tokenizer)[name]


class Pairs(Sequence[Pair]):
    """Documents 2i and 2i + 1 of preference data as one row each."""

    def __init__(self, split: SplitView) -> None:
        if split.origin.mode != "preference":
            raise ConfigError(
                f"split `{split.name}` holds documents of mode `{split.origin.mode}`, "
                "pairs come with `preference`"
            )
        self.split = split

    def __len__(self) -> int:
        return self.split.num_documents // 2

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._pair(i) for i in range(*index.indices(len(self)))]
        return self._pair(index)

    def _pair(self, index: int) -> Pair:
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(
                f"pair {index:,} of split `{self.split.name}`: it has {len(self):,}, from 0 on"
            )
        masks = [self.split.document_mask(2 * place + side) for side in (0, 1)]
        assert masks[0] is not None
        assert masks[1] is not None
        chosen, rejected = self.split.document(2 * place), self.split.document(2 * place + 1)
        return Pair(chosen, rejected, masks[0], masks[1])
