"""Export: what transformers reads, whole or absent, and a clear no to what it cannot compute."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from make_dataset import small_tokenizer
from make_model import random_ids, small_model

import tokenmill as tm
from tokenmill import chat
from tokenmill.errors import ConfigError
from tokenmill.lm.export import export_model
from tokenmill.lm.model import Model
from tokenmill.lm.open_model import LoadedModel, open_model


@pytest.fixture(scope="module")
def tokenizer() -> tm.Tokenizer:
    return small_tokenizer().with_chat_template("{{ messages[0].content }}")


def loaded(model: Model, tokenizer: tm.Tokenizer | None = None) -> LoadedModel:
    digest = None if tokenizer is None else tokenizer.sha256
    return LoadedModel(model, tokenizer, 7, Path("somewhere"), digest)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tied_head": True, "rope_theta": 500.0},
        {"qk_norm": True, "num_kv_heads": 2},
        {"num_kv_heads": 1, "head_dim": 12},
    ],
    ids=str,
)
def test_what_was_exported_opens_again_as_the_same_model(
    changes: dict[str, Any], tmp_path: Path, tokenizer: tm.Tokenizer
) -> None:
    model = small_model(**changes)
    folder = export_model(loaded(model, tokenizer), tmp_path / "out")
    again = open_model(folder, device="cpu")
    ids = random_ids(model, 2, 9)
    assert torch.equal(again.model(ids), model(ids))
    assert again.tokenizer == tokenizer
    assert again.tokenizer is not None
    assert again.tokenizer.sha256 == tokenizer.sha256
    assert again.tokenizer.chat_template == tokenizer.chat_template
    assert again.step is None
    # How weights were drawn, and dropout, are not of the model any more.
    assert again.model.config.as_json() == {**model.config.as_json(), "init": "gpt2"}


def test_the_files_of_an_export(tmp_path: Path, tokenizer: tm.Tokenizer) -> None:
    folder = export_model(loaded(small_model(), tokenizer), tmp_path / "out")
    names = {path.name for path in folder.iterdir()}
    assert names >= {"config.json", "generation_config.json", "model.safetensors", "README.md"}
    assert names >= {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}
    assert "manifest.json" not in names
    eos = tokenizer.special_tokens["<|endoftext|>"]
    config = json.loads((folder / "config.json").read_text())
    assert (config["bos_token_id"], config["eos_token_id"]) == (None, eos)
    assert json.loads((folder / "generation_config.json").read_text())["eos_token_id"] == eos
    assert "step 7" in (folder / "README.md").read_text()


@pytest.mark.parametrize("profile", ["chat", "alpaca-tags", "nanochat"])
def test_others_end_an_answer_where_we_do(profile: str, tmp_path: Path) -> None:
    tokenizer = chat.prepare_tokenizer(small_tokenizer(), profile)
    model = small_model(vocab_size=tokenizer.vocab_size)
    folder = export_model(loaded(model, tokenizer), tmp_path / "out")
    stop = chat.PROFILES[profile].stop_token
    assert stop is not None
    found = json.loads((folder / "generation_config.json").read_text())
    eos = tokenizer.special_tokens["<|endoftext|>"]
    assert found["eos_token_id"] == [tokenizer.special_tokens[stop], eos]
    assert found["pad_token_id"] == eos


def test_a_model_without_a_tokenizer_and_in_half_the_bytes(tmp_path: Path) -> None:
    model = small_model()
    full = export_model(loaded(model), tmp_path / "full")
    half = export_model(loaded(model), tmp_path / "half", dtype="bfloat16")
    sizes = [(folder / "model.safetensors").stat().st_size for folder in (full, half)]
    assert 1.8 < sizes[0] / sizes[1] < 2
    ids = random_ids(model, 1, 5)
    assert torch.allclose(open_model(half, device="cpu").model(ids), model(ids), atol=0.1)
    with pytest.raises(ConfigError, match="unknown type of weights `int8`"):
        export_model(loaded(model), tmp_path / "third", dtype="int8")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"norm": "layernorm"}, "norm `layernorm`"),
        ({"norm_place": "post"}, "norm place `post`"),
        ({"norm_place": "none"}, "norm place `none`"),
        ({"positions": "learned"}, "positions `learned`"),
        ({"positions": "none", "softcap": 15.0}, "positions `none` and softcap `15.0`"),
        ({"activation": "relu2"}, "activation `relu2`"),
    ],
)
def test_what_has_no_counterpart_is_refused_and_nothing_written(
    changes: dict[str, Any], named: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=named):
        export_model(loaded(small_model(**changes)), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_an_export_is_repeated_freely_and_replaced_only_by_force(tmp_path: Path) -> None:
    first, second = loaded(small_model(seed=0)), loaded(small_model(seed=1))
    folder = export_model(first, tmp_path / "out")
    before = (folder / "model.safetensors").read_bytes()
    export_model(first, folder)
    with pytest.raises(ConfigError, match="already holds another model"):
        export_model(second, folder)
    assert (folder / "model.safetensors").read_bytes() == before
    export_model(second, folder, force=True)
    assert (folder / "model.safetensors").read_bytes() != before
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"holds `notes.txt`"):
        export_model(first, folder, force=True)
    assert {path.name for path in tmp_path.iterdir()} == {"out"}
