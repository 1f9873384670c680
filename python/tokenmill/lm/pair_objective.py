# pyright: basic
"""What preference training makes small: pairs of answers in, their loss out, and what TRL reports about them under its names."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from tokenmill.errors import TokenmillError
from tokenmill.lm.batches import Batch
from tokenmill.lm.loss import TokenScores, score_tokens
from tokenmill.lm.model import Model
from tokenmill.lm.objective import Objective
from tokenmill.lm.pairs import PairBatch, answer_tokens
from tokenmill.lm.post_training_settings import DpoSettings
from tokenmill.lm.preference import LOSSES, Scores

PER_PAIR = (
    "rewards/chosen",
    "rewards/rejected",
    "rewards/margins",
    "rewards/accuracies",
    "logps/chosen",
    "logps/rejected",
)
PER_TOKEN = ("logits/chosen", "logits/rejected", "entropy", "mean_token_accuracy")
SMALL = {"fp32": 1e-6, "bf16": 1e-2, "fp16": 1e-3}
"""How far off a log probability may be, of its own size, when it is computed in rows of another shape."""


@dataclass(frozen=True)
class AnswerScores:
    """What a model thinks of the answers of some pairs: column 0 are the chosen ones, 1 the rejected."""

    log_probs_P2: Tensor
    num_tokens_P2: Tensor
    tokens: TokenScores
    is_chosen_N: Tensor
    """Of each token, whether it is of a chosen answer."""


def score_answers(model: Model, batch: PairBatch) -> AnswerScores:
    """One pass over both answers of all pairs."""
    is_trained, targets, documents = answer_tokens(batch)
    hidden = model.hidden(batch.ids_BT, segments_BT=batch.segments_BT)
    tokens = score_tokens(hidden[is_trained], model.lm_head.weight, targets, model.config.softcap)
    found = tokens.log_probs_N
    sums = found.new_zeros(2 * len(batch.pairs)).index_add(0, documents, found)
    counts = torch.zeros_like(sums).index_add(0, documents, torch.ones_like(found))
    return AnswerScores(sums.view(-1, 2), counts.view(-1, 2), tokens, documents % 2 == 0)


class NotItsReference(TokenmillError):
    """Before the first step, a model and the same model as its reference do not agree."""


class Preference(Objective):
    """The loss of pairs. Its first term is over pairs, the second over tokens of chosen answers."""

    names = (*PER_PAIR, *PER_TOKEN)

    def __init__(
        self, model: Model, options: DpoSettings, *, is_own_reference: bool, precision: str
    ) -> None:
        super().__init__(model)
        self.options, self.loss = options, LOSSES[options.loss]
        self.terms = (1.0, options.sft_weight)
        self.is_own_reference, self.precision = is_own_reference, precision

    def counts(self, batch: Batch) -> list[int]:
        assert isinstance(batch, PairBatch)
        pairs, (chosen, rejected) = len(batch.pairs), batch.num_answer_tokens
        return [
            pairs,
            chosen,
            *[pairs] * len(PER_PAIR),
            chosen,
            rejected,
            chosen + rejected,
            chosen,
        ]

    def forward(self, batch: Batch) -> Tensor:
        assert isinstance(batch, PairBatch)
        assert batch.reference_P2 is not None
        found = score_answers(self.model, batch)
        reference = batch.reference_P2.to(found.log_probs_P2.dtype)
        scores = Scores(
            *found.log_probs_P2.unbind(1), *reference.unbind(1), *found.num_tokens_P2.unbind(1)
        )
        loss = self.loss(scores, self.options.beta)
        return torch.stack([loss.sum(), -scores.chosen.sum(), *self._reported(scores, found)])

    @torch.no_grad()
    def _reported(self, scores: Scores, found: AnswerScores) -> list[Tensor]:
        chosen, rejected = (
            self.options.beta * ratio for ratio in (scores.chosen_ratio, scores.rejected_ratio)
        )
        wins = (chosen > rejected).to(chosen.dtype)
        pairs = (chosen, rejected, chosen - rejected, wins, scores.chosen, scores.rejected)
        tokens, is_chosen = found.tokens, found.is_chosen_N
        return [
            *(each.sum() for each in pairs),
            tokens.mean_logit_N[is_chosen].sum(),
            tokens.mean_logit_N[~is_chosen].sum(),
            tokens.entropy_N.sum(),
            tokens.is_top_N[is_chosen].sum(),
        ]

    def require_start(self, loss: float, more: Mapping[str, float]) -> None:
        """NotItsReference unless margins are 0, as they are while a model is its own reference."""
        if not self.is_own_reference:
            return
        beta = self.options.beta
        largest = max(abs(more["logps/chosen"]), abs(more["logps/rejected"]), 1.0)
        tolerance = max(1e-5, beta * largest * SMALL[self.precision])
        rewards = {name: more[name] for name in ("rewards/chosen", "rewards/rejected")}
        name, worst = max(rewards.items(), key=lambda item: abs(item[1]))
        if abs(worst) <= tolerance:
            return
        expected = f"ln 2 = {math.log(2):.6f}" if self.options.loss == "sigmoid" else "1 / (4 β²)"
        raise NotItsReference(
            f"before the first step the model is its own reference, so its rewards must be 0 and the loss {expected}; but "
            f"{name} is {worst:.6g} and the loss {loss:.6f}: the log probabilities kept for the reference are of other weights or "
            "other answers, or were computed in another way",
            "delete the `reference-*.npy` of the run so that they are computed anew; if it stays so, please report it",
        )
