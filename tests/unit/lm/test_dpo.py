"""Preference training: where it starts, what it learns, what it tells, and that a wrong reference stops it."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from make_conversations import encode_rows, say, talking_model
from make_dataset import small_tokenizer
from make_model import save_run, small_model

from tokenmill.errors import ConfigError
from tokenmill.lm.checkpoint import find_checkpoints, latest_checkpoint, weights_of
from tokenmill.lm.dpo import dpo
from tokenmill.lm.loop import StepResult
from tokenmill.lm.metrics import read_metrics
from tokenmill.lm.open_model import open_model
from tokenmill.lm.pair_objective import NotItsReference, Preference
from tokenmill.lm.post_training_settings import DPO, DpoSettings, LoraSettings
from tokenmill.lm.run import TrainedModel
from tokenmill.lm.sinks import LogSettings
from tokenmill.lm.token_data import DataSettings

LN_2 = math.log(2)


def run(data: Path | DataSettings, out: Path, base: Path, **changes: Any) -> TrainedModel:
    settings = {
        "max_steps": 4,
        "batch_size": 6,
        "eval_rows": 6,
        "sample_every": 0,
        "warmup_steps": 0,
        "device": "cpu",
    }
    return dpo(
        data, out, base=base, logs=LogSettings(()), progress=False, **{**settings, **changes}
    )


def steps_of(data: Path | DataSettings, out: Path, base: Path, **changes: Any) -> list[StepResult]:
    seen: list[StepResult] = []
    run(data, out, base, on_step=seen.append, **changes)
    return seen


def reference_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("reference-*.npy"))


@pytest.mark.parametrize("lora", [None, LoraSettings(rank=4)], ids=["full", "lora"])
@pytest.mark.parametrize("loss", ["sigmoid", "ipo"])
def test_it_starts_where_its_reference_is(
    tmp_path: Path, pairs: Path, talker: Path, loss: str, lora: LoraSettings | None
) -> None:
    beta = 0.25
    options = DpoSettings(beta=beta, loss=loss, lora=lora)
    first, *_ = steps_of(pairs, tmp_path / "run", talker, options=options, micro_batch_size=4)
    wanted = LN_2 if loss == "sigmoid" else 1 / (4 * beta**2)
    assert first.loss == pytest.approx(wanted, abs=2e-6)
    for name in ("rewards/chosen", "rewards/rejected", "rewards/margins"):
        assert first.more[name] == pytest.approx(0, abs=1e-5)
    assert first.more["logps/chosen"] < -5


def test_an_sft_term_is_added_by_its_weight(tmp_path: Path, pairs: Path, talker: Path) -> None:
    options = DpoSettings(sft_weight=0.5)
    first, *_ = steps_of(pairs, tmp_path / "run", talker, options=options)
    data = steps_of(pairs, tmp_path / "plain", talker)[0]
    nats_per_token = (first.loss - LN_2) / 0.5
    # About that of guessing among 304 tokens, and the same answers as without.
    assert 4 < nats_per_token < 8
    assert data.more["logps/chosen"] == first.more["logps/chosen"]


@pytest.mark.parametrize("lora", [None, LoraSettings(rank=4)], ids=["full", "lora"])
@pytest.mark.parametrize("loss", ["sigmoid", "ipo"])
def test_easy_pairs_are_learned(
    tmp_path: Path, talker: Path, loss: str, lora: LoraSettings | None
) -> None:
    rows = [
        {
            "prompt": [say("user", word)],
            "chosen": [say("assistant", "cat")],
            "rejected": [say("assistant", "mat")],
        }
        for word in ("the", "x", "done", "sat") * 3
    ]
    data = encode_rows(tmp_path / "rows", rows, "preference")
    options = DpoSettings(loss=loss, lora=lora)
    seen = steps_of(
        *(DataSettings(data, validation=data), tmp_path / "run", talker),
        options=options,
        max_steps=12,
        batch_size=12,
        eval_rows=12,
        lr=1e-2,
        eval_every=6,
    )
    last = seen[-1]
    assert last.more["rewards/accuracies"] == 1.0
    assert last.more["rewards/margins"] > 0.2
    assert last.more["rewards/chosen"] > last.more["rewards/rejected"]
    assert last.loss < seen[0].loss
    found = [r for r in read_metrics(tmp_path / "run") if r["kind"] == "validation"]
    assert {record["step"] for record in found} >= {6, 12}
    assert set(Preference.names) < found[-1].keys()
    assert found[-1]["rewards/accuracies"] == 1.0
    # Of the weights behind the last step, which had the learning rate 0.
    assert found[-1]["rewards/margins"] == pytest.approx(last.more["rewards/margins"], rel=1e-3)
    train = [r for r in read_metrics(tmp_path / "run") if r["kind"] == "train"]
    assert set(Preference.names) < train[0].keys()
    saved = latest_checkpoint(tmp_path / "run" / "checkpoints")
    assert saved is not None
    assert saved.state["stage"] == "dpo"
    assert open_model(tmp_path / "run").step == 12


def test_the_default_rate_is_a_small_one(tmp_path: Path, pairs: Path, talker: Path) -> None:
    seen = steps_of(pairs, tmp_path / "run", talker)
    assert max(step.lr for step in seen) == DPO.lr
    assert all(step.loss == pytest.approx(LN_2, abs=0.01) for step in seen)


def test_values_of_another_model_stop_the_run_before_its_first_step(
    tmp_path: Path, pairs: Path, talker: Path
) -> None:
    run(pairs, tmp_path / "run", talker, cache=tmp_path / "kept")
    files = reference_files(tmp_path / "kept")
    assert len(files) == 2  # of the pairs to train on, and of the others
    # Chosen and rejected by as much: margins and the loss are none the wiser.
    for file in files:
        np.save(file, np.load(file) + 1)
    with pytest.raises(NotItsReference) as caught:
        run(pairs, tmp_path / "again", talker, cache=tmp_path / "kept")
    message = str(caught.value)
    assert "rewards must be 0 and the loss ln 2 = 0.693147" in message
    assert re.search(r"rewards/(chosen|rejected) is -0\.(1|0999)", message)
    assert "other weights or other answers" in message
    assert "delete the `reference-*.npy`" in message
    assert not find_checkpoints(tmp_path / "again" / "checkpoints")
    assert read_metrics(tmp_path / "again") == []
    # What the message says helps, in the same folder.
    for file in files:
        file.unlink()
    run(pairs, tmp_path / "again", talker, cache=tmp_path / "kept")
    ours, theirs = (weights_of(open_model(tmp_path / name).model) for name in ("again", "run"))
    assert all(torch.equal(ours[name], weight) for name, weight in theirs.items())


def test_one_answer_off_is_enough(tmp_path: Path, pairs: Path, talker: Path) -> None:
    """Half a nat, of all answers of the step."""
    run(pairs, tmp_path / "run", talker, cache=tmp_path / "kept", max_steps=1, batch_size=48)
    (file,) = [f for f in reference_files(tmp_path / "kept") if len(np.load(f)) > 20]
    kept = np.load(file)
    kept[5, 1] += 0.5
    np.save(file, kept)
    with pytest.raises(NotItsReference, match=r"rewards/rejected is -0\.00"):
        run(pairs, tmp_path / "2", talker, cache=tmp_path / "kept", max_steps=1, batch_size=48)


def test_another_model_as_reference(tmp_path: Path, pairs: Path, talker: Path) -> None:
    """Its log probabilities are the ones that rewards are measured from."""
    other = talking_model(tmp_path / "other", seed=9)
    first, *_ = steps_of(pairs, tmp_path / "run", talker, reference=other)
    itself, *_ = steps_of(pairs, tmp_path / "itself", other)
    for kind in ("chosen", "rejected"):
        logps = f"logps/{kind}"
        distance = first.more[logps] - itself.more[logps]
        assert abs(distance) > 0.1
        assert first.more[f"rewards/{kind}"] == pytest.approx(0.1 * distance, abs=1e-5)
    assert abs(first.loss - LN_2) > 1e-3


def test_a_reference_that_was_trained_with_dropout_has_none_here(
    tmp_path: Path, pairs: Path, talker: Path
) -> None:
    wet = talking_model(tmp_path / "wet", dropout=0.4)  # the weights of `talker`
    first, *_ = steps_of(pairs, tmp_path / "run", talker, reference=wet)
    assert first.more["rewards/chosen"] == pytest.approx(0, abs=1e-5)
    assert first.more["rewards/rejected"] == pytest.approx(0, abs=1e-5)


def test_a_reference_without_the_new_tokens_grows_as_the_base_does(
    tmp_path: Path, pairs: Path
) -> None:
    plain = save_run(tmp_path / "plain", {1: small_model(4, context=64)}, small_tokenizer())
    seen = steps_of(pairs, tmp_path / "run", plain, reference=plain)
    assert seen[0].loss == pytest.approx(LN_2, abs=2e-6)


def test_a_reference_that_has_learned_fewer_positions_is_refused(
    tmp_path: Path, pairs: Path, talker: Path
) -> None:
    short = talking_model(tmp_path / "short", positions="learned", context=40)
    with pytest.raises(ConfigError, match=r"learned 40 positions, so it cannot .* rows of 64"):
        run(pairs, tmp_path / "run", talker, reference=short)
    assert not (tmp_path / "run").exists()


def test_a_model_with_adapters_is_its_reference_merged(
    tmp_path: Path, pairs: Path, talker: Path
) -> None:
    """A second stage of adapters starts from what the first one made."""
    options = DpoSettings(lora=LoraSettings(rank=4))
    run(pairs, tmp_path / "first", talker, options=options, lr=1e-2)
    second, *_ = steps_of(pairs, tmp_path / "second", tmp_path / "first", options=options)
    assert second.loss == pytest.approx(LN_2, abs=2e-6)


@pytest.mark.parametrize("precision", ["bf16"])
def test_the_gate_knows_how_exact_a_precision_is(
    tmp_path: Path, pairs: Path, talker: Path, precision: str
) -> None:
    seen = steps_of(pairs, tmp_path / "run", talker, precision=precision, micro_batch_size=2)
    assert seen[0].loss == pytest.approx(LN_2, abs=0.05)


def test_warnings_are_on_record(tmp_path: Path, talker: Path) -> None:
    rows = [
        {
            "prompt": [say("user", "x")],
            "chosen": [say("assistant", "the cat sat on the mat")],
            "rejected": [say("assistant", "x")],
        }
    ] * 6
    data = encode_rows(tmp_path / "rows", rows, "preference")
    run(data, tmp_path / "run", talker, max_steps=3)
    found = [r for r in read_metrics(tmp_path / "run") if r["kind"] == "warning"]
    assert [record["step"] for record in found] == [1]
    assert "learn to answer longer" in found[0]["text"]


def test_pairs_of_another_chat_template_are_refused(tmp_path: Path, talker: Path) -> None:
    tokenizer = open_model(talker).tokenizer
    rows = [{"prompt": "say cat", "chosen": "cat", "rejected": "mat"}]
    data = encode_rows(tmp_path / "data", rows, "preference", tokenizer, profile="alpaca-tags")
    with pytest.raises(ConfigError, match="another chat template") as error:
        run(data, tmp_path / "run", talker)
    assert "--profile" in str(error.value.hint)
    assert not (tmp_path / "run").exists()
