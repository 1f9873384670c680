# pyright: basic
"""Objectives: a batch in, sums out. The loop divides them by the number of targets of the whole step, so it does not matter
how the step was cut into micro-batches, lanes or ranks."""

from collections.abc import Mapping

from torch import Tensor, nn

from tokenmill.dataset.windows import NOT_TRAINED
from tokenmill.lm.batches import Batch
from tokenmill.lm.loss import chunked_loss
from tokenmill.lm.model import Model


class Objective(nn.Module):
    """What training makes small. A module, so that ranks and the compiler see one forward pass."""

    terms: tuple[float, ...] = (1.0,)
    """How much the mean of each of the first sums counts in the loss."""
    names: tuple[str, ...] = ()
    """Of the sums behind the terms, which are only reported."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Batch) -> Tensor:
        """Sums over `batch`: of the terms, then of what `names` says."""
        raise NotImplementedError

    def counts(self, batch: Batch) -> list[int]:
        """Over how many each sum is; the loop divides by those of the whole step."""
        return [batch.num_targets] * (len(self.terms) + len(self.names))

    def require_start(self, loss: float, more: Mapping[str, float]) -> None:
        """ConfigError if the very first step, which no weight has changed before, does not say what it must."""


class NextToken(Objective):
    """−log p of each next token that is trained on."""

    def forward(self, batch: Batch) -> Tensor:
        hidden = self.model.hidden(batch.ids_BT, segments_BT=batch.segments_BT)
        head = self.model.lm_head.weight
        loss = chunked_loss(hidden, head, batch.targets_BT, self.model.config.softcap)
        return loss.unsqueeze(0)


class AnswerTokens(Objective):
    """The same where most tokens are not trained on: what nobody asks for is not computed."""

    def forward(self, batch: Batch) -> Tensor:
        hidden = self.model.hidden(batch.ids_BT, segments_BT=batch.segments_BT)
        is_trained = batch.targets_BT != NOT_TRAINED
        loss = chunked_loss(
            hidden[is_trained],
            self.model.lm_head.weight,
            batch.targets_BT[is_trained],
            self.model.config.softcap,
        )
        return loss.unsqueeze(0)
