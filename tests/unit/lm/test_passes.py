# pyright: basic
"""What trains on a CPU in fewer passes, against the form to be read."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tokenmill.lm import passes
from tokenmill.lm.model import Model, rope_table, rotate
from tokenmill.lm.model_config import ModelConfig

EXACT: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-10}


@pytest.mark.parametrize("shape", [(1, 1), (3, 7, 16), (2, 5, 4, 8)])
def test_the_norm_and_its_gradients(shape: tuple[int, ...]) -> None:
    torch.manual_seed(sum(shape))
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    gain = torch.randn(shape[-1], dtype=torch.float64, requires_grad=True)
    grad = torch.randn(shape, dtype=torch.float64)
    found = passes.rms_norm(x, gain, 1e-5)
    wanted = F.rms_norm(x, shape[-1:], gain, 1e-5)
    torch.testing.assert_close(found, wanted, **EXACT)
    for ours, theirs in zip(
        torch.autograd.grad(found, (x, gain), grad),
        torch.autograd.grad(wanted, (x, gain), grad),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, **EXACT)


def test_a_row_of_zeros_has_a_norm() -> None:
    x = torch.zeros(2, 4, requires_grad=True)
    found = passes.rms_norm(x, torch.ones(4), 1e-5)
    found.sum().backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()
    assert not found.any()


def test_heads_are_turned_as_rope_turns_them() -> None:
    config = ModelConfig(vocab_size=5, context=9, d_model=24, num_heads=3, num_layers=1)
    cos, sin = rope_table(config, torch.arange(9))
    x = torch.randn(2, 9, 3, config.d_head)
    # Rows of a weight and numbers of a head are put in order in the same way.
    paired = x.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)
    wanted = rotate(x.transpose(1, 2), cos, sin).unflatten(-1, (2, -1)).transpose(-1, -2)
    found = passes.turned(paired, passes.turn_table(cos, sin, 3))
    torch.testing.assert_close(found, wanted.flatten(-2))


def variants() -> Iterator[ModelConfig]:
    for qk_norm in (False, True):
        for kv_heads in (None, 1, 2):
            yield ModelConfig(
                vocab_size=23,
                context=12,
                d_model=16,
                num_heads=4,
                num_kv_heads=kv_heads,
                num_layers=2,
                qk_norm=qk_norm,
            )


@pytest.mark.parametrize("config", list(variants()))
@pytest.mark.parametrize("with_segments", [False, True])
def test_a_whole_model(
    config: ModelConfig, with_segments: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model(config).double()
    ids = torch.randint(0, 23, (3, 12), generator=torch.Generator().manual_seed(5))
    segments = torch.arange(12).expand(3, 12) // 5 if with_segments else None

    def logits_and_gradients() -> list[torch.Tensor]:
        found = model(ids, segments_BT=segments)
        return [found, *torch.autograd.grad(found.square().sum(), list(model.parameters()))]

    ours = logits_and_gradients()
    monkeypatch.setattr(passes, "pays_off", lambda _: False)
    for found, wanted in zip(ours, logits_and_gradients(), strict=True):
        # Tables of sines are in float32.
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


def test_they_are_for_training_on_a_cpu() -> None:
    x = torch.zeros(1, requires_grad=True)
    assert passes.pays_off(x)
    assert not passes.pays_off(x.bfloat16())
    with torch.no_grad():
        assert not passes.pays_off(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not passes.pays_off(x)
    assert not passes.pays_off(torch.zeros(1, device="meta"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's malloc")
def test_memory_is_kept() -> None:
    """In a process of its own, for it cannot be undone: a tensor that is freed and made anew brings no new pages."""
    program = (
        "import resource, torch\n"
        "from tokenmill.lm.passes import keep_memory\n"
        "def faults():\n"
        "    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "    for _ in range(10):\n"
        "        torch.ones(12 << 20)\n"
        "    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before\n"
        "given_back = faults()\n"
        "keep_memory()\n"
        "faults()\n"
        "print(given_back, faults())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    given_back, kept = map(int, done.stdout.split())
    assert given_back > 10_000
    assert kept < 1_000
