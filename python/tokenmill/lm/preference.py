# pyright: basic
"""Losses on pairs of answers: log probabilities of the chosen and the rejected one in, a number for each pair out.

Names and formulas are TRL's. Each loss is one small function in `LOSSES`; another one is another entry.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Scores:
    """Of some pairs: log probabilities of whole answers, by the model and by the reference, and how many tokens they have."""

    chosen: Tensor
    rejected: Tensor
    reference_chosen: Tensor
    reference_rejected: Tensor
    chosen_tokens: Tensor
    rejected_tokens: Tensor

    @property
    def chosen_ratio(self) -> Tensor:
        """How much likelier the chosen answer became, as a logarithm."""
        return self.chosen - self.reference_chosen

    @property
    def rejected_ratio(self) -> Tensor:
        return self.rejected - self.reference_rejected

    @property
    def margin(self) -> Tensor:
        return self.chosen_ratio - self.rejected_ratio


Loss = Callable[[Scores, float], Tensor]


def sigmoid(scores: Scores, beta: float) -> Tensor:
    """DPO: −log σ(β · margin)."""
    return -F.logsigmoid(beta * scores.margin)


def ipo(scores: Scores, beta: float) -> Tensor:
    """IPO: the squared distance of the margin from 1/(2β), with averages over tokens instead of sums."""
    margin = (
        scores.chosen_ratio / scores.chosen_tokens - scores.rejected_ratio / scores.rejected_tokens
    )
    return (margin - 1 / (2 * beta)).square()


LOSSES: dict[str, Loss] = {"sigmoid": sigmoid, "ipo": ipo}
