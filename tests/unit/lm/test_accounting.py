# pyright: basic
"""Accounting against torch: the numel of real models, its FLOP counter, what autograd keeps; and against document 003."""

import random
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from tokenmill.errors import ConfigError
from tokenmill.lm import loss, passes
from tokenmill.lm.accounting import CHUNK_BYTES, FLOAT_BYTES, Account, account
from tokenmill.lm.model import KeyValueCache, Model
from tokenmill.lm.model_config import (
    ACTIVATIONS,
    NORM_PLACES,
    NORMS,
    POSITIONS,
    ModelConfig,
    preset,
)


def random_config(number: int) -> ModelConfig:
    """Every fifth choice of each option meets every other within twenty."""
    chance = random.Random(number)
    kv_heads, d_head = chance.choice((1, 2, 3)), 2 * chance.randint(1, 8)
    num_heads = kv_heads * chance.choice((1, 2, 4))
    return ModelConfig(
        vocab_size=chance.randint(2, 300),
        context=chance.randint(1, 40),
        num_layers=chance.randint(1, 4),
        d_model=num_heads * d_head,
        num_heads=num_heads,
        num_kv_heads=chance.choice((kv_heads, None)),
        d_ff=chance.choice((None, chance.randint(1, 200))),
        norm=NORMS[number % 2],
        norm_place=NORM_PLACES[number % 3],
        positions=POSITIONS[number // 2 % 3],
        activation=ACTIVATIONS[number % 4],
        tied_head=chance.random() < 0.4,
        qk_norm=chance.random() < 0.4,
        softcap=chance.choice((None, 20.0)),
    )


CONFIGS = [random_config(number) for number in range(20)]


def test_the_random_configs_have_every_option() -> None:
    for name, known in (
        ("norm", NORMS),
        ("norm_place", NORM_PLACES),
        ("positions", POSITIONS),
        ("activation", ACTIVATIONS),
        ("tied_head", (False, True)),
        ("qk_norm", (False, True)),
    ):
        assert {getattr(config, name) for config in CONFIGS} == set(known)
    assert {config.kv_heads < config.num_heads for config in CONFIGS} == {False, True}


@pytest.mark.parametrize("config", CONFIGS, ids=range(20))
def test_parameters_are_those_of_the_model(config: ModelConfig) -> None:
    with torch.device("meta"):
        model = Model(config)
    found = account(config)
    assert found.parameters.total == model.num_parameters
    by_name = {name: weight.numel() for name, weight in model.named_parameters()}
    blocks = sum(n for name, n in by_name.items() if "layers" in name or "norm" in name)
    assert found.non_embedding == blocks
    # named_parameters shows a tied matrix once, as the embedding; it multiplies as the head does.
    tables = {"embed_positions", *(() if config.tied_head else ("embed_tokens",))}
    multiplying = sum(n for name, n in by_name.items() if not any(t in name for t in tables))
    assert found.without_input_embedding == multiplying


@pytest.mark.parametrize("config", CONFIGS, ids=range(20))
def test_flops_are_those_of_torch(config: ModelConfig) -> None:
    # Learned positions look at numbers, which meta tensors have none of.
    device = "cpu" if config.positions == "learned" else "meta"
    with torch.device(device), sdpa_kernel(SDPBackend.MATH):
        model, ids = Model(config), torch.zeros(3, config.context, dtype=torch.int64)
        with FlopCounterMode(display=False) as forth:
            logits = model(ids)
        with FlopCounterMode(display=False) as both:
            model(ids).sum().backward()
    assert logits.shape == (3, config.context, config.vocab_size)
    found = account(config)
    assert 3 * found.forward.total == forth.get_total_flops()
    assert 3 * found.training_flops == both.get_total_flops()


def kept_by_autograd(config: ModelConfig, batch_size: int) -> int:
    """Bytes of all tensors that the way back needs, beside weights and logits."""
    model = Model(config).train()
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    ids = torch.zeros(batch_size, config.context, dtype=torch.int64)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model.lm_head(model.hidden(ids))
    return sum(t.untyped_storage().nbytes() for at, t in kept.items() if at not in weights)


@pytest.fixture
def _plain_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model as it runs everywhere but in training on a CPU."""
    monkeypatch.setattr(passes, "pays_off", lambda _: False)


@pytest.mark.usefixtures("_plain_form")
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("config", CONFIGS, ids=range(20))
def test_activations_are_what_autograd_keeps(config: ModelConfig, dropout: float) -> None:
    changed = ModelConfig.from_json({**config.as_json(), "dropout": dropout, "softcap": None})
    found = account(changed, batch_size=2).memory["activations"]
    assert found == pytest.approx(kept_by_autograd(changed, 2), rel=0.1)


@pytest.mark.usefixtures("_plain_form")
@pytest.mark.parametrize(
    "changes", [{}, {"qk_norm": True, "num_kv_heads": 2}, {"norm_place": "post"}]
)
def test_activations_of_a_preset_are_exact(changes: dict[str, Any]) -> None:
    config = preset("1m", context=32, vocab_size=300, **changes)
    assert account(config, batch_size=2).memory["activations"] == kept_by_autograd(config, 2)


def test_training_on_a_cpu_keeps_less() -> None:
    config = preset("1m")
    found = account(config, batch_size=8).memory["activations"]
    assert 0.8 * found < kept_by_autograd(config, 8) < found


def test_memory() -> None:
    config = preset("1m", num_kv_heads=2)
    found = account(config, batch_size=3)
    model = Model(config)
    weights = sum(weight.nbytes for weight in model.parameters())
    memory = found.memory
    assert memory["weights"] == memory["gradients"] == weights
    assert memory["optimizer"] == 2 * weights
    cache = KeyValueCache(model, 3)
    assert found.other_memory["key_value_cache"] == cache.both.nbytes
    assert found.other_memory["logits_whole"] == 3 * 3 * 128 * 2048 * FLOAT_BYTES
    assert memory.total == sum(memory.as_json()["components"].values())
    assert memory["activations"] > found.other_memory["activations_compiled"]
    assert memory["logits"] == found.other_memory["logits_whole"] < 3 * CHUNK_BYTES
    assert account(config, batch_size=300).memory["logits"] == 3 * CHUNK_BYTES
    assert CHUNK_BYTES == loss.CHUNK_BYTES


def test_compiled_activations_by_the_known_rule() -> None:
    """8·d + 3·f numbers for each token and layer, as torch 2.15's partitioner keeps them; what is outside the layers is little."""
    config = preset("gpt2")
    per_token = 12 * (8 * 768 + 3 * 3072 + 2 + 12)
    found = account(config).other_memory["activations_compiled"] / FLOAT_BYTES / 1024
    assert found == pytest.approx(per_token, rel=0.02)


def shares(found: Account) -> dict[str, float]:
    return {
        each.name: round(100 * found.forward.share(each.name), 2)
        for each in found.forward.components
    }


def test_numbers_of_document_003() -> None:
    found = account(preset("gpt2-xl"), context=1024)
    assert found.parameters.total == 2_127_057_600
    assert round(found.memory["weights"] / 2**30, 2) == 7.92
    assert found.forward.total == 4_513_336_524_800
    assert found.forward["ffn"] == 3_019_898_880_000
    assert shares(found) == {"projections": 22.3, "attention": 7.14, "ffn": 66.91, "head": 3.65}
    long = account(preset("gpt2-xl"), context=16_384)
    assert long.forward.total == 149_522_795_724_800
    assert round(long.forward.total / found.forward.total) == 33
    assert shares(long) == {"projections": 10.77, "attention": 55.15, "ffn": 32.32, "head": 1.76}
    assert long.parameters.total == found.parameters.total


@pytest.mark.parametrize(
    ("name", "total", "ffn", "head", "attention"),
    [
        ("gpt2", 349_630_365_696, 49.75, 22.61, 11.06),
        ("gpt2-medium", 1_033_109_504_000, 59.87, 10.2, 9.98),
        ("gpt2-large", 2_257_754_521_600, 64.2, 5.84, 8.56),
    ],
)
def test_shares_of_smaller_ones(
    name: str, total: int, ffn: float, head: float, attention: float
) -> None:
    found = account(preset(name))
    assert found.forward.total == total
    by_name = shares(found)
    assert (by_name["ffn"], by_name["head"], by_name["attention"]) == (ffn, head, attention)
    assert sum(by_name.values()) == pytest.approx(100, abs=0.03)


def test_three_counts_of_the_course_model() -> None:
    found = account(preset("17m"))
    assert found.parameters.total == 22_696_448
    assert found.without_input_embedding == 22_696_448 - 5_120_000
    assert found.non_embedding == 12_456_448
    assert round(found.rule_of_thumb / found.training_flops, 2) == 1.22


def test_training_flops_per_token_both_ways() -> None:
    found = account(preset("gpt2-xl"))
    config = found.config
    matrices = sum(found.parameters[name] for name in ("attention", "ffn", "head"))
    by_palm = 6 * matrices + 12 * config.num_layers * config.d_model * config.context
    assert found.training_flops_per_token == by_palm == 13_222_665_600


def test_causal_attention_counts_what_may_be_seen() -> None:
    for context in (1, 2, 7):
        config = preset("1m", context=context)
        pairs = sum(position + 1 for position in range(context))
        seen = 4 * config.num_layers * pairs * config.d_model
        found = account(config)
        assert found.causal_forward_flops == found.forward.total - found.forward["attention"] + seen


def test_products_say_what_they_multiply() -> None:
    found = account(preset("gpt2-xl"))
    said = {
        product.what: str(product)
        for breakdown in (found.parameters, found.forward)
        for component in breakdown.components
        for product in component.products
    }
    assert said["token embedding"] == "vocab · d_model = 50,257 · 1,600 = 80,411,200"
    assert said["last norm"] == "d_model = 1,600"
    assert said["queries by keys"] == (
        "layers · 2 · tokens · tokens · heads·d_head = 48 · 2 · 1,024 · 1,024 · 1,600 = 161,061,273,600"
    )


@pytest.mark.parametrize("wrong", [{"context": 0}, {"batch_size": 0}, {"context": 1.5}])
def test_sizes_that_are_none(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        account(preset("1m"), **wrong)


def test_another_context_needs_other_learned_positions() -> None:
    config = preset("1m", positions="learned")
    longer = account(config, context=256).parameters.total - account(config).parameters.total
    assert longer == 128 * config.d_model
