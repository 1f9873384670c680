# pyright: basic
"""torch.compile: used where it pays, and never in the way."""

import logging
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tokenmill.lm.batches import Batch
from tokenmill.lm.compiling import compiled_or_none, repays
from tokenmill.lm.model import Model
from tokenmill.lm.model_config import ModelConfig, preset
from tokenmill.lm.objective import NextToken
from tokenmill.lm.pretrain import prepare_pretrain
from tokenmill.lm.settings import TrainSettings
from tokenmill.lm.sinks import LogSettings
from tokenmill.lm.token_data import DataSettings

SHAPE = ModelConfig(vocab_size=40, context=8, d_model=16, num_heads=2, num_layers=1)


def test_it_is_for_long_runs() -> None:
    cpu, cuda, mps = (torch.device(name) for name in ("cpu", "cuda", "mps"))
    assert not repays(cpu, 1e20)  # lanes are faster
    assert not repays(cuda, 1e15)
    assert repays(cuda, 1e17)
    assert not repays(mps, 1e20)


def test_a_compiler_that_fails_says_why(caplog: pytest.LogCaptureFixture) -> None:
    def attempt(_: nn.Module) -> None:
        raise RuntimeError("\n  no C++ compiler found\nand a long story")

    with caplog.at_level(logging.WARNING, "tokenmill"):
        assert compiled_or_none(nn.Linear(1, 1), attempt) is None
    assert "training goes on without: RuntimeError: no C++ compiler found" in caplog.text
    assert "long story" not in caplog.text


def test_memory_that_ends_is_no_reason_to_go_on() -> None:
    def attempt(_: nn.Module) -> None:
        raise MemoryError

    with pytest.raises(MemoryError):
        compiled_or_none(nn.Linear(1, 1), attempt)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch's own, about its insides
def test_a_compiled_run_has_the_plain_run_s_losses(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Up to rounding. What is compiled is kept where torch keeps it, so the second time takes seconds."""
    ids = tmp_path / "ids.npy"
    np.save(ids, np.random.default_rng(0).integers(0, 40, 400, dtype=np.uint16))
    losses: dict[str, list[float]] = {"off": [], "on": []}
    for name, found in losses.items():
        settings = TrainSettings(batch_size=4, max_steps=4, device="cpu", compile=name)
        run = prepare_pretrain(
            DataSettings(ids, vocab_size=40),
            tmp_path / name,
            model=SHAPE,
            settings=settings,
            logs=LogSettings(()),
        )
        run.run(lambda step, found=found: found.append(step.loss))
    assert losses["on"] == pytest.approx(losses["off"], abs=1e-5)
    assert "torch.compile failed" not in caplog.text


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_compiled_gradients_have_the_same_bits_each_time() -> None:
    """Those of embeddings did not with two threads: many positions have the same token."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        model = Model(preset("1m"))
        objective = NextToken(model)
        ids = torch.randint(0, 50, (8, 129), generator=torch.Generator().manual_seed(0))
        batch = Batch(ids[:, :-1].contiguous(), ids[:, 1:].contiguous(), None, 8 * 128)

        def gradients() -> list[torch.Tensor]:
            assert forward is not None
            objective.zero_grad()
            forward(batch).backward()
            return [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]

        forward = compiled_or_none(objective, lambda found: found(batch).backward())
        first = gradients()
        for _ in range(4):
            assert all(torch.equal(*both) for both in zip(first, gradients(), strict=True))
    finally:
        torch.set_num_threads(before)


def test_a_run_without_a_compiler_is_the_plain_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> nn.Module:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(torch, "compile", fails)
    ids = tmp_path / "ids.npy"
    np.save(ids, np.random.default_rng(0).integers(0, 40, 400, dtype=np.uint16))

    def weights(name: str, compile_: str) -> list[torch.Tensor]:
        settings = TrainSettings(
            batch_size=4, max_steps=3, device="cpu", compile=compile_, eval_every=0
        )
        data = DataSettings(ids, vocab_size=40)
        run = prepare_pretrain(
            data, tmp_path / name, model=SHAPE, settings=settings, logs=LogSettings(())
        )
        assert run.describe()["compiles"] == (compile_ == "on")
        return list(run.run().model.parameters())

    pairs = zip(weights("plain", "off"), weights("tried", "on"), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    assert all(
        torch.equal(one, other)
        for one, other in zip(weights("auto", "auto"), weights("tried2", "on"), strict=True)
    )
