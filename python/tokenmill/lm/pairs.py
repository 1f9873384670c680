# pyright: basic
"""Pairs of answers as batches: row i of training is pair i, and its two documents are packed with those of the others.

Documents in one row do not look at each other, so that a pair's numbers do not depend on where it was put.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tokenmill.dataset.windows import NOT_TRAINED
from tokenmill.errors import ConfigError
from tokenmill.lm.batches import Batch, Batches, Rows
from tokenmill.lm.fitting import Fitting
from tokenmill.lm.packing import BestFitPlan, Waste, narrowest
from tokenmill.lm.token_data import TokenData


@dataclass
class PairBatch(Batch):
    """Some pairs. Documents 2i and 2i + 1 are the chosen and the rejected one of pair i."""

    source: "PairRows"
    pairs: Sequence[int]
    documents_BT: Tensor
    """The number of the document at each place, from 0 on in this batch."""
    reference_P2: Tensor | None
    """Log probabilities by the reference."""
    num_answer_tokens: tuple[int, int]
    """Of all chosen answers, and of all rejected ones."""

    def to(self, device: torch.device) -> "PairBatch":
        moved = Batch.to(self, device)
        return PairBatch(
            moved.ids_BT,
            moved.targets_BT,
            moved.segments_BT,
            self.num_targets,
            self.source,
            self.pairs,
            self.documents_BT.to(device),
            None if self.reference_P2 is None else self.reference_P2.to(device),
            self.num_answer_tokens,
        )

    def shared_by(self, number: int) -> "list[Batch]":
        """Its pairs in order, cut where parts have about as many tokens: whoever has more keeps the others waiting."""
        ends = np.cumsum(self.source.tokens_of(self.pairs))
        wanted = ends[-1] * np.arange(1, number) / number
        cuts = {int(np.abs(ends - each).argmin()) + 1 for each in wanted} - {len(self.pairs)}
        bounds = [0, *sorted(cuts), len(self.pairs)]
        return [self.source.load(self.pairs[start:end]) for start, end in pairwise(bounds)]


class PairRows(Rows):
    """The pairs of a dataset of which both documents are kept. ConfigError if there is none."""

    def __init__(self, data: TokenData, fitting: Fitting, width: int) -> None:
        self.data, self.width = data, width
        self.starts, self.lengths = fitting.starts, fitting.lengths
        both = fitting.is_kept.reshape(-1, 2).all(axis=1)
        self.pairs = np.flatnonzero(both)
        if not len(self.pairs):
            raise ConfigError(
                f"no pair of `{data.name}` is left: of {len(both):,} each has an answer that cannot be used; "
                f"{fitting.too_long:,} documents are longer than the context of {width - 1:,}, {fitting.untrained:,} have no "
                "token that is trained on",
                "pass a longer `--context`, or another `--too-long`",
            )
        self.dropped = int(len(both) - len(self.pairs))
        self._left_out = {"too_long": fitting.too_long, "no_trained_tokens": fitting.untrained}
        self._trained = fitting.num_trained
        self.reference: Any | None = None
        """(pairs, 2) log probabilities, when they are known."""

    def __len__(self) -> int:
        return len(self.pairs)

    @cached_property
    def waste(self) -> Waste:
        """Of all pairs packed at once; batches are packed one by one, and waste a little more."""
        documents = self._documents(range(len(self)))
        lengths = self.lengths[documents]
        plan = BestFitPlan(self.starts[documents], lengths, self.width)
        unused = self.data.num_tokens - int(lengths.sum())
        return Waste(len(plan), plan.waste.tokens, plan.waste.padding, unused, 0)

    def as_json(self) -> dict[str, int]:
        """How many pairs there are, and what keeps others away."""
        return {"pairs": len(self), "dropped_pairs": self.dropped, **self._left_out}

    @cached_property
    def mean_answer_tokens(self) -> tuple[float, float]:
        """Of chosen and of rejected answers."""
        counts = self._trained[self._documents(range(len(self)))].reshape(-1, 2).mean(axis=0)
        return float(counts[0]), float(counts[1])

    @property
    def positions_per_row(self) -> float:
        waste = self.waste
        return (waste.tokens + waste.padding) / max(1, len(self))

    def _documents(self, rows: Sequence[int]) -> Any:
        pairs = self.pairs[np.asarray(rows, dtype=np.int64)]
        return np.stack((2 * pairs, 2 * pairs + 1), axis=1).ravel()

    def tokens_of(self, rows: Sequence[int]) -> Any:
        """Of each of these pairs, both documents together."""
        return (self.lengths[self._documents(rows)] - 1).reshape(-1, 2).sum(axis=1)

    def num_tokens(self, rows: Sequence[int]) -> int:
        return int(self.tokens_of(rows).sum())

    def load(self, rows: Sequence[int]) -> PairBatch:
        documents = self._documents(rows)
        lengths = self.lengths[documents]
        plan = BestFitPlan(self.starts[documents], lengths, narrowest(lengths, self.width))
        packed = Batches(self.data.tokens, plan, self.data.mask, document_mask=True)
        batch = packed.load(range(len(plan)))
        assert batch.segments_BT is not None
        longest = max(sum(size for _, size in plan.pieces(row)) for row in range(len(plan)))
        used = slice(0, min(longest, plan.width - 1))
        ids, targets = batch.ids_BT[:, used], batch.targets_BT[:, used]
        segments = batch.segments_BT[:, used]
        # Pieces are numbered within rows; which document each is, the plan knows.
        first = torch.from_numpy(plan.first_pieces).unsqueeze(1)
        numbers = torch.from_numpy(plan.order)[first + segments]
        reference = None
        if self.reference is not None:
            reference = torch.from_numpy(self.reference[np.asarray(rows, dtype=np.int64)])
        of_chosen = (numbers % 2 == 0) & (targets != NOT_TRAINED)
        num_trained, num_chosen = int((targets != NOT_TRAINED).sum()), int(of_chosen.sum())
        return PairBatch(
            ids,
            targets,
            segments,
            num_trained,
            self,
            list(rows),
            numbers,
            reference,
            (num_chosen, num_trained - num_chosen),
        )


def answer_tokens(batch: PairBatch) -> tuple[Tensor, Tensor, Tensor]:
    """Of all places with a target: where they are (B, T), the targets, and the documents they are of."""
    is_trained = batch.targets_BT != NOT_TRAINED
    return is_trained, batch.targets_BT[is_trained], batch.documents_BT[is_trained]
