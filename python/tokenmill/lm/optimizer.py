# pyright: basic
"""Optimizers: gradients in, weights changed.

`AdamW` is the textbook's, in the order of operations of torch's own, so that they agree bit for bit; torch's fused one does the same
in one pass and is what training uses, on a CPU through `FusedAdamW`. `SlowingSGD` is the course's: each step is shorter by 1/√t.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer


class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter), to be read."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(
            params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        )

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            lr, eps = group["lr"], group["eps"]
            beta1, beta2 = group["betas"]
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                if not state:
                    state["step"] = torch.zeros(())
                    state["exp_avg"] = torch.zeros_like(weight)
                    state["exp_avg_sq"] = torch.zeros_like(weight)
                mean, square, grad = state["exp_avg"], state["exp_avg_sq"], weight.grad
                state["step"] += 1
                t = state["step"].item()

                weight.mul_(1 - lr * group["weight_decay"])
                mean.lerp_(grad, 1 - beta1)
                square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
                # Both averages start at zero; dividing by 1 - beta^t takes that out again.
                size = (square.sqrt() / math.sqrt(1 - beta2**t)).add_(eps)
                weight.addcdiv_(mean, size, value=-lr / (1 - beta1**t))


class FusedAdamW:
    """torch's fused AdamW on a CPU: what `torch.optim.AdamW(fused=True)` calls, without its compiler.

    Making one of torch's optimizers imports `torch._dynamo`: 2 seconds and 900 modules, for a run that compiles
    nothing. `state` has the same names, so checkpoints of the two are one kind.
    """

    def __init__(
        self,
        groups: list[dict[str, Any]],
        lr: float,
        betas: tuple[float, float],
        eps: float,
    ) -> None:
        self.defaults = {"lr": lr, "betas": betas, "eps": eps, "fused": True}
        self.param_groups = [{**self.defaults, **group} for group in groups]
        self.state: dict[Tensor, dict[str, Tensor]] = defaultdict(dict)

    def zero_grad(self, set_to_none: bool = True) -> None:
        for group in self.param_groups:
            for weight in group["params"]:
                if set_to_none:
                    weight.grad = None
                elif weight.grad is not None:
                    weight.grad.zero_()

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            if not weights:
                continue
            states = [self._state_of(weight) for weight in weights]
            steps = [state["step"] for state in states]
            torch._foreach_add_(steps, 1)  # pyright: ignore[reportPrivateImportUsage]
            torch._fused_adamw_(  # pyright: ignore[reportPrivateImportUsage]
                weights,
                [weight.grad for weight in weights],
                [state["exp_avg"] for state in states],
                [state["exp_avg_sq"] for state in states],
                [],
                steps,
                lr=group["lr"],
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                amsgrad=False,
                maximize=False,
            )

    def _state_of(self, weight: Tensor) -> dict[str, Tensor]:
        state = self.state[weight]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["exp_avg"] = torch.zeros_like(weight)
            state["exp_avg_sq"] = torch.zeros_like(weight)
        return state


class SlowingSGD(Optimizer):
    """Gradient descent with the rate lr / sqrt(t + 1), t from 0 on."""

    def __init__(self, params: Iterable[Any], lr: float = 1e-3) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is None:
                    continue
                state = self.state[weight]
                t = state.get("step", torch.zeros(()))
                weight -= group["lr"] / math.sqrt(t.item() + 1) * weight.grad
                state["step"] = t + 1


def make_optimizer(
    model: nn.Module,
    kind: str,
    *,
    lr: float,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float,
) -> Optimizer:
    """An optimizer for `model`: matrices decay, gains do not."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    if kind == "sgd":
        return SlowingSGD(weights, lr)
    groups = [
        {"params": [w for w in weights if w.ndim >= 2], "weight_decay": weight_decay},
        {"params": [w for w in weights if w.ndim < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if kind == "adamw-plain":
        return AdamW(groups, lr, betas, eps)
    if all(weight.device.type == "cpu" for weight in weights):
        # It has what training asks of an optimizer, though not all that torch's have.
        return cast("Optimizer", FusedAdamW(groups, lr, betas, eps))
    return torch.optim.AdamW(groups, lr, betas, eps, fused=True)


def moments_of(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """What `optimizer` remembers, by `weight name/what`."""
    return {
        f"{name}/{key}": value
        for name, weight in model.named_parameters()
        for key, value in optimizer.state.get(weight, {}).items()
    }


def restore_moments(model: nn.Module, optimizer: Optimizer, saved: dict[str, Tensor]) -> None:
    """Give `optimizer` back what `moments_of` took."""
    weights = dict(model.named_parameters())
    for key, value in saved.items():
        name, _, what = key.rpartition("/")
        weight = weights[name]
        # A step count stays where torch's own state keeps it: on the CPU, unless the optimizer is fused on a GPU.
        where = "cpu" if what == "step" and not _is_fused(optimizer) else weight.device
        optimizer.state[weight][what] = value.to(where)


def _is_fused(optimizer: Optimizer) -> bool:
    return bool(optimizer.defaults.get("fused"))
