# pyright: basic
"""Batches: step in, tensors out, with no state in between.

Row g of a run (g = step · batch size + place in the batch) is row g mod n of epoch g div n, in the order that the epoch's
permutation gives. So a run goes on at any step, and on any number of ranks, with the same rows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tokenmill.dataset.windows import NOT_TRAINED
from tokenmill.lm.packing import Plan, Waste
from tokenmill.lm.permutation import permute


@dataclass
class Batch:
    """Some rows of one step."""

    ids_BT: Tensor
    targets_BT: Tensor
    """The next id at each place, NOT_TRAINED where nothing is to be learned."""
    segments_BT: Tensor | None
    """Numbers of documents, where rows hold several and must not look into each other."""
    num_targets: int

    def to(self, device: torch.device) -> "Batch":
        def move(tensor: Tensor) -> Tensor:
            return tensor.to(device, non_blocking=True)

        segments = None if self.segments_BT is None else move(self.segments_BT)
        return Batch(move(self.ids_BT), move(self.targets_BT), segments, self.num_targets)

    def shared_by(self, number: int) -> "list[Batch]":
        """Its rows in order, in `number` parts or, if there are not as many rows, fewer."""
        parts = [self.ids_BT.chunk(number), self.targets_BT.chunk(number)]
        segments = [None] * number if self.segments_BT is None else self.segments_BT.chunk(number)
        return [
            Batch(ids, targets, segment, int((targets != NOT_TRAINED).sum()))
            for ids, targets, segment in zip(*parts, segments, strict=False)
        ]


class Rows:
    """What steps take their rows from, by number."""

    @property
    def waste(self) -> Waste:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def load(self, rows: Sequence[int]) -> Batch:
        """The tensors of these rows."""
        raise NotImplementedError

    def num_tokens(self, rows: Sequence[int]) -> int:
        """Places of these rows that hold a token that something follows from: what is not padding."""
        raise NotImplementedError

    @property
    def positions_per_row(self) -> float:
        """Places that are computed for a row, on average, padding included."""
        raise NotImplementedError

    def rows_of(self, step: int, batch_size: int, seed: int) -> "np.ndarray":
        """The numbers of the rows that `step` takes."""
        size = len(self)
        places = np.arange(step * batch_size, (step + 1) * batch_size, dtype=np.int64)
        epochs = places // size
        rows = np.empty_like(places)
        for epoch in np.unique(epochs):
            ours = epochs == epoch
            rows[ours] = permute(places[ours] % size, size, seed, int(epoch))
        return rows

    def first(self, most: int) -> Iterator[int]:
        """Rows spread evenly, at most `most`: what a validation loss is taken from."""
        size = len(self)
        count = min(size, most)
        return (index * size // count for index in range(count))


@dataclass(frozen=True)
class Batches(Rows):
    """The rows of a plan over a stream of tokens."""

    tokens: Any
    """A memory map, or something that is sliced like one."""
    plan: Plan
    mask: Any | None = None
    """1 for each token that is trained on."""
    document_mask: bool = False
    """Whether documents in one row are kept from looking at each other."""

    @property
    def waste(self) -> Waste:
        return self.plan.waste

    def __len__(self) -> int:
        return len(self.plan)

    @property
    def positions_per_row(self) -> float:
        return self.plan.width - 1

    def num_tokens(self, rows: Sequence[int]) -> int:
        most = self.plan.width - 1
        return sum(min(most, sum(size for _, size in self.plan.pieces(row))) for row in rows)

    def load(self, rows: Sequence[int]) -> Batch:
        length = self.plan.width - 1
        ids = np.zeros((len(rows), length), dtype=np.int64)
        targets = np.full((len(rows), length), NOT_TRAINED, dtype=np.int64)
        segments = np.zeros((len(rows), length), dtype=np.int64) if self.document_mask else None
        for place, row in enumerate(rows):
            at = 0
            for number, (start, size) in enumerate(self.plan.pieces(int(row))):
                at = self._place(ids[place], targets[place], at, start, size)
                if segments is not None:
                    segments[place, at - size : at] = number
        return Batch(
            torch.from_numpy(ids),
            torch.from_numpy(targets),
            None if segments is None else torch.from_numpy(segments),
            int((targets != NOT_TRAINED).sum()),
        )

    def _place(self, ids: Any, targets: Any, at: int, start: int, size: int) -> int:
        """Put a piece behind the `at` places that are taken; how many are then."""
        piece = np.asarray(self.tokens[start : start + size])
        inputs = min(size, len(ids) - at)  # the very last token of a full row is a target only
        ids[at : at + inputs] = piece[:inputs]
        wanted = piece[1:].astype(np.int64)
        if self.mask is not None:
            wanted[np.asarray(self.mask[start + 1 : start + size]) == 0] = NOT_TRAINED
        targets[at : at + len(wanted)] = wanted
        return at + size
