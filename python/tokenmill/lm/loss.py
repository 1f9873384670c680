# pyright: basic
"""The loss of next-token prediction: stream and targets in, a sum of negative log probabilities out.

Logits of a batch are by far its largest tensor (batch · context · vocab). `chunked_loss` makes them for some positions at a
time, with the gradients right behind, while they are in the cache: less memory and less time than `plain_loss`, which is what it computes.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tokenmill.dataset.windows import NOT_TRAINED

CHUNK_BYTES = 4 << 20
"""Of one chunk's logits: what stays in a second-level cache, or close to it."""


def plain_loss(
    hidden: Tensor, head: Tensor, targets: Tensor, softcap: float | None = None
) -> Tensor:
    """Σ −log p(target) over all positions whose target is not NOT_TRAINED, in float32."""
    logits = F.linear(hidden, head).to(_wide(hidden))
    if softcap is not None:
        logits = softcap * torch.tanh(logits / softcap)
    return F.cross_entropy(
        logits.flatten(0, -2), targets.flatten(), ignore_index=NOT_TRAINED, reduction="sum"
    )


def chunked_loss(
    hidden: Tensor, head: Tensor, targets: Tensor, softcap: float | None = None
) -> Tensor:
    """The same as `plain_loss`."""
    return _ChunkedLoss.apply(hidden.flatten(0, -2), head, targets.flatten(), softcap)


class _ChunkedLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, head: Tensor, targets: Tensor, softcap: float | None
    ) -> Tensor:
        weight = head.to(hidden.dtype)
        wants_grad = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
        grad_hidden = torch.empty_like(hidden) if wants_grad else None
        grad_head = torch.zeros_like(head, dtype=_wide(head)) if wants_grad else None
        total = torch.zeros((), dtype=_wide(hidden), device=hidden.device)
        rows = max(1, CHUNK_BYTES // (4 * head.shape[0]))
        for start in range(0, len(hidden), rows):
            part, wanted = hidden[start : start + rows], targets[start : start + rows]
            loss, grad_logits = _loss_of_chunk(part, weight, wanted, softcap, wants_grad)
            total += loss
            if grad_hidden is not None and grad_head is not None:
                grad_logits = grad_logits.to(hidden.dtype)
                torch.mm(grad_logits, weight, out=grad_hidden[start : start + rows])
                if grad_head.dtype == grad_logits.dtype:
                    grad_head.addmm_(grad_logits.t(), part)
                else:
                    grad_head += grad_logits.t() @ part
        ctx.save_for_backward(grad_hidden, grad_head)
        ctx.head_dtype = head.dtype
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        grad_hidden, grad_head = ctx.saved_tensors
        (grad,) = grads
        return grad_hidden * grad, (grad_head * grad).to(ctx.head_dtype), None, None


def _loss_of_chunk(
    hidden: Tensor, weight: Tensor, targets: Tensor, softcap: float | None, wants_grad: bool
) -> tuple[Tensor, Tensor]:
    """The loss of some positions, and its gradient by their logits before the soft cap."""
    raw = (hidden @ weight.t()).to(_wide(hidden))
    logits = raw if softcap is None else softcap * torch.tanh(raw / softcap)
    is_trained = targets != NOT_TRAINED
    safe = targets.clamp(min=0).unsqueeze(1)
    if not wants_grad:
        log_sum = logits.logsumexp(dim=1, keepdim=True)
        return _summed(log_sum, logits, safe, is_trained), logits
    # The gradient of log-softmax: probabilities, less one at the target. The largest of them is exp(largest logit) over their sum.
    grad = logits.softmax(dim=1)
    log_sum = logits.amax(1, keepdim=True) - grad.amax(1, keepdim=True).log_()
    loss = _summed(log_sum, logits, safe, is_trained)
    grad.scatter_add_(1, safe, torch.full_like(log_sum, -1.0))
    grad *= is_trained.unsqueeze(1)
    if softcap is not None:
        grad *= 1 - (logits / softcap).square()
    return loss, grad


def _summed(log_sum: Tensor, logits: Tensor, targets: Tensor, is_trained: Tensor) -> Tensor:
    return ((log_sum - logits.gather(1, targets)).squeeze(1) * is_trained).sum()


def _wide(tensor: Tensor) -> torch.dtype:
    """The type sums are kept in."""
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32
