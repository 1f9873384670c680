# pyright: basic
"""Objectives: a batch in, sums out. The loop divides them by the number of targets of the whole step, so it does not matter
how the step was cut into micro-batches, lanes or ranks."""

from torch import Tensor, nn

from tokenmill.lm.batches import Batch
from tokenmill.lm.loss import chunked_loss
from tokenmill.lm.model import Model


class Objective(nn.Module):
    """What training makes small. A module, so that ranks and the compiler see one forward pass."""

    names: tuple[str, ...] = ()
    """Of what is reported besides the loss."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Batch) -> Tensor:
        """Sums over all targets of `batch`: of their losses, then of what `names` says."""
        raise NotImplementedError


class NextToken(Objective):
    """−log p of each next token."""

    def forward(self, batch: Batch) -> Tensor:
        hidden = self.model.hidden(batch.ids_BT, segments_BT=batch.segments_BT)
        head = self.model.lm_head.weight
        loss = chunked_loss(hidden, head, batch.targets_BT, self.model.config.softcap)
        return loss.unsqueeze(0)
