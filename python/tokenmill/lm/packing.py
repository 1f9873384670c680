# pyright: basic
"""Packing plans: tokens and document ends in, rows of equal length out.

`wrapped` cuts the stream of tokens into rows, across document ends: no token is lost but a rest shorter than a row. `best-fit`
puts whole documents into rows, each where the least room is left over, longest first; documents longer than a row are cut
into rows first. What no document fills is padding, and is not trained on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmill.errors import ConfigError


@dataclass(frozen=True)
class Waste:
    """What a plan leaves unused."""

    rows: int
    tokens: int
    """In rows."""
    padding: int
    """Places in rows without a token."""
    dropped: int
    """Tokens in no row."""
    cut_documents: int
    """Documents in more than one row."""

    def __str__(self) -> str:
        places = self.tokens + self.padding
        return (
            f"{self.rows:,} rows, {self.padding / places if places else 0:.1%} padding, "
            f"{self.dropped:,} tokens left over, {self.cut_documents:,} documents cut"
        )


class Plan:
    """Rows of up to `width` tokens; row i is the pieces (start, length) that `pieces(i)` gives."""

    width: int
    waste: Waste

    def __len__(self) -> int:
        raise NotImplementedError

    def pieces(self, row: int) -> Sequence[tuple[int, int]]:
        raise NotImplementedError


class WrappedPlan(Plan):
    """Row i starts at token i · (width − 1): the last token of a row is the first of the next, because the last one of a row
    is a target only."""

    def __init__(self, num_tokens: int, width: int) -> None:
        self.width, self.stride = width, width - 1
        rows = max(0, (num_tokens - 1) // self.stride)
        self._rows = rows
        used = rows * self.stride + 1 if rows else 0
        self.waste = Waste(rows, used, 0, num_tokens - used, 0)

    def __len__(self) -> int:
        return self._rows

    def pieces(self, row: int) -> Sequence[tuple[int, int]]:
        return ((row * self.stride, self.width),)


class BestFitPlan(Plan):
    """Pieces of at most `width` tokens, whole; what was `dropped` and `cut` before is told again."""

    def __init__(
        self, starts: Any, lengths: Any, width: int, *, dropped: int = 0, cut: int = 0
    ) -> None:
        self.width = width
        row_of = best_fit(lengths, width)
        rows = int(row_of.max()) + 1 if len(row_of) else 0
        # Longest first within a row, as they were placed; then in the order of the text.
        self.order = np.lexsort((starts, row_of))
        """Which piece comes first, second, …, through all rows."""
        self._starts, self._lengths = starts[self.order], lengths[self.order]
        self._first = np.searchsorted(row_of[self.order], np.arange(rows + 1))
        tokens = int(lengths.sum())
        self.waste = Waste(rows, tokens, rows * width - tokens, dropped, cut)

    @staticmethod
    def of_documents(ends: Any, width: int) -> "BestFitPlan":
        """Documents that end at `ends`; those longer than a row are cut."""
        starts, lengths = spans_of(ends)
        starts, lengths, cut = _cut_long(starts, lengths, width)
        # A piece of one token teaches nothing: there is no token before it to predict it from.
        worth = lengths > 1
        dropped = int(lengths[~worth].sum())
        return BestFitPlan(starts[worth], lengths[worth], width, dropped=dropped, cut=cut)

    def __len__(self) -> int:
        return len(self._first) - 1

    @property
    def first_pieces(self) -> Any:
        """The number, in `order`, of each row's first piece."""
        return self._first[:-1]

    def pieces(self, row: int) -> Sequence[tuple[int, int]]:
        some = slice(self._first[row], self._first[row + 1])
        return list(zip(self._starts[some].tolist(), self._lengths[some].tolist(), strict=True))


def spans_of(ends: Any) -> tuple[Any, Any]:
    """Where documents that end at `ends` start, and how long they are."""
    ends = np.asarray(ends, dtype=np.int64)
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1])) if len(ends) else ends
    return starts, ends - starts


def _cut_long(starts: Any, lengths: Any, width: int) -> tuple[Any, Any, int]:
    """Documents as pieces of at most `width`: all but the last of each are full."""
    counts = np.maximum(1, -(-lengths // width))
    document = np.repeat(np.arange(len(lengths)), counts)
    number = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)
    piece_starts = starts[document] + number * width
    piece_lengths = np.minimum(lengths[document] - number * width, width)
    return piece_starts, piece_lengths, int((counts > 1).sum())


def best_fit(lengths: Any, width: int) -> Any:
    """The bin of each piece, numbered from 0 on: pieces in falling order of length (equal ones as they come), each into the bin with
    the least room that holds it, of several such the one that came to that room first; a new bin where none does."""
    lengths = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-lengths, kind="stable")
    bins = np.zeros(len(lengths), dtype=np.int64)
    # Bins by the room they have left, oldest first, and one bit for each room that some bin has.
    by_room: list[list[int]] = [[] for _ in range(width + 1)]
    heads = [0] * (width + 1)
    rooms = 0
    count = 0
    for index, length in zip(order.tolist(), lengths[order].tolist(), strict=True):
        fitting = rooms >> length
        if fitting:
            room = length + (fitting & -fitting).bit_length() - 1
            place = by_room[room][heads[room]]
            heads[room] += 1
            if heads[room] == len(by_room[room]):
                by_room[room], heads[room] = [], 0
                rooms &= ~(1 << room)
        else:
            room, place = width, count
            count += 1
        bins[index] = place
        left = room - length
        if left:
            by_room[left].append(place)
            rooms |= 1 << left
    return bins


def narrowest(lengths: Any, width: int) -> int:
    """A width, `width` at most, at which best fit takes no more bins than at `width`, found by halving: so few documents that rows
    need not be as wide as the context leave less padding in narrower ones."""

    def num_bins(at: int) -> int:
        return int(best_fit(lengths, at).max()) + 1

    bins = num_bins(width)
    low, high = max(int(lengths.max()), -(-int(lengths.sum()) // bins)), width
    while low < high:
        middle = (low + high) // 2
        if num_bins(middle) <= bins:
            high = middle
        else:
            low = middle + 1
    return high


def make_plan(kind: str, num_tokens: int, ends: Any | None, width: int, name: str) -> Plan:
    """The plan `kind` for tokens with document `ends`. ConfigError if there is not one row."""
    if kind == "best-fit":
        if ends is None:
            raise ConfigError(
                f"`{name}` does not say where documents end, which best-fit packing needs",
                "pass `--packing wrapped`",
            )
        plan: Plan = BestFitPlan.of_documents(ends, width)
    else:
        plan = WrappedPlan(num_tokens, width)
    if not len(plan):
        raise ConfigError(
            f"`{name}` has {num_tokens:,} token{'' if num_tokens == 1 else 's'}, and a row takes {width:,} "
            f"(context {width - 1:,} and one to predict)",
            "encode more text, or pass a smaller `--context`",
        )
    return plan
