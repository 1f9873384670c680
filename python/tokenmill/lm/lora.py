# pyright: basic
"""LoRA: the weights of a model stay, and a product of two thin matrices beside each is trained.

The product is added to the weight before anything is multiplied with it, not to what comes out behind it: for models of this size that costs
nothing worth measuring, and a model with its adapters merged computes what it computed in training, bit for bit.
"""

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tokenmill.lm.model import Model
from tokenmill.lm.post_training_settings import LoraSettings

FROZEN, A, B = "frozen", "lora_A", "lora_B"


class LoraLinear(nn.Module):
    """`linear` with its weight frozen and a product beside it, which is 0 at first."""

    def __init__(
        self, linear: nn.Linear, settings: LoraSettings, generator: torch.Generator
    ) -> None:
        super().__init__()
        frozen = linear.weight.detach()
        rows, columns = frozen.shape
        self.frozen = nn.Parameter(frozen, requires_grad=False)
        bound = 1 / math.sqrt(columns)
        drawn = torch.empty(settings.rank, columns).uniform_(-bound, bound, generator=generator)
        self.lora_A = nn.Parameter(drawn.to(frozen))
        self.lora_B = nn.Parameter(frozen.new_zeros(rows, settings.rank))
        self.scale = settings.scale

    @property
    def weight(self) -> Tensor:
        return _merged(self.frozen, self.lora_A, self.lora_B, self.scale)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight)


def add_lora(
    model: Model, settings: LoraSettings, seed: int, trained: tuple[str, ...] = ()
) -> None:
    """Freeze `model` but for weights whose names begin with one of `trained`, and give it adapters."""
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        weight.requires_grad_(name.startswith(trained) if trained else False)
    for block in model.model.layers:
        for part in (block.self_attn, block.mlp):
            for name in settings.targets:
                linear = getattr(part, name, None)
                if isinstance(linear, nn.Linear):
                    setattr(part, name, LoraLinear(linear, settings, generator))


def merge_lora(weights: Mapping[str, Tensor], settings: LoraSettings) -> dict[str, Tensor]:
    """The weights of a plain model that computes what the one with adapters does."""
    merged: dict[str, Tensor] = {}
    for name, weight in weights.items():
        place, _, what = name.rpartition(".")
        if what == FROZEN:
            low, high = weights[f"{place}.{A}"], weights[f"{place}.{B}"]
            merged[f"{place}.weight"] = _merged(weight, low, high, settings.scale)
        elif what not in (A, B):
            merged[name] = weight
    return merged


def _merged(frozen: Tensor, low: Tensor, high: Tensor, scale: float) -> Tensor:
    return torch.addmm(frozen, high, low, alpha=scale)
