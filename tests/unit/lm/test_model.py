"""The transformer: shapes, options, masks, seeds."""

from dataclasses import replace
from itertools import product

import pytest
import torch

from tokenmill.errors import ConfigError
from tokenmill.lm.model import Model
from tokenmill.lm.model_config import (
    ACTIVATIONS,
    NORM_PLACES,
    NORMS,
    POSITIONS,
    PRESETS,
    ModelConfig,
    preset,
)

IDS = torch.tensor([[5, 9, 2, 7, 1, 1, 8, 3], [4, 4, 4, 0, 9, 2, 6, 6]])


@pytest.mark.parametrize(
    "options",
    [
        dict(zip(("norm", "norm_place", "positions", "activation"), chosen, strict=True))
        for chosen in product(NORMS, NORM_PLACES, POSITIONS, ACTIVATIONS)
    ],
    ids=lambda options: "-".join(options.values()),
)
def test_every_option_trains(small: ModelConfig, options: dict[str, str]) -> None:
    config = replace(small, **options, qk_norm=True, softcap=20.0, num_kv_heads=2, dropout=0.1)
    model = Model(config, seed=1)
    logits = model(IDS)
    assert logits.shape == (2, 8, 300)
    assert logits.abs().max() <= 20
    logits.logsumexp(-1).sum().backward()
    assert all(
        weight.grad is not None and weight.grad.isfinite().all() for weight in model.parameters()
    )


def test_nothing_looks_ahead(small: ModelConfig) -> None:
    model = Model(small, seed=1).eval()
    changed = IDS.clone()
    changed[:, 5:] = 11
    with torch.no_grad():
        before, after = model(IDS), model(changed)
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.equal(before[:, 5], after[:, 5])


@pytest.mark.parametrize("positions", POSITIONS)
def test_documents_in_one_row_are_as_if_alone(small: ModelConfig, positions: str) -> None:
    model = Model(replace(small, positions=positions), seed=1).eval()
    segments = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1, 1, 2]])
    with torch.no_grad():
        together = model(IDS, segments_BT=segments)
        for row, (start, end) in ((0, (0, 3)), (0, (3, 8)), (1, (1, 7)), (1, (7, 8))):
            alone = model(IDS[row : row + 1, start:end])
            torch.testing.assert_close(together[row : row + 1, start:end], alone, atol=1e-5, rtol=0)


def test_weights_follow_from_the_seed(small: ModelConfig) -> None:
    torch.manual_seed(5)
    first = Model(small, seed=3)
    torch.manual_seed(6)
    second, third = Model(small, seed=3), Model(small, seed=4)
    for name, weight in first.named_parameters():
        assert torch.equal(weight, dict(second.named_parameters())[name])
    assert not torch.equal(first.lm_head.weight, third.lm_head.weight)


def test_tied_heads_are_one_matrix(small: ModelConfig) -> None:
    tied, untied = Model(replace(small, tied_head=True)), Model(small)
    assert tied.lm_head.weight is tied.model.embed_tokens.weight
    assert untied.num_parameters - tied.num_parameters == 300 * 32


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("1m", 1_377_408),
        ("4m", 3_443_136),
        ("17m", 22_696_448),
        ("30m", 34_087_424),
        ("60m", 64_732_800),
        ("124m", 110_119_680),
        ("160m", 161_049_408),
        ("gpt2-xl", 2_127_057_600),
    ],
)
def test_presets_have_the_parameters_they_promise(name: str, parameters: int) -> None:
    with torch.device("meta"):
        assert Model(PRESETS[name]).num_parameters == parameters


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_heads": 5}, "not a multiple of num_heads 5"),
        ({"num_kv_heads": 3}, "not a multiple of num_kv_heads 3"),
        ({"norm_place": "before"}, "unknown norm place"),
        ({"dropout": 1.0}, "dropout"),
        ({"d_model": 12, "num_heads": 4}, "even number"),
        ({"context": 0}, "below 1"),
        ({"layers": 3}, "did you mean `num_layers`"),
    ],
)
def test_shapes_that_cannot_be(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        preset("1m", **changes)
    with pytest.raises(ConfigError, match="did you mean `1m`"):
        preset("1mm")


@pytest.mark.parametrize("tied_head", [False, True])
def test_an_empty_model_takes_weights(tied_head: bool) -> None:
    config = preset("1m", vocab_size=50, num_layers=1, context=8, tied_head=tied_head)
    full, empty = Model(config, seed=3), Model.empty(config, torch.device("cpu"))
    assert empty.num_parameters == full.num_parameters
    empty.load_state_dict(full.state_dict())
    ids = torch.arange(8).unsqueeze(0)
    assert torch.equal(empty(ids), full(ids))
