"""TokenBatch: the ids of several texts, end to end in one array, and where each text's ids start.

`offsets` has one number more than there are texts, starts at 0, never falls and ends at the number
of ids; the ids of text `i` are `ids[offsets[i] : offsets[i + 1]]`. Nothing here copies ids unless
its docstring says so. numpy is imported by whoever made the arrays, never by this module.
"""

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, overload

from tokenmill.errors import VocabError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    IdArray = npt.NDArray[np.unsignedinteger[Any]]
    OffsetArray = npt.NDArray[np.int64]


# Equality is that of the values, which a dataclass would ask of arrays in the wrong way.
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TokenBatch:
    """What `Tokenizer.encode_batch` gives. Frozen; `len`, `[i]`, slices and iteration are by text.

    >>> import numpy as np
    >>> batch = TokenBatch(np.array([5, 6, 7], np.uint16), np.array([0, 1, 1, 3]))
    >>> len(batch), batch.num_tokens, batch.to_lists()
    (3, 3, [[5], [], [6, 7]])
    """

    ids: "IdArray"
    """uint16 while every id of the vocab fits, else uint32."""
    offsets: "OffsetArray"
    """int64, one more than there are texts."""

    def __post_init__(self) -> None:
        ids, offsets = self.ids, self.offsets
        if ids.ndim != 1 or offsets.ndim != 1 or ids.dtype.kind not in "ui":
            raise VocabError(
                f"a batch is ids and offsets in one dimension each, found ids of {ids.ndim} "
                f"({ids.dtype}) and offsets of {offsets.ndim}"
            )
        if not len(offsets) or offsets[0] != 0 or offsets[-1] != len(ids):
            shown = f"from {offsets[0]} to {offsets[-1]}" if len(offsets) else "none"
            raise VocabError(f"offsets run from 0 to the number of ids, {len(ids)}, found {shown}")
        if (offsets[1:] < offsets[:-1]).any():
            raise VocabError(
                "offsets fall: each is where a text's ids start and the last one's end"
            )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def num_tokens(self) -> int:
        """Ids of all texts together."""
        return len(self.ids)

    @property
    def lengths(self) -> "OffsetArray":
        """Number of ids of each text."""
        return self.offsets[1:] - self.offsets[:-1]

    @overload
    def __getitem__(self, index: int) -> "IdArray": ...
    @overload
    def __getitem__(self, index: slice) -> "TokenBatch": ...
    def __getitem__(self, index: int | slice) -> "IdArray | TokenBatch":
        """The ids of one text, a view; for a slice a batch of those texts, a view too if its step
        is 1."""
        if isinstance(index, slice):
            return self._slice(index)
        position = operator.index(index)
        if not -len(self) <= position < len(self):
            raise IndexError(f"text {position} of a batch of {len(self)}")
        position %= len(self)
        return self.ids[self.offsets[position] : self.offsets[position + 1]]

    def _slice(self, index: slice) -> "TokenBatch":
        texts = range(len(self))[index]
        if texts.step == 1:
            offsets = self.offsets[texts.start : max(texts.start, texts.stop) + 1]
            return TokenBatch(self.ids[offsets[0] : offsets[-1]], offsets - offsets[0])
        import numpy as np

        ids = np.concatenate([self.ids[:0], *(self[text] for text in texts)])
        return TokenBatch(ids, np.cumsum([0, *self.lengths[index]], dtype=np.int64))

    def __iter__(self) -> "Iterator[IdArray]":
        """The ids of text after text, each a view."""
        ids = self.ids
        for start, end in pairwise(self.offsets.tolist()):
            yield ids[start:end]

    def to_lists(self) -> list[list[int]]:
        """The ids of each text as a list, a copy."""
        ids: list[int] = self.ids.tolist()
        return [ids[start:end] for start, end in pairwise(self.offsets.tolist())]

    def to_arrow(self) -> Any:
        """A pyarrow LargeListArray over the same memory, a list of ids for each text."""
        from tokenmill.tokenizer.text_columns import list_array

        return list_array(self)

    def __eq__(self, other: object) -> bool:
        """Equal when both hold the same ids for the same texts, in whatever integer type."""
        if not isinstance(other, TokenBatch):
            return NotImplemented
        return (
            self.ids.shape == other.ids.shape
            and self.offsets.shape == other.offsets.shape
            and bool((self.offsets == other.offsets).all())
            and bool((self.ids == other.ids).all())
        )

    # Arrays have no hash, and neither has what holds them.
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return f"TokenBatch({len(self)} texts, {self.num_tokens} tokens, {self.ids.dtype})"
