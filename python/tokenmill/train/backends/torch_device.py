# pyright: basic
"""Merges learned by tensor operations on one device: counts in, what the engine learns out.

All distinct pretokens lie behind each other in one tensor of cells, a cell for each byte and one between two pretokens. A token of n bytes
has n cells and writes its id into the first and the last of them, so its neighbours are found without links. A slot stands for a pair: its
count, its ids, and where it occurs, a stretch of one long list of cells. The cell a token starts in knows the slot of the token and its right neighbour;
an entry of the list is out of date when that cell names another slot.

A merge touches the cells of its list and nothing else: no shape depends on what is found in them (what does not count is sent to a cell
or a slot that nobody reads), so the device is asked one thing for each merge, which pair is next. Counts are int64; the most frequent pair is found by
comparing keys that are all different, never by which of two equal ones an operation happens to return.
"""

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tokenmill import _core
from tokenmill.errors import ConfigError
from tokenmill.reference import HUGGINGFACE_ORDER
from tokenmill.train.backends.backend import LearnedMerges, Progress
from tokenmill.train.settings import NUM_BYTES, TrainSettings

NOTHING = -1
"""What the cell between two pretokens holds."""
NO_SLOT = 0
"""Of the last token of a pretoken, and of whatever does not count; nobody reads its count."""
BLOCK = 128
"""Slots of which the best is known, so that not all have to be looked at."""
LAST = 2**62
LABELS = 2**31 - 1
TOP_PAIRS = 20


def learn_merges(
    counts: _core.Counts,
    settings: TrainSettings,
    threads: int,
    progress: Progress | None,
    device: str = "cpu",
) -> LearnedMerges:
    """Learn the same merges as the engine, on `device`."""
    if device == "cpu":
        torch.set_num_threads(threads)
    return _Training(counts, settings, torch.device(device)).run(progress)


@dataclass
class _Best:
    """What the device says before each merge."""

    count: int
    left: int
    right: int
    slot: int
    start: int
    length: int
    num_slots: int
    num_listed: int


class _Labels:
    """For each token a number, smaller for the one to be taken first among pairs of equal count."""

    def __init__(self, ties: str, tokens: list[bytes], size: int, device: torch.device) -> None:
        self._by_bytes = ties == "greatest-bytes"
        self._sorted: list[bytes] = []
        self._labels: dict[bytes, int] = {}
        order = np.arange(size, dtype=np.int64)
        if ties == "huggingface":
            order[HUGGINGFACE_ORDER] = np.arange(NUM_BYTES)
        self.order = torch.from_numpy(order).to(device)
        self._ids = {token: number for number, token in enumerate(tokens)}
        if self._by_bytes:
            self._sorted = sorted(tokens)
            self._spread()

    def add(self, token: bytes, number: int) -> bool:
        """A new token; whether all labels are others now."""
        self._ids[token] = number
        if not self._by_bytes:
            return False
        at = bisect_left(self._sorted, token)
        self._sorted.insert(at, token)
        above = self._labels[self._sorted[at - 1]] if at else LABELS
        below = self._labels[self._sorted[at + 1]] if at + 1 < len(self._sorted) else 0
        label = (above + below) // 2
        if label in (above, below):
            self._spread()
            return True
        self._labels[token] = label
        self.order[number] = label
        return False

    def _spread(self) -> None:
        gap = LABELS // (len(self._sorted) + 1)
        self._labels = {token: LABELS - gap * (at + 1) for at, token in enumerate(self._sorted)}
        for_ids = torch.zeros(len(self.order), dtype=torch.int64)
        numbers = torch.tensor([self._ids[token] for token in self._sorted])
        for_ids[numbers] = torch.tensor([self._labels[token] for token in self._sorted])
        self.order.copy_(for_ids)


class _Training:
    """Cells, slots and lists on a device, and the tokens here."""

    # Of each slot.
    left: Tensor
    right: Tensor
    count: Tensor
    list_start: Tensor
    list_length: Tensor
    # Of each block of slots: the highest count, and the smallest key of those that have it.
    block_count: Tensor
    block_first: Tensor

    def __init__(self, counts: _core.Counts, settings: TrainSettings, device: torch.device) -> None:
        self.settings, self.device = settings, device
        self.tokens = [bytes([byte]) for byte in range(NUM_BYTES)]
        self.size = settings.num_tokens
        self.longest = settings.max_token_bytes or 2**31
        self._place_cells(counts)
        self.labels = _Labels(settings.ties, self.tokens, self.size, device)
        self._make_slots()

    def _tensor(self, values: np.ndarray) -> Tensor:
        return torch.from_numpy(values).to(self.device)

    def _place_cells(self, counts: _core.Counts) -> None:
        offsets, data, numbers = counts.buffers()
        ends = np.frombuffer(offsets, dtype=np.int64)
        lengths = np.diff(ends)
        weights = np.frombuffer(numbers, dtype=np.uint64)
        if counts.total_bytes >= LAST:  # no sum of counts is larger
            raise ConfigError(
                f"the counted text has {counts.total_bytes:,} bytes, and devices add up to {LAST:,}",
                "the engine counts further: leave the device out",
            )
        weights = weights.astype(np.int64)
        self.training_tokens = int((lengths * weights).sum())
        # One cell before the first, and one behind each.
        starts = 1 + np.concatenate(([0], np.cumsum(lengths + 1)))
        cells = np.full(starts[-1] + 1, NOTHING, dtype=np.int32)
        places = np.repeat(starts[:-1] - ends[:-1], lengths) + np.arange(ends[-1])
        cells[places] = np.frombuffer(data, dtype=np.uint8)
        words = np.zeros(len(cells), dtype=np.int32)
        words[places] = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        self.nowhere = len(cells) - 1
        """The last cell: nobody reads it."""
        self.ids = self._tensor(cells)
        self.words = self._tensor(words)
        self.weights = self._tensor(weights)
        self.slot_at = torch.zeros(len(cells), dtype=torch.int64, device=self.device)
        self.marks = torch.zeros(len(cells), dtype=torch.int8, device=self.device)
        self.lengths = torch.ones(self.size, dtype=torch.int64, device=self.device)
        self.merged = torch.zeros((), dtype=torch.int64, device=self.device)

    def _make_slots(self) -> None:
        """All pairs of bytes."""
        left, right = self.ids[:-1].long(), self.ids[1:].long()
        (where,) = ((left >= 0) & (right >= 0)).nonzero(as_tuple=True)
        keys, order = torch.sort(left[where] * self.size + right[where], stable=True)
        where = where[order]
        pairs, slots, sizes = torch.unique_consecutive(
            keys, return_inverse=True, return_counts=True
        )
        self.num_pairs = len(pairs)
        slots = slots + 1
        capacity = 2 * len(pairs) + 4 * BLOCK
        self._fields(capacity)
        self.left[1 : len(pairs) + 1] = pairs // self.size
        self.right[1 : len(pairs) + 1] = pairs % self.size
        self.count.index_add_(0, slots, self.weights[self.words[where].long()])
        self.list_length[1 : len(pairs) + 1] = sizes
        self.list_start[1 : len(pairs) + 1] = torch.cumsum(sizes, 0) - sizes
        self.listed = torch.cat((where, where.new_zeros(len(where) + 1024)))
        self.slot_at[where] = slots
        self.num_slots = torch.tensor(len(pairs) + 1, device=self.device)
        self.num_listed = torch.tensor(len(where), device=self.device)
        totals = self.count[1 : len(pairs) + 1].tolist()
        found = zip(
            (pairs // self.size).tolist(), (pairs % self.size).tolist(), totals, strict=True
        )
        self.top_pairs = sorted(found, key=lambda pair: (-pair[2], pair[0], pair[1]))[:TOP_PAIRS]
        if self.longest < 2:
            self.count.zero_()
        self._renew_all(len(pairs) + 1)

    def _fields(self, capacity: int) -> None:
        """Room for `capacity` slots, whole blocks of them; what there is stays."""
        blocks = -(-capacity // BLOCK)
        for name in ("left", "right", "count", "list_start", "list_length"):
            self._widen(name, blocks * BLOCK, 0)
        self._widen("block_count", blocks, NOTHING)
        self._widen("block_first", blocks, LAST)

    def _widen(self, name: str, size: int, fill: int) -> None:
        made = torch.full((size,), fill, dtype=torch.int64, device=self.device)
        there = getattr(self, name, made[:0])
        made[: len(there)] = there
        setattr(self, name, made)

    # Which pair is next

    def _keys(self, slots: Tensor) -> Tensor:
        """All different; the smallest is taken first."""
        order = self.labels.order
        return order[self.left[slots]] * (LABELS + 1) + order[self.right[slots]]

    def _renew(self, blocks: Tensor) -> None:
        """Find the best of each of `blocks`, which may name one several times."""
        inside = blocks.unsqueeze(1) * BLOCK + torch.arange(BLOCK, device=self.device)
        counts = self.count[inside]
        most = counts.amax(1)
        keys = torch.where(counts == most.unsqueeze(1), self._keys(inside), LAST)
        self.block_count[blocks] = most
        self.block_first[blocks] = keys.amin(1)

    def _renew_all(self, num_slots: int) -> None:
        self.count[NO_SLOT] = NOTHING
        self._renew(torch.arange(-(-num_slots // BLOCK), device=self.device))

    def _best(self) -> _Best:
        """The one thing that the device is asked for each merge."""
        most = self.block_count.amax()
        first = torch.where(self.block_count == most, self.block_first, LAST).amin()
        is_it = (self.block_count == most) & (self.block_first == first)
        block = is_it.to(torch.int8).argmax()
        inside = block * BLOCK + torch.arange(BLOCK, device=self.device)
        is_it = (self.count[inside] == most) & (self._keys(inside) == first)
        slot = torch.take(inside, is_it.to(torch.int8).argmax())
        fields = (self.left, self.right, self.list_start, self.list_length)
        left, right, start, length = (torch.take(each, slot) for each in fields)
        told = (most, left, right, slot, start, length, self.num_slots, self.num_listed)
        return _Best(*torch.stack(told).tolist())

    # Merging

    def run(self, progress: Progress | None) -> LearnedMerges:
        merges: list[tuple[int, int, int]] = []
        counts: list[int] = []
        stopped = "full"
        while len(self.tokens) < self.size:
            best = self._best()
            if best.count < max(1, self.settings.min_count):
                stopped = "min count" if self.settings.min_count > 1 else "no pairs"
                break
            # From single bytes, no two merges spell the same (tests/property/test_trainer_shared_ids.py).
            number, token = len(self.tokens), self.tokens[best.left] + self.tokens[best.right]
            self.tokens.append(token)
            self.lengths[number] = len(token)
            all_changed = self.labels.add(token, number)
            merges.append((best.left, best.right, number))
            counts.append(best.count)
            self._merge(best, number)
            if all_changed:
                self._renew_all(best.num_slots + 2 * best.length)
            if progress is not None and len(merges) % 256 == 0:
                progress(len(merges), best.count)
        return LearnedMerges(
            tokens=self.tokens,
            merges=merges,
            counts=counts,
            stopped=stopped,
            training_tokens=self.training_tokens - int(self.merged),
            num_pairs=self.num_pairs,
            top_pairs=self.top_pairs,
            first_shared=None,
        )

    def _merge(self, best: _Best, number: int) -> None:
        self._make_room(best)
        at = self.listed[best.start : best.start + best.length]
        taken = self.slot_at[at] == best.slot
        if best.left == best.right:
            taken = self._every_other(at, taken, best)
        left_size, right_size = len(self.tokens[best.left]), len(self.tokens[best.right])
        second = at + left_size
        behind = second + right_size
        before_id, behind_id = self.ids[at - 1].long(), self.ids[behind].long()
        before = (at - self.lengths[before_id.clamp(min=0)]).clamp(min=0)
        has_before, has_behind = taken & (before_id >= 0), taken & (behind_id >= 0)

        # Whether the neighbour is merged in the same way just now.
        at_or_not, second_or_not = self._or_nowhere(taken, at), self._or_nowhere(taken, second)
        self.marks[at_or_not], self.marks[second_or_not] = 2, 1
        before_too = has_before & (self.marks[before] == 1)
        behind_too = has_behind & (self.marks[behind] == 2)
        self.marks[at_or_not] = 0
        self.marks[second_or_not] = 0
        has_before = has_before & ~before_too

        weights = torch.where(taken, self.weights[self.words[at].long()], 0)
        self.merged += weights.sum()
        gone = torch.cat(
            (
                self._or_no_slot(taken, self.slot_at[at]),
                self._or_no_slot(taken, self.slot_at[second]),
                self._or_no_slot(has_before, self.slot_at[before]),
            )
        )
        self.count.index_add_(0, gone, -weights.repeat(3))

        self.ids[at_or_not] = number
        self.ids[self._or_nowhere(taken, behind - 1)] = number
        for cells in (at_or_not, second_or_not, self._or_nowhere(has_before, before)):
            self.slot_at[cells] = NO_SLOT
        behind_id = torch.where(behind_too, number, behind_id)
        size = left_size + right_size
        has_before = has_before & (self.lengths[before_id.clamp(min=0)] + size <= self.longest)
        has_behind = has_behind & (self.lengths[behind_id.clamp(min=0)] + size <= self.longest)
        born = self._add_pairs(
            torch.cat(
                (
                    torch.where(has_before, before_id * self.size + number, LAST),
                    torch.where(has_behind, number * self.size + behind_id, LAST),
                )
            ),
            torch.cat((before, at)),
            weights.repeat(2),
        )
        self.count[NO_SLOT] = NOTHING
        self._renew_touched(torch.cat((gone, born)), best.num_slots + 2 * best.length)

    def _or_nowhere(self, is_meant: Tensor, cells: Tensor) -> Tensor:
        return torch.where(is_meant, cells, self.nowhere)

    def _or_no_slot(self, is_meant: Tensor, slots: Tensor) -> Tensor:
        return torch.where(is_meant, slots, NO_SLOT)

    def _every_other(self, at: Tensor, is_there: Tensor, best: _Best) -> Tensor:
        """Of a run like `aaaa` the first and the third: leftmost first, and each token once. Cells of a list go up."""
        size = len(self.tokens[best.left])
        follows = torch.zeros_like(is_there)
        follows[1:] = is_there[1:] & is_there[:-1] & (at[1:] - at[:-1] == size)
        numbers = torch.arange(len(at), device=self.device)
        first = torch.where(follows, 0, numbers).cummax(0).values
        return is_there & ((numbers - first) % 2 == 0)

    def _add_pairs(self, keys: Tensor, cells: Tensor, weights: Tensor) -> Tensor:
        """Slots for pairs that are there now; the slot of each."""
        keys, order = torch.sort(keys, stable=True)
        cells, weights = cells[order], weights[order]
        is_meant = keys < LAST
        is_first = is_meant.clone()
        is_first[1:] &= keys[1:] != keys[:-1]
        numbers = torch.arange(len(keys), device=self.device)
        slots = self._or_no_slot(is_meant, self.num_slots + torch.cumsum(is_first, 0) - 1)
        firsts = self._or_no_slot(is_first, slots)
        self.left[firsts] = torch.where(is_first, keys // self.size, 0)
        self.right[firsts] = torch.where(is_first, keys % self.size, 0)
        self.list_start[firsts] = self.num_listed + numbers
        self.list_length.index_add_(0, slots, is_meant.long())
        self.count.index_add_(0, slots, torch.where(is_meant, weights, 0))
        self.listed[self.num_listed + numbers] = cells
        self.slot_at[self._or_nowhere(is_meant, cells)] = slots
        self.num_slots = self.num_slots + is_first.sum()
        self.num_listed = self.num_listed + is_meant.sum()
        return slots

    def _renew_touched(self, slots: Tensor, most_slots: int) -> None:
        if len(slots) * BLOCK > most_slots:
            self._renew(torch.arange(-(-most_slots // BLOCK), device=self.device))
        else:
            self._renew(slots // BLOCK)

    def _make_room(self, best: _Best) -> None:
        """For as many pairs as a merge may bring."""
        slots, listed = (there + 2 * best.length for there in (best.num_slots, best.num_listed))
        if slots + BLOCK > len(self.count):
            self._fields(2 * (slots + BLOCK))
        if listed > len(self.listed):
            self.listed = torch.cat((self.listed, self.listed.new_zeros(listed)))
