# pyright: basic
"""Which documents of a dataset of conversations a model of some context can learn from: documents in, pieces that fit a row out.

A document that is too long is dropped, cut at one end or refused, as the policy has it; one without a token to be trained on teaches
nothing. Both are counted, and nothing else is left out.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmill.errors import ConfigError
from tokenmill.lm.packing import spans_of
from tokenmill.lm.token_data import TokenData


@dataclass(frozen=True)
class Fitting:
    """Documents as pieces of at most a row, one for each, in order."""

    starts: Any
    lengths: Any
    num_trained: Any
    """Targets in each."""
    is_kept: Any
    """Whether a document is to be used."""
    too_long: int
    """Documents longer than a row, whatever became of them."""
    untrained: int
    """Documents without a token to be trained on, what cutting left included."""

    def as_json(self) -> dict[str, int]:
        return {
            "documents": int(self.is_kept.sum()),
            "too_long": self.too_long,
            "no_trained_tokens": self.untrained,
        }


def fit_documents(data: TokenData, width: int, policy: str) -> Fitting:
    """The documents of `data` for rows of `width` tokens, one of them a target only. ConfigError if none is left."""
    starts, lengths = spans_of(data.ends)
    is_long = lengths > width
    if policy == "error" and is_long.any():
        first = int(np.argmax(is_long))
        raise ConfigError(
            f"document {first:,} of `{data.name}` has {lengths[first]:,} tokens, and a row takes {width:,} "
            f"(context {width - 1:,} and one to predict); so have {int(is_long.sum()) - 1:,} others",
            "pass `--too-long drop`, `keep-start` or `keep-end`, or a longer `--context`",
        )
    if policy == "keep-end":
        starts = np.where(is_long, starts + lengths - width, starts)
    lengths = np.minimum(lengths, width)
    num_trained = _num_trained(data.mask, starts, lengths)
    is_trained = num_trained > 0
    is_kept = is_trained & ~is_long if policy == "drop" else is_trained
    # A document that is dropped for its length is not counted twice.
    untrained = int((~is_trained & ~is_long).sum() if policy == "drop" else (~is_trained).sum())
    if not is_kept.any():
        raise ConfigError(
            f"no document of `{data.name}` is left: {int(is_long.sum()):,} of {len(lengths):,} are longer than the context of "
            f"{width - 1:,}, {untrained:,} have no token that is trained on",
            "pass a longer `--context`, or another `--too-long`",
        )
    return Fitting(starts, lengths, num_trained, is_kept, int(is_long.sum()), untrained)


def _num_trained(mask: Any, starts: Any, lengths: Any) -> Any:
    """Targets of each piece: the first token of a row is no target."""
    if mask is None:
        return np.maximum(lengths - 1, 0)
    counts = np.zeros(len(starts), dtype=np.int64)
    for at, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist(), strict=True)):
        counts[at] = np.count_nonzero(mask[start + 1 : start + length])
    return counts
