"""Training that starts from a model: its weights at step 0, its shape, its tokenizer; then a run like any other."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from make_model import save_run, small_model

import tokenmill as tm
from tokenmill.errors import ConfigError
from tokenmill.lm.checkpoint import find_checkpoints, latest_checkpoint, weights_of
from tokenmill.lm.export import export_model
from tokenmill.lm.import_model import import_model
from tokenmill.lm.loop import StepResult
from tokenmill.lm.model import Model
from tokenmill.lm.open_model import open_model
from tokenmill.lm.pretrain import pretrain
from tokenmill.lm.run import TrainedModel
from tokenmill.lm.save_imported import save_imported
from tokenmill.lm.sinks import LogSettings
from tokenmill.lm.start_from import weights_sha256
from tokenmill.lm.token_data import DataSettings


def run(data: Path | DataSettings, out: Path, **changes: Any) -> TrainedModel:
    settings = {"max_steps": 30, "batch_size": 8, "save_every": 10, "eval_rows": 8, "device": "cpu"}
    return pretrain(data, out, logs=LogSettings(()), progress=False, **{**settings, **changes})


def saved(folder: Path, model: Model, dataset: Path) -> Path:
    return save_run(folder, {7: model}, tm.Tokenizer.load(dataset / "tokenizer"))


def origin_of(run: Path) -> dict[str, Any]:
    return json.loads((run / "run.json").read_text())["from"]


@pytest.fixture
def base(tmp_path: Path, dataset: Path) -> Path:
    return saved(tmp_path / "base", small_model(seed=5), dataset)


def stopped_at(step: int) -> Any:
    def stop(result: StepResult) -> None:
        if result.step == step:
            raise KeyboardInterrupt

    return stop


@pytest.mark.parametrize("kind", ["run", "checkpoint", "transformers", "imported"])
def test_the_first_weights_are_those_of_the_model(
    tmp_path: Path, dataset: Path, base: Path, kind: str
) -> None:
    place = base
    if kind == "checkpoint":
        place = base / "checkpoints" / "step-00000007"
    elif kind != "run":
        place = export_model(open_model(base), tmp_path / "hf")
        if kind == "imported":
            place = save_imported(import_model(place), tmp_path / "ours")
    made = run(dataset, tmp_path / "new", start_from=place, max_steps=2, lr=1e-12, weight_decay=0)
    assert made.step == 2
    for name, weight in weights_of(small_model(seed=5)).items():
        torch.testing.assert_close(weight, weights_of(made.model)[name], atol=1e-9, rtol=0)
    # One hash for the weights, whatever holds them.
    assert origin_of(tmp_path / "new") == {
        "path": str(place),
        "step": {"run": 7, "checkpoint": 7, "transformers": None, "imported": 0}[kind],
        "sha256": weights_sha256(weights_of(small_model(seed=5))),
    }
    last = latest_checkpoint(tmp_path / "new" / "checkpoints")
    assert last is not None
    assert last.state["from"] == origin_of(tmp_path / "new")


def test_moments_and_steps_begin_anew(tmp_path: Path, dataset: Path) -> None:
    first = run(dataset, tmp_path / "first", model=small_model().config, max_steps=10)
    seen: list[StepResult] = []
    run(
        *(dataset, tmp_path / "second"),
        start_from=tmp_path / "first",
        max_steps=12,
        on_step=seen.append,
    )
    assert [result.step for result in seen] == list(range(1, 13))
    assert first.train_loss is not None
    # The very rows that the first run began with, seen by what has learned from them.
    assert seen[0].loss < first.train_loss + 0.2
    last = latest_checkpoint(tmp_path / "second" / "checkpoints")
    assert last is not None
    assert {float(t) for n, t in last.optimizer().items() if n.endswith("/step")} == {12.0}
    assert origin_of(tmp_path / "first") is None


@pytest.mark.parametrize("again", ["the same command", "without --from"])
def test_a_run_that_was_stopped_ends_with_the_same_bits(
    tmp_path: Path, dataset: Path, base: Path, again: str
) -> None:
    """Also when the model it came from is another one by then, or gone."""
    model = replace(small_model().config, dropout=0.1, context=20)
    whole = run(dataset, tmp_path / "whole", model=model, start_from=base)
    with pytest.raises(KeyboardInterrupt):
        run(dataset, tmp_path / "run", model=model, start_from=base, on_step=stopped_at(17))
    if again == "the same command":
        shutil.rmtree(base)
        saved(base, small_model(seed=6), dataset)
        parts = run(dataset, tmp_path / "run", model=model, start_from=base)
    else:
        shutil.rmtree(base)
        parts = run(dataset, tmp_path / "run")
        assert parts.model.config == model
    for name, weight in weights_of(whole.model).items():
        assert torch.equal(weight, weights_of(parts.model)[name]), name
    ours, theirs = (latest_checkpoint(tmp_path / n / "checkpoints") for n in ("whole", "run"))
    assert ours is not None
    assert theirs is not None
    moments = ours.optimizer()
    assert all(torch.equal(value, theirs.optimizer()[name]) for name, value in moments.items())
    assert ours.state["from"] == theirs.state["from"]


def test_without_a_checkpoint_a_run_begins_from_the_same_weights_or_not_at_all(
    tmp_path: Path, dataset: Path, base: Path
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(dataset, tmp_path / "run", start_from=base, on_step=stopped_at(3))
    assert not find_checkpoints(tmp_path / "run" / "checkpoints")
    whole = run(dataset, tmp_path / "whole", start_from=base, max_steps=30)
    shutil.move(base, tmp_path / "kept")
    saved(base, small_model(seed=6), dataset)
    old, new = (weights_sha256(weights_of(small_model(seed=seed))) for seed in (5, 6))
    for options in ({"start_from": base}, {}):
        with pytest.raises(ConfigError, match=f"{old}.*{new}"):
            run(dataset, tmp_path / "run", **options)
    # Where the weights lie does not matter, as long as they are those.
    parts = run(dataset, tmp_path / "run", start_from=tmp_path / "kept")
    for name, weight in weights_of(whole.model).items():
        assert torch.equal(weight, weights_of(parts.model)[name]), name


def test_another_origin_is_refused(tmp_path: Path, dataset: Path, base: Path) -> None:
    other = saved(tmp_path / "other", small_model(seed=6), dataset)
    run(dataset, tmp_path / "run", start_from=base, max_steps=2)
    hashes = "|".join(weights_sha256(weights_of(small_model(seed=seed))) for seed in (5, 6))
    with pytest.raises(ConfigError, match=rf"(?s)({hashes}).*({hashes})"):
        run(dataset, tmp_path / "run", start_from=other, max_steps=2)
    run(dataset, tmp_path / "drawn", model=small_model().config, max_steps=2)
    with pytest.raises(ConfigError, match=r"weights of its own, not from .*base"):
        run(dataset, tmp_path / "drawn", start_from=base, max_steps=2)
    with pytest.raises(ConfigError, match="where the new run is to be"):
        run(dataset, base, start_from=base / "checkpoints" / "step-00000007", force=True)
    assert open_model(base).step == 7
    made = run(dataset, tmp_path / "drawn", start_from=base, max_steps=2, force=True)
    assert made.step == 2
    assert origin_of(tmp_path / "drawn")["path"] == str(base)


def test_the_shape_is_that_of_the_model(tmp_path: Path, dataset: Path, base: Path) -> None:
    shape = small_model().config
    for asked, message in (
        ({"model": replace(shape, d_ff=64)}, r"base` has `d_ff` `48`, not `64`"),
        ({"model": replace(shape, qk_norm=True)}, r"`qk_norm` `False`, not `True`"),
        ({"model": "4m"}, r"base` has `\w+` `\w+`, not `\w+`"),
    ):
        with pytest.raises(ConfigError, match=message):
            run(dataset, tmp_path / "run", start_from=base, **asked)
    # Said otherwise it is still the same, and how weights are drawn is no part of it.
    same = replace(shape, num_kv_heads=4, head_dim=8, init="gpt2", context=24, dropout=0.1)
    made = run(dataset, tmp_path / "run", start_from=base, model=same, max_steps=2)
    assert made.model.config == replace(shape, context=24, dropout=0.1)


def test_learned_positions_can_be_fewer_not_more(tmp_path: Path, dataset: Path) -> None:
    model = small_model(positions="learned")
    base = saved(tmp_path / "base", model, dataset)
    with pytest.raises(ConfigError, match="learned 16 positions, so its context cannot be 24"):
        run(dataset, tmp_path / "run", start_from=base, model=replace(model.config, context=24))
    shorter = replace(model.config, context=9)
    made = run(dataset, tmp_path / "run", start_from=base, model=shorter, max_steps=1, lr=1e-12)
    found = weights_of(made.model)["model.embed_positions.weight"]
    torch.testing.assert_close(found, model.model.embed_positions.weight[:9], atol=1e-9, rtol=0)


def test_data_of_another_tokenizer_is_refused(tmp_path: Path, dataset: Path, base: Path) -> None:
    texts = ["another text " * 50]
    other = tm.train(
        tm.documents(texts), vocab_size=270, special_tokens=["<|endoftext|>"], progress=False
    )
    folder = tmp_path / "other"
    tm.encode_dataset(tm.documents(texts * 20), other, folder, progress=False)
    ours = tm.Tokenizer.load(dataset / "tokenizer").sha256
    with pytest.raises(ConfigError, match=f"do not belong together.*{ours}.*{other.sha256}"):
        run(folder, tmp_path / "run", start_from=base)
    roomy = saved(tmp_path / "roomy", small_model(vocab_size=320), dataset)
    assert run(dataset, tmp_path / "run", start_from=roomy, max_steps=1).step == 1
    assert run(dataset, tmp_path / "run", max_steps=1).model.config.vocab_size == 320
    np.save(tmp_path / "ids.npy", (np.arange(3000) * 7 % 300).astype(np.uint16))
    with pytest.raises(ConfigError, match=f"vocab of 320.*{ours}.*300 and `None`"):
        run(DataSettings(tmp_path / "ids.npy", vocab_size=300), tmp_path / "2", start_from=roomy)
    bare = DataSettings(tmp_path / "ids.npy", vocab_size=300)
    assert run(bare, tmp_path / "bare", start_from=base, max_steps=1).step == 1
