"""LoRA: nothing at first, only adapters learn, and merged is what was trained, bit for bit."""

from pathlib import Path
from typing import Any

import pytest
import torch
from make_conversations import chat_tokenizer, conversations, encode_rows
from make_dataset import small_tokenizer
from make_model import random_ids, save_run, small_model

from tokenmill.errors import ConfigError
from tokenmill.lm.checkpoint import latest_checkpoint, weights_of
from tokenmill.lm.export import export_model
from tokenmill.lm.generate import generate
from tokenmill.lm.lora import LoraLinear, add_lora, merge_lora
from tokenmill.lm.model import Model
from tokenmill.lm.open_model import open_model
from tokenmill.lm.post_training_settings import TARGETS, LoraSettings, SftSettings
from tokenmill.lm.run import TrainedModel
from tokenmill.lm.sft import sft
from tokenmill.lm.sinks import LogSettings


def run(data: Path, out: Path, base: Path, lora: LoraSettings, **changes: Any) -> TrainedModel:
    settings = {"max_steps": 6, "batch_size": 4, "eval_rows": 4, "sample_every": 0, "device": "cpu"}
    return sft(
        data,
        out,
        base=base,
        options=SftSettings(lora=lora),
        logs=LogSettings(()),
        progress=False,
        **{**settings, **changes},
    )


def adapted(model: Model) -> dict[str, LoraLinear]:
    return {name: part for name, part in model.named_modules() if isinstance(part, LoraLinear)}


@pytest.mark.parametrize("targets", [TARGETS, ("q_proj", "down_proj"), ("gate_proj",)])
def test_at_first_it_computes_the_base_and_only_targets_have_adapters(
    targets: tuple[str, ...],
) -> None:
    model, ids = small_model(2, num_kv_heads=2), random_ids(small_model(), 3, 16)
    before = {name: weight.clone() for name, weight in weights_of(model).items()}
    wanted = model(ids)
    add_lora(model, LoraSettings(rank=3, targets=targets), seed=7)
    assert torch.equal(model(ids), wanted)
    wanted_names = {
        f"model.layers.{layer}.{'self_attn' if target[0] in 'qkvo' else 'mlp'}.{target}"
        for layer in range(2)
        for target in targets
    }
    assert adapted(model).keys() == wanted_names
    trained = {name for name, weight in model.named_parameters() if weight.requires_grad}
    assert trained == {f"{name}.lora_{which}" for name in wanted_names for which in "AB"}
    merged = merge_lora(weights_of(model), LoraSettings(rank=3, targets=targets))
    assert merged.keys() == before.keys()
    assert all(torch.equal(weight, before[name]) for name, weight in merged.items())


def test_the_seed_decides_what_is_drawn() -> None:
    first, same, other = (small_model() for _ in range(3))
    for model, seed in ((first, 1), (same, 1), (other, 2)):
        add_lora(model, LoraSettings(), seed=seed)
    drawn = [adapted(model)["model.layers.1.mlp.up_proj"].lora_A for model in (first, same, other)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert not torch.equal(drawn[0], adapted(first)["model.layers.0.mlp.up_proj"].lora_A)


def test_the_product_counts_alpha_over_rank_times() -> None:
    model = small_model()
    add_lora(model, LoraSettings(rank=2, alpha=3.0, targets=("v_proj",)), seed=0)
    part = adapted(model)["model.layers.0.self_attn.v_proj"]
    with torch.no_grad():
        part.lora_B.copy_(random_ids(model, *part.lora_B.shape).float())
    x = torch.randn(5, 32, generator=torch.Generator().manual_seed(0))
    wanted = x @ part.frozen.t() + 1.5 * (x @ part.lora_A.t()) @ part.lora_B.t()
    torch.testing.assert_close(part(x), wanted, rtol=1e-4, atol=1e-3)


def test_a_trained_run_is_opened_merged_bit_for_bit(
    tmp_path: Path, chats: Path, talker: Path
) -> None:
    lora = LoraSettings(rank=4, targets=("q_proj", "o_proj", "up_proj"))
    made = run(chats, tmp_path / "run", talker, lora)
    base, last = open_model(talker), latest_checkpoint(tmp_path / "run" / "checkpoints")
    assert last is not None
    saved, before = last.weights(), weights_of(base.model)
    for name, weight in before.items():
        kept = saved.get(name, saved.get(name.replace(".weight", ".frozen")))
        assert kept is not None, name
        assert torch.equal(kept, weight), name
    highs = [weight for name, weight in saved.items() if name.endswith("lora_B")]
    assert len(highs) == 6
    assert all(weight.abs().max() > 0 for weight in highs)
    moments = {name.split("/")[0] for name in last.optimizer()}
    assert moments == {name for name in saved if "lora_" in name}
    opened = open_model(tmp_path / "run")
    assert not adapted(opened.model)
    ids = random_ids(opened.model, 4, 30)
    exported = open_model(export_model(opened, tmp_path / "hf"))
    for gradients in (True, False):  # which take other ways
        with torch.set_grad_enabled(gradients):
            merged = opened.model(ids)
            assert torch.equal(made.model.eval()(ids), merged)
            assert torch.equal(exported.model(ids), merged)
            assert not torch.equal(base.model(ids), merged)
    prompt = [[1, 2, 3]]
    texts = {
        generate(each.model, each.tokenizer, prompt, max_tokens=8, temperature=0)[0].text
        for each in (opened, exported)
    }
    assert len(texts) == 1


def test_new_tokens_are_learned_whole(tmp_path: Path) -> None:
    """An adapter beside an embedding that nobody has learned would not be enough."""
    base = save_run(tmp_path / "base", {1: small_model(context=64)}, small_tokenizer())
    data = encode_rows(tmp_path / "rows", conversations(12), "sft")
    made = run(data, tmp_path / "run", base, LoraSettings(), lr=1e-2)
    trained = {name for name, weight in made.model.named_parameters() if weight.requires_grad}
    whole = {name for name in trained if "lora_" not in name}
    assert whole == {"model.embed_tokens.weight", "lm_head.weight"}
    opened = open_model(tmp_path / "run")
    assert opened.model.config.vocab_size == 304
    assert opened.tokenizer is not None
    assert opened.tokenizer.sha256 == chat_tokenizer().sha256
    rows = opened.model.model.embed_tokens.weight
    user, end = (opened.tokenizer.special_tokens[token] for token in ("<|user|>", "<|end|>"))
    assert not torch.equal(rows[user], rows[end])
    # A second stage from here has nothing new to learn.
    again = run(data, tmp_path / "again", tmp_path / "run", LoraSettings())
    trained = {name for name, weight in again.model.named_parameters() if weight.requires_grad}
    assert all("lora_" in name for name in trained)


def test_with_a_tied_head_the_one_matrix_is_learned(tmp_path: Path) -> None:
    model = small_model(context=64, tied_head=True)
    base = save_run(tmp_path / "base", {1: model}, small_tokenizer())
    data = encode_rows(tmp_path / "rows", conversations(12), "sft")
    made = run(data, tmp_path / "run", base, LoraSettings())
    opened = open_model(tmp_path / "run")
    ids = random_ids(opened.model, 2, 30)
    assert opened.model.lm_head.weight is opened.model.model.embed_tokens.weight
    with torch.no_grad():
        assert torch.equal(made.model.eval()(ids), opened.model(ids))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rank": 0}, "rank of LoRA"),
        ({"rank": 2.5}, "rank of LoRA"),
        ({"alpha": 0.0}, "alpha 0.0 of LoRA is not above 0"),
        ({"alpha": float("nan")}, "alpha nan"),
        ({"targets": ()}, r"(?s)no targets.*q_proj, k_proj"),
        ({"targets": ("q_prj",)}, r"(?s)q_prj.*`q_proj`"),
        ({"targets": ("lm_head",)}, "lm_head"),
    ],
)
def test_settings_that_make_no_sense(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        LoraSettings(**changes)


def test_a_model_without_any_of_the_targets_is_refused(tmp_path: Path, chats: Path) -> None:
    """With `relu2` there is no gate."""
    model = small_model(vocab_size=304, context=64, activation="relu2")
    base = save_run(tmp_path / "base", {1: model}, chat_tokenizer())
    with pytest.raises(ConfigError, match=r"`gate_proj`.*has none"):
        run(chats, tmp_path / "run", base, LoraSettings(targets=("gate_proj",)))
    assert not (tmp_path / "run").exists()
    made = run(chats, tmp_path / "run", base, LoraSettings(targets=("gate_proj", "up_proj")))
    assert {name.split(".")[-1] for name in adapted(made.model)} == {"up_proj"}


def test_another_adapter_is_another_run(tmp_path: Path, chats: Path, talker: Path) -> None:
    run(chats, tmp_path / "run", talker, LoraSettings(rank=4), max_steps=2)
    with pytest.raises(ConfigError, match="was begun with `lora`"):
        run(chats, tmp_path / "run", talker, LoraSettings(rank=8), max_steps=2)
