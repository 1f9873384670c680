# pyright: basic
"""The loss of next-token prediction: stream and targets in, a sum of negative log probabilities out.

Logits of a batch are by far its largest tensor (batch · context · vocab). `chunked_loss` makes them for some positions at a
time, with the gradients right behind, while they are in the cache: less memory and less time than `plain_loss`, which is what it computes.
"""

from dataclasses import dataclass
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
    logits = _capped(F.linear(hidden, head).to(_wide(hidden)), softcap)
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
        for some in _chunks(hidden, head):
            part, wanted = hidden[some], targets[some]
            loss, grad_logits = _loss_of_chunk(part, weight, wanted, softcap, wants_grad)
            total += loss
            if grad_hidden is not None and grad_head is not None:
                grad_logits = grad_logits.to(hidden.dtype)
                torch.mm(grad_logits, weight, out=grad_hidden[some])
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
    logits = _capped(raw, softcap)
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


@dataclass(frozen=True)
class TokenScores:
    """Of some targets, one number each. Gradients flow through the first."""

    log_probs_N: Tensor
    entropy_N: Tensor
    mean_logit_N: Tensor
    is_top_N: Tensor
    """1 where no token was likelier, and of those as likely none comes before it."""


def score_tokens(
    hidden_ND: Tensor, head: Tensor, targets_N: Tensor, softcap: float | None = None
) -> TokenScores:
    """log p of each target and what surrounds it, in float32. All targets count: leave out positions without one."""
    found, more = _TokenScores.apply(hidden_ND, head, targets_N, softcap)
    return TokenScores(found, *more.unbind(0))


class _TokenScores(torch.autograd.Function):
    """Logits are made for some positions at a time, and once more on the way back: they are never all there."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, head: Tensor, targets: Tensor, softcap: float | None
    ) -> tuple[Tensor, Tensor]:
        ctx.save_for_backward(hidden, head, targets)
        ctx.softcap = softcap
        weight = head.to(hidden.dtype)
        found = torch.empty(len(hidden), dtype=_wide(hidden), device=hidden.device)
        more = found.new_empty(3, len(hidden))
        for some in _chunks(hidden, head):
            logits = _capped((hidden[some] @ weight.t()).to(_wide(hidden)), softcap)
            wanted = logits.gather(1, targets[some].unsqueeze(1)).squeeze(1)
            log_sum = logits.logsumexp(dim=1)
            found[some] = wanted - log_sum
            entropy, mean_logit, is_top = more[:, some].unbind(0)
            mean_logit.copy_(logits.mean(dim=1))
            is_top.copy_(logits.argmax(dim=1) == targets[some])
            entropy.copy_(log_sum - (logits.softmax(dim=1) * logits).sum(dim=1))
        ctx.mark_non_differentiable(more)
        return found, more

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        grad = grads[0]
        hidden, head, targets = ctx.saved_tensors
        weight = head.to(hidden.dtype)
        grad_hidden = torch.empty_like(hidden)
        grad_head = torch.zeros_like(head, dtype=_wide(head))
        for some in _chunks(hidden, head):
            raw = (hidden[some] @ weight.t()).to(_wide(hidden))
            logits = _capped(raw, ctx.softcap)
            slope = logits.softmax(dim=1).neg_()
            slope.scatter_add_(1, targets[some].unsqueeze(1), torch.ones_like(slope[:, :1]))
            slope *= grad[some].unsqueeze(1)
            if ctx.softcap is not None:
                slope *= 1 - (logits / ctx.softcap).square()
            slope = slope.to(hidden.dtype)
            grad_hidden[some] = slope @ weight
            grad_head += slope.t() @ hidden[some]
        return grad_hidden, grad_head.to(head.dtype), None, None


def _chunks(hidden: Tensor, head: Tensor) -> list[slice]:
    rows = max(1, CHUNK_BYTES // (4 * head.shape[0]))
    return [slice(start, start + rows) for start in range(0, len(hidden), rows)]


def _capped(logits: Tensor, softcap: float | None) -> Tensor:
    return logits if softcap is None else softcap * torch.tanh(logits / softcap)
