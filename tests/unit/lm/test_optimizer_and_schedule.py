"""Optimizers and learning rates by their textbook definitions."""

import math
from typing import Any

import pytest
import torch

from tokenmill.errors import ConfigError
from tokenmill.lm.optimizer import AdamW, FusedAdamW, SlowingSGD
from tokenmill.lm.schedule import Schedule


def weights() -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(1)
    shapes = [(7, 5), (5,), (3, 2, 2)]
    return [torch.nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes]


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_our_adamw_is_torchs_bit_for_bit(decay: float) -> None:
    ours, theirs = weights(), weights()
    options = {"lr": 1e-2, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": decay}
    pair = AdamW(ours, **options), torch.optim.AdamW(theirs, foreach=False, **options)
    generator = torch.Generator().manual_seed(2)
    for step in range(1000):
        for one, other in zip(ours, theirs, strict=True):
            one.grad = torch.randn(one.shape, generator=generator) * (1 + step % 7)
            other.grad = one.grad.clone()
        for optimizer in pair:
            optimizer.param_groups[0]["lr"] = 1e-2 / (1 + step)
            optimizer.step()
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))


def test_the_fused_adamw_agrees() -> None:
    ours, theirs = weights(), weights()
    pair = AdamW(ours, lr=1e-2), torch.optim.AdamW(theirs, lr=1e-2, fused=True)
    for step in range(1000):
        for one, other in zip(ours, theirs, strict=True):
            one.grad = torch.sin(torch.arange(one.numel()).float() + step).view(one.shape)
            other.grad = one.grad.clone()
        for optimizer in pair:
            optimizer.step()
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-6)


def test_what_training_uses_on_a_cpu_is_the_fused_adamw_bit_for_bit() -> None:
    ours, theirs = weights(), weights()
    options: dict[str, Any] = {"lr": 1e-2, "betas": (0.9, 0.95), "eps": 1e-8}
    groups = [
        [{"params": each[:1], "weight_decay": 0.1}, {"params": each[1:], "weight_decay": 0.0}]
        for each in (ours, theirs)
    ]
    pair = (
        FusedAdamW(groups[0], **options),
        torch.optim.AdamW(groups[1], fused=True, **options),
    )
    generator = torch.Generator().manual_seed(2)
    for step in range(300):
        for optimizer in pair:
            optimizer.zero_grad()
            for group in optimizer.param_groups:
                group["lr"] = 1e-2 / (1 + step)
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            # A weight that a step does not reach stays, and its moments with it.
            if (step + number) % 5:
                one.grad = torch.randn(one.shape, generator=generator)
                other.grad = one.grad.clone()
        for optimizer in pair:
            optimizer.step()
    for one, other in zip(ours, theirs, strict=True):
        assert torch.equal(one, other)
        kept, known = pair[0].state[one], pair[1].state[other]
        assert kept.keys() == known.keys()
        assert all(torch.equal(kept[name], known[name]) for name in known)


def test_steps_of_sgd_get_shorter() -> None:
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = SlowingSGD([weight], lr=2.0)
    for _ in range(3):
        weight.grad = torch.ones(1)
        optimizer.step()
    assert weight.item() == pytest.approx(-2.0 * (1 + 1 / math.sqrt(2) + 1 / math.sqrt(3)))


def test_cosine() -> None:
    rates = Schedule("cosine", peak=1.0, floor=0.1, warmup_steps=3, max_steps=12)
    assert [rates.rate(step) for step in range(3)] == [0.25, 0.5, 0.75]
    assert rates.rate(3) == 1.0
    assert rates.rate(7) == pytest.approx(0.1 + 0.9 * 0.5)
    assert rates.rate(11) == rates.rate(500) == 0.1
    falling = [rates.rate(step) for step in range(3, 12)]
    assert falling == sorted(falling, reverse=True)


def test_trapezoid() -> None:
    rates = Schedule("wsd", peak=1.0, floor=0.0, warmup_steps=1, max_steps=10, cooldown_steps=4)
    found = [rates.rate(step) for step in range(10)]
    assert found == [0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "cosin"}, "did you mean `cosine`"),
        ({"floor": 2.0}, "falls to 2.0"),
        ({"kind": "wsd", "cooldown_steps": 8}, "more than the 10"),
        ({"warmup_steps": -1}, "below 0"),
    ],
)
def test_schedules_that_make_no_sense(changes: dict[str, object], message: str) -> None:
    options = {"kind": "cosine", "peak": 1.0, "floor": 0.1, "warmup_steps": 3, "max_steps": 10}
    with pytest.raises(ConfigError, match=message):
        Schedule(**{**options, **changes})  # pyright: ignore[reportArgumentType]
