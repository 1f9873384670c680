"""open_model: the right weights and tokenizer, or an error that says what is wrong."""

import shutil
from pathlib import Path

import pytest
import torch
from make_dataset import small_tokenizer
from make_model import random_ids, save_run, save_step, small_model

import tokenmill as tm
from tokenmill.errors import ConfigError, DeviceError, FormatError
from tokenmill.lm.model import Model
from tokenmill.lm.open_model import open_model

MODELS = {step: small_model(seed=step, tied_head=True) for step in (10, 20, 30)}


@pytest.fixture(scope="module")
def tokenizer() -> tm.Tokenizer:
    return small_tokenizer()


@pytest.fixture
def run(tmp_path: Path, tokenizer: tm.Tokenizer) -> Path:
    return save_run(tmp_path / "run", MODELS, tokenizer, {10: 3.0, 20: 2.5, 30: None})


def require_same(found: Model, wanted: Model) -> None:
    ids = random_ids(wanted, 2, 8)
    assert torch.equal(found(ids), wanted(ids))


def test_a_run_opens_at_its_last_best_or_numbered_step(run: Path, tokenizer: tm.Tokenizer) -> None:
    for step, wanted in (("last", 30), ("best", 20), (10, 10), ("10", 10)):
        loaded = open_model(run, step=step, device="cpu")
        assert loaded.step == wanted
        assert loaded.folder.name == f"step-{wanted:08}"
        assert loaded.tokenizer == tokenizer
        assert loaded.tokenizer_sha256 == tokenizer.sha256
        assert loaded.model.lm_head.weight is loaded.model.model.embed_tokens.weight
        assert not loaded.model.training
        require_same(loaded.model, MODELS[wanted])


def test_a_checkpoint_of_a_run_takes_the_tokenizer_of_the_run(
    run: Path, tokenizer: tm.Tokenizer
) -> None:
    loaded = open_model(run / "checkpoints/step-00000010", device="cpu")
    assert loaded.tokenizer == tokenizer
    require_same(loaded.model, MODELS[10])


def test_a_model_trained_on_bare_ids_has_no_tokenizer(tmp_path: Path) -> None:
    loaded = open_model(save_step(tmp_path / "one", MODELS[10], None, 10), device="cpu")
    assert loaded.tokenizer is None
    assert loaded.tokenizer_sha256 is None


def test_a_broken_last_checkpoint_gives_the_one_before(
    run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    weights = run / "checkpoints/step-00000030/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    assert open_model(run, device="cpu").step == 20
    assert "step-00000030" in caplog.text
    with pytest.raises(FormatError, match="is not what was saved"):
        open_model(run, step=30, device="cpu")


def test_what_is_not_there_is_said(run: Path, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="does not exist"):
        open_model(tmp_path / "nowhere")
    with pytest.raises(FormatError, match="is a file"):
        open_model(run / "tokenizer/tokenizer.json")
    with pytest.raises(FormatError, match="holds no model"):
        open_model(run / "tokenizer")
    with pytest.raises(ConfigError, match="no checkpoint of step 15, it has 10, 20, 30"):
        open_model(run, step=15)
    with pytest.raises(ConfigError, match="neither `last`, `best` nor a number"):
        open_model(run, step="newest")
    with pytest.raises(ConfigError, match="cannot be chosen"):
        open_model(run / "checkpoints/step-00000010", step="best")


def test_a_run_without_a_good_checkpoint(run: Path) -> None:
    for step in MODELS:
        (run / f"checkpoints/step-{step:08}/state.json").write_text("{}")
    with pytest.raises(FormatError, match="all 3 are broken"):
        open_model(run)
    with pytest.raises(FormatError, match="none is the best"):
        open_model(run, step="best")
    shutil.rmtree(run / "checkpoints")
    (run / "checkpoints").mkdir()
    with pytest.raises(FormatError, match="none at all"):
        open_model(run)


def test_a_tokenizer_that_is_missing_or_another_names_the_hashes(
    run: Path, tokenizer: tm.Tokenizer
) -> None:
    shutil.rmtree(run / "tokenizer")
    with pytest.raises(FormatError, match=tokenizer.sha256):
        open_model(run)
    other = small_tokenizer(vocab_size=280)
    other.save(run / "tokenizer")
    with pytest.raises(FormatError, match=f"{tokenizer.sha256}.*{other.sha256}"):
        open_model(run)
    assert open_model(run, tokenizer=tokenizer, device="cpu").tokenizer == tokenizer


def test_a_tokenizer_with_more_ids_than_the_model_is_refused(
    tmp_path: Path, tokenizer: tm.Tokenizer
) -> None:
    run = save_run(tmp_path / "run", {1: small_model(vocab_size=290)}, tokenizer)
    with pytest.raises(FormatError, match=r"knows 290 token ids, its tokenizer has 300"):
        open_model(run)


def test_weights_that_do_not_fit_the_settings(tmp_path: Path) -> None:
    model = small_model()
    place = save_step(
        tmp_path / "one", model, None, 1, model={**model.config.as_json(), "d_ff": 64}
    )
    with pytest.raises(FormatError, match=r"has the shape \(48, 32\), not \(64, 32\)"):
        open_model(place)


def test_a_device_that_is_not_there_is_an_error(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match="asked for `cuda`"):
        open_model(run, device="cuda")
    with pytest.raises(DeviceError, match="models run on"):
        open_model(run, device="meta")
    with pytest.raises(DeviceError, match="is no device"):
        open_model(run, device="gpu")
