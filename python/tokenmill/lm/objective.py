# pyright: basic
"""Objectives: a batch in, a sum of losses out. The loop divides by the number of targets of the whole step, so it does not matter
how the step was cut into micro-batches or ranks."""

from torch import Tensor, nn

from tokenmill.lm.batches import Batch
from tokenmill.lm.loss import chunked_loss
from tokenmill.lm.model import Model


class Objective(nn.Module):
    """What training makes small. A module, so that ranks and the compiler see one forward pass."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Batch) -> Tensor:
        """The sum of the losses of all targets of `batch`."""
        raise NotImplementedError


class NextToken(Objective):
    """−log p of each next token."""

    def forward(self, batch: Batch) -> Tensor:
        hidden = self.model.hidden(batch.ids_BT, segments_BT=batch.segments_BT)
        head = self.model.lm_head.weight
        return chunked_loss(hidden, head, batch.targets_BT, self.model.config.softcap)
