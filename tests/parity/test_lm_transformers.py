"""Exported models and transformers: the same logits, gradients and greedy text from the same folder."""

import importlib.metadata
from pathlib import Path
from typing import Any

import pytest
import torch
from make_conversations import conversations, encode_rows, talking_model
from make_dataset import small_tokenizer
from make_model import random_ids, small_model

import tokenmill as tm
from tokenmill.lm.export import export_model
from tokenmill.lm.generate import generate
from tokenmill.lm.model import KeyValueCache, Model
from tokenmill.lm.open_model import LoadedModel, open_model
from tokenmill.lm.post_training_settings import LoraSettings, SftSettings
from tokenmill.lm.sampling import filter_logits
from tokenmill.lm.sft import sft
from tokenmill.lm.sinks import LogSettings

# transformers checks the version of `regex` when it is imported; see test_artifact.py.
_version = importlib.metadata.version
importlib.metadata.version = lambda name: "2025.10.22" if name == "regex" else _version(name)
import transformers  # noqa: E402

importlib.metadata.version = _version
torch.set_num_threads(1)

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "tied": {"tied_head": True, "init": "gpt2"},
    "grouped": {"num_kv_heads": 2},
    "one key head, tied": {"num_kv_heads": 1, "tied_head": True},
    "odd sizes": {"vocab_size": 307, "d_model": 30, "num_heads": 3, "d_ff": 37, "num_layers": 3},
    "wide heads": {"head_dim": 14, "num_kv_heads": 2},
    "rope": {"rope_theta": 321.0, "norm_eps": 1e-3},
    "qwen3": {"qk_norm": True},
    "qwen3 grouped, tied": {"qk_norm": True, "num_kv_heads": 2, "tied_head": True},
    "qwen3 wide heads": {"qk_norm": True, "head_dim": 20, "num_kv_heads": 1, "rope_theta": 1e6},
}


@pytest.fixture(scope="module")
def tokenizer() -> tm.Tokenizer:
    return small_tokenizer()


def exported(model: Model, folder: Path, tokenizer: tm.Tokenizer | None = None) -> Any:
    """What transformers opens, in its plain attention."""
    digest = None if tokenizer is None else tokenizer.sha256
    export_model(LoadedModel(model, tokenizer, 1, folder, digest), folder)
    return transformers.AutoModelForCausalLM.from_pretrained(folder).eval()


@pytest.mark.parametrize("name", VARIANTS)
def test_logits_gradients_and_cached_logits(name: str, tmp_path: Path) -> None:
    model = small_model(**VARIANTS[name])
    theirs = exported(model, tmp_path / "out")
    wanted = "Qwen3ForCausalLM" if model.config.qk_norm else "LlamaForCausalLM"
    assert type(theirs).__name__ == wanted
    ids = random_ids(model, 3, 16)
    ours_logits, their_logits = model(ids), theirs(ids).logits
    assert ours_logits.std() > 0.1
    torch.testing.assert_close(ours_logits, their_logits, rtol=0, atol=1e-5)

    for logits in (ours_logits, their_logits):
        targets = ids[:, 1:].flatten()
        torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), targets).backward()
    gradients = {key: weight.grad for key, weight in theirs.named_parameters()}
    mine = dict(model.named_parameters())
    assert mine.keys() == gradients.keys()
    for key, weight in mine.items():
        assert weight.grad is not None
        assert weight.grad.abs().max() > 0
        torch.testing.assert_close(weight.grad, gradients[key], rtol=0, atol=1e-4)

    with torch.inference_mode():
        cache, past = KeyValueCache(model, 3), None
        for start, end in ((0, 5), (5, 6), (6, 11), (11, 16)):
            answer = theirs(ids[:, start:end], past_key_values=past, use_cache=True)
            past = answer.past_key_values
            found = model(ids[:, start:end], cache=cache)
            torch.testing.assert_close(found, answer.logits, rtol=0, atol=1e-5)


@pytest.mark.parametrize("kind", ["Llama", "Qwen3"])
@pytest.mark.parametrize("tied", [True, False])
def test_a_folder_that_transformers_wrote(kind: str, tied: bool, tmp_path: Path) -> None:
    settings = getattr(transformers, f"{kind}Config")(
        vocab_size=90,
        hidden_size=24,
        intermediate_size=44,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=40,
        tie_word_embeddings=tied,
        **({"head_dim": 16} if kind == "Qwen3" else {}),
    )
    torch.manual_seed(0)
    theirs = getattr(transformers, f"{kind}ForCausalLM")(settings).eval()
    theirs.save_pretrained(tmp_path / "whole")
    theirs.save_pretrained(tmp_path / "shards", max_shard_size="8KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    ids = torch.arange(40)[None] * 7 % 90
    for folder in ("whole", "shards"):
        model = open_model(tmp_path / folder, device="cpu").model
        assert model.config.context == 40
        torch.testing.assert_close(model(ids), theirs(ids).logits, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["grouped", "qwen3 grouped, tied"])
def test_the_folder_reloads_with_its_tokenizer_and_writes_the_same_text(
    name: str, tmp_path: Path, tokenizer: tm.Tokenizer
) -> None:
    model = small_model(**VARIANTS[name], context=64)
    template = "{% for message in messages %}{{ message.content }}{% endfor %}"
    theirs = exported(model, tmp_path / "out", tokenizer.with_chat_template(template))
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert their_tokenizer.chat_template == template
    assert their_tokenizer.eos_token_id == tokenizer.special_tokens["<|endoftext|>"]
    for prompt in ("the cat", "naïve ☕", "def f(x):"):
        inputs = their_tokenizer(prompt, return_tensors="pt")
        assert inputs["input_ids"][0].tolist() == tokenizer.encode(prompt)
        answer = theirs.generate(**inputs, max_new_tokens=40, do_sample=False)
        new = answer[0, inputs["input_ids"].shape[1] :]
        (ours,) = generate(model, tokenizer, [prompt], max_tokens=40, temperature=0)
        assert ours.text == their_tokenizer.decode(new, skip_special_tokens=True)
        assert len(ours.ids) > 3


def test_adapters_are_merged_in_what_transformers_opens(tmp_path: Path) -> None:
    made = sft(
        encode_rows(tmp_path / "rows", conversations(12), "sft"),
        tmp_path / "run",
        base=talking_model(tmp_path / "base"),
        options=SftSettings(lora=LoraSettings(rank=4)),
        logs=LogSettings(()),
        progress=False,
        max_steps=5,
        batch_size=4,
        lr=1e-2,
        device="cpu",
    )
    loaded = open_model(tmp_path / "run")
    theirs = exported(loaded.model, tmp_path / "hf", loaded.tokenizer)
    ids = random_ids(loaded.model, 3, 40)
    with torch.no_grad():
        wanted, base = made.model.eval()(ids), open_model(tmp_path / "base").model(ids)
        found = theirs(ids).logits
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)
    assert (wanted - base).abs().max() > 0.1


@pytest.mark.parametrize("temperature", [1.0, 0.3, 1.7])
@pytest.mark.parametrize("top_k", [None, 1, 5, 40, 500])
@pytest.mark.parametrize("top_p", [None, 1e-6, 0.1, 0.5, 0.9, 0.999, 1.0])
def test_filters_equal_the_warpers(
    temperature: float, top_k: int | None, top_p: float | None
) -> None:
    generator = torch.Generator().manual_seed(0)
    sharp = torch.randn(3, 300, generator=generator) * 4
    flat = torch.randn(3, 300, generator=generator) * 0.01
    # Steps of a half: many tokens are equally likely.
    equal = (torch.randn(3, 300, generator=generator) * 2).round() / 2
    logits = torch.cat((sharp, flat, equal))
    wanted: Any = logits
    no_ids: Any = None
    if temperature != 1.0:
        wanted = transformers.TemperatureLogitsWarper(temperature)(no_ids, wanted)
    if top_k is not None:
        wanted = transformers.TopKLogitsWarper(top_k)(no_ids, wanted)
    if top_p is not None and top_p < 1.0:
        wanted = transformers.TopPLogitsWarper(top_p)(no_ids, wanted)
    found = filter_logits(logits, temperature=temperature, top_k=top_k, top_p=top_p)
    assert torch.equal(found, wanted)


def test_several_prompts_at_once_write_what_transformers_writes(
    tmp_path: Path, tokenizer: tm.Tokenizer
) -> None:
    """Rows of several lengths, padded in front there as here."""
    model = small_model(num_kv_heads=2, context=64)
    theirs = exported(model, tmp_path / "out", tokenizer)
    prompts = ["the cat sat on the mat", "x", "naïve café"]
    rows = [tokenizer.encode(prompt) for prompt in prompts]
    width = max(len(row) for row in rows)
    eos = tokenizer.special_tokens["<|endoftext|>"]
    ids = torch.tensor([[eos] * (width - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows])
    answer = theirs.generate(ids, attention_mask=mask, max_new_tokens=30, do_sample=False)
    ours = generate(model, tokenizer, prompts, max_tokens=30, temperature=0)
    for row, one in enumerate(ours):
        new = answer[row, width:].tolist()
        assert one.ids == new[: new.index(eos)] if eos in new else one.ids == new
