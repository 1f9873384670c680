"""Models for tests: small ones with gains that matter, and folders of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

import tokenmill as tm
from tokenmill.lm.checkpoint import save_checkpoint, weights_of
from tokenmill.lm.model import Model
from tokenmill.lm.model_config import ModelConfig

SHAPE = {
    "vocab_size": 300,
    "context": 16,
    "num_layers": 2,
    "d_model": 32,
    "num_heads": 4,
    "d_ff": 48,
}


def small_model(seed: int = 0, **changes: Any) -> Model:
    """Gains are not all one, so that a norm left out shows."""
    model = Model(ModelConfig(**{**SHAPE, **changes}), seed=seed).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 1:
                weight.copy_(1 + 0.3 * torch.randn(weight.shape, generator=generator))
    return model


def random_ids(model: Model, *shape: int, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(model.config.vocab_size, shape, generator=generator)


def save_step(
    folder: Path, model: Model, tokenizer: tm.Tokenizer | None, step: int, /, **state: Any
) -> Path:
    """A checkpoint folder."""
    save_checkpoint(
        folder,
        weights_of(model),
        {},
        {
            "step": step,
            "model": model.config.as_json(),
            "tokenizer_sha256": None if tokenizer is None else tokenizer.sha256,
            **state,
        },
    )
    return folder


def save_run(
    folder: Path,
    models: Mapping[int, Model],
    tokenizer: tm.Tokenizer | None = None,
    losses: Mapping[int, float | None] | None = None,
) -> Path:
    """A run folder with a checkpoint for each step."""
    if tokenizer is not None:
        tokenizer.save(folder / "tokenizer")
    for step, model in models.items():
        place = folder / "checkpoints" / f"step-{step:08}"
        save_step(place, model, tokenizer, step, validation_loss=(losses or {}).get(step))
    return folder
