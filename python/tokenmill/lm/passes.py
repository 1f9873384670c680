# pyright: basic
"""Parts of a block in fewer passes over memory, for training on a CPU.

There, torch makes an RMSNorm of six operations forward and more backward, and each of them reads and writes the whole stream. What
is here computes the same; `model.py` has it in the form to be read, and uses that one everywhere else.
"""

import ctypes
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8


def pays_off(x: Tensor) -> bool:
    """Whether a forward pass from `x` is one of these: of training, on a CPU, as it is written."""
    return (
        x.device.type == "cpu"
        and x.dtype in (torch.float32, torch.float64)
        and torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
    )


def rms_norm(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    """`F.rms_norm` over the last dimension."""
    return _RMSNorm.apply(x, gain, eps)


class _RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, gain: Tensor, eps: float) -> Tensor:
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        scale = length.square_().div_(x.shape[-1]).add_(eps).rsqrt_()
        ctx.save_for_backward(x, scale, gain)
        return (x * scale).mul_(gain)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (grad,) = grads
        x, scale, gain = ctx.saved_tensors
        normal = x * scale
        product = grad * normal
        rows = product.flatten(0, -2)
        grad_gain = rows.sum(0)
        # What the gradient has along x itself; the norm takes that out.
        along = torch.mv(rows, gain).div_(x.shape[-1]).view(scale.shape)
        grad_x = torch.mul(grad, gain, out=product).addcmul_(normal, along, value=-1).mul_(scale)
        return grad_x, grad_gain, None


def side_by_side(weight: Tensor, d_head: int) -> Tensor:
    """Rows of `weight` with the two numbers that RoPE turns together next to each other in each head, not half a head apart.

    Queries and keys may both be put in such an order: their products do not notice.
    """
    return weight.unflatten(0, (-1, 2, d_head // 2)).transpose(1, 2).reshape(weight.shape)


def turn_table(cos_TE: Tensor, sin_TE: Tensor, num_heads: int) -> Tensor:
    """The turns of all pairs of all heads at each position, as complex numbers (T, heads · E/2)."""
    half = cos_TE.shape[-1] // 2
    return torch.complex(cos_TE[:, :half], sin_TE[:, :half]).repeat(1, num_heads)


def turned(x_BTNE: Tensor, turns: Tensor) -> Tensor:
    """`rotate` for heads whose pairs stand side by side: (B, N, T, E)."""
    pairs = torch.view_as_complex(x_BTNE.unflatten(-1, (-1, 2))).flatten(2)
    return torch.view_as_real(pairs * turns).view(x_BTNE.shape).transpose(1, 2)


def unit_rms(x: Tensor, eps: float) -> Tensor:
    """RMSNorm without a gain."""
    return F.rms_norm(x, x.shape[-1:], None, eps)


def keep_memory() -> None:
    """Have malloc keep what is freed, until the process ends.

    Every step frees and wants the same large tensors. By default glibc gives each back to the system and gets it again page by page,
    zeroed: a fifth of a step of the 1m preset. Threads share one pool of memory, since only that one is kept whole.
    Other systems' allocators have no such call, and stay as they are.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(M_MMAP_THRESHOLD, 1 << 30)
    mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)
    mallopt(M_ARENA_MAX, 1)
