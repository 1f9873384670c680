"""Conversations and pairs that share rows have the loss and the gradients of those that have rows of their own."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from make_conversations import (
    CONTEXT,
    chat_tokenizer,
    conversations,
    encode_rows,
    one_per_row,
    pair_rows,
    preferences,
    train_data,
)
from make_model import small_model

from tokenmill.dataset.windows import NOT_TRAINED
from tokenmill.lm import packing
from tokenmill.lm.batches import Batch
from tokenmill.lm.model import Model
from tokenmill.lm.model_config import ModelConfig
from tokenmill.lm.objective import AnswerTokens, Objective
from tokenmill.lm.pair_objective import Preference
from tokenmill.lm.post_training_settings import DpoSettings
from tokenmill.lm.sft import _rows

Found = tuple[torch.Tensor, dict[str, torch.Tensor | None]]


def exact_rope(config: ModelConfig, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Angles in float64. In float32, as in transformers, a place further back in a row turns queries and keys by angles that
    differ by 1e-8 and more."""
    half = torch.arange(0, config.d_head, 2, dtype=torch.float64)
    angles = positions.double().unsqueeze(-1) / config.rope_theta ** (half / config.d_head)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


@pytest.fixture(params=[(torch.float64, 1e-10), (torch.float32, 1e-5)], ids=["float64", "float32"])
def precision(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> tuple[torch.dtype, float]:
    if request.param[0] == torch.float64:
        monkeypatch.setattr("tokenmill.lm.model.rope_table", exact_rope)
    return request.param


def found_by(objective: Objective, batch: Batch) -> Found:
    """The means of all sums, and the gradients of the loss."""
    means = objective(batch) / torch.tensor(objective.counts(batch))
    terms = zip(objective.terms, means, strict=False)
    torch.stack([weight * mean for weight, mean in terms]).sum().backward()
    gradients = {name: weight.grad for name, weight in objective.model.named_parameters()}
    return means.detach(), gradients


def require_same(
    monkeypatch: pytest.MonkeyPatch, tolerance: float, find: Callable[[], Found]
) -> None:
    packed, gradients = find()
    monkeypatch.setattr(packing, "best_fit", one_per_row)
    single, wanted = find()
    torch.testing.assert_close(packed, single, rtol=tolerance, atol=tolerance)
    for name, gradient in gradients.items():
        assert gradient is not None
        assert gradient.abs().max() > 0, name
        torch.testing.assert_close(gradient, wanted[name], rtol=tolerance, atol=tolerance)


def model_of(dtype: torch.dtype, positions: str) -> Model:
    size = chat_tokenizer().vocab_size
    return small_model(5, vocab_size=size, context=CONTEXT, positions=positions).to(dtype)


@pytest.mark.parametrize("positions", ["rope", "learned"])
def test_conversations(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    precision: tuple[torch.dtype, float],
    positions: str,
) -> None:
    data = train_data(encode_rows(tmp_path / "rows", conversations(12), "sft"))
    num_rows: list[int] = []

    def find() -> Found:
        rows, _ = _rows(data, CONTEXT + 1, "error")
        num_rows.append(len(rows))
        model = model_of(precision[0], positions)
        return found_by(AnswerTokens(model), rows.load(range(len(rows))))

    require_same(monkeypatch, precision[1], find)
    assert num_rows[0] < num_rows[1] == 12


@pytest.mark.parametrize("loss", ["sigmoid", "ipo"])
@pytest.mark.parametrize("positions", ["rope", "learned"])
def test_pairs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    precision: tuple[torch.dtype, float],
    positions: str,
    loss: str,
) -> None:
    rows = pair_rows(encode_rows(tmp_path / "rows", preferences(12), "preference"))
    rows.reference = np.linspace(-30, -5, 24).reshape(12, 2)
    options = DpoSettings(loss=loss, sft_weight=0.5)
    num_rows: list[int] = []

    def find() -> Found:
        model = model_of(precision[0], positions)
        objective = Preference(model, options, is_own_reference=False, precision="fp32")
        batch = rows.load(range(12))
        num_rows.append(len(batch.ids_BT))
        return found_by(objective, batch)

    require_same(monkeypatch, precision[1], find)
    assert num_rows[0] < num_rows[1] == 24


@pytest.mark.parametrize("profile", ["chat", "alpaca-tags", "nanochat"])
def test_what_is_trained_on_is_the_mask_one_place_on(tmp_path: Path, profile: str) -> None:
    """And the mask is that of transformers, for which see tests/parity/test_chat_templates.py."""
    made = conversations(30)
    data = train_data(encode_rows(tmp_path / "rows", made, "sft", profile=profile))
    assert data.mask is not None
    assert data.ends is not None
    rows, _ = _rows(data, CONTEXT + 1, "error")
    batch = rows.load(range(len(rows)))
    assert batch.segments_BT is not None
    found: list[tuple[list[int], int]] = []
    for row, at in (batch.targets_BT != NOT_TRAINED).nonzero().tolist():
        segments = batch.segments_BT[row, : at + 1]
        seen = batch.ids_BT[row, : at + 1][segments == segments[-1]]
        found.append((seen.tolist(), int(batch.targets_BT[row, at])))
    wanted: list[tuple[list[int], int]] = []
    start = 0
    for end in data.ends.tolist():
        ids, mask = (np.asarray(each[start:end]).tolist() for each in (data.tokens, data.mask))
        wanted += [(ids[:at], ids[at]) for at in range(1, len(ids)) if mask[at]]
        start = end
    assert sorted(found) == sorted(wanted)
    spoken = sum(m["role"] == "assistant" for row in made for m in row["messages"])
    assert len(found) > 2 * spoken
