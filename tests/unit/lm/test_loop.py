"""Training: what a step is, whatever it is cut into; runs that go on; runs that must not."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tokenmill as tm
from tokenmill.errors import ConfigError, DeviceError, VocabError
from tokenmill.lm.checkpoint import find_checkpoints, latest_checkpoint
from tokenmill.lm.loop import Diverged, StepResult
from tokenmill.lm.metrics import read_metrics
from tokenmill.lm.model_config import ModelConfig
from tokenmill.lm.pretrain import pretrain
from tokenmill.lm.run import TrainedModel
from tokenmill.lm.sinks import LogSettings
from tokenmill.lm.token_data import DataSettings


def run(data: Path | DataSettings, out: Path, config: ModelConfig, **changes: Any) -> TrainedModel:
    settings = {"max_steps": 30, "batch_size": 8, "save_every": 10, "eval_rows": 8, "device": "cpu"}
    logs = changes.pop("logs", LogSettings(()))
    return pretrain(data, out, model=config, logs=logs, progress=False, **{**settings, **changes})


def weights(model: TrainedModel) -> dict[str, torch.Tensor]:
    return {name: weight.detach() for name, weight in model.model.named_parameters()}


def test_loss_falls_and_everything_is_on_record(
    tmp_path: Path, dataset: Path, small: ModelConfig
) -> None:
    seen: list[StepResult] = []
    made = run(dataset, tmp_path / "run", small, max_steps=120, lr=3e-3, on_step=seen.append)
    assert [result.step for result in seen] == list(range(1, 121))
    assert seen[0].loss == pytest.approx(math.log(300), rel=0.1)
    assert made.validation_loss is not None
    assert made.validation_loss < 3.0
    records = read_metrics(tmp_path / "run")
    train = [record for record in records if record["kind"] == "train"]
    assert [record["step"] for record in train] == [1, *range(10, 121, 10)]
    assert train[-1]["tokens"] == 120 * 8 * 24
    assert train[-1]["tokens_per_second"] > 0
    assert 0 < train[-1]["mfu"] < 1
    evaluated = {r["step"] for r in records if r["kind"] == "validation"}
    assert evaluated == set(range(6, 121, 6)) | set(range(10, 121, 10))
    assert (tmp_path / "run" / "tokenizer" / "tokenizer.json").is_file()


@pytest.mark.parametrize(
    "changes", [{}, {"dropout": 0.2}, {"optimizer": "adamw-plain"}, {"optimizer": "sgd"}]
)
def test_a_run_that_was_stopped_ends_with_the_same_bits(
    tmp_path: Path, dataset: Path, small: ModelConfig, changes: dict[str, Any]
) -> None:
    changes = dict(changes)
    config = replace(small, dropout=changes.pop("dropout", 0.0))
    whole = run(dataset, tmp_path / "whole", config, **changes)

    class Enough(Exception):
        pass

    def stop(result: StepResult) -> None:
        if result.step == 17:
            raise Enough

    with pytest.raises(Enough):
        run(dataset, tmp_path / "parts", config, on_step=stop, **changes)
    parts = run(dataset, tmp_path / "parts", config, **changes)
    for name, weight in weights(whole).items():
        assert torch.equal(weight, weights(parts)[name]), name
    one, other = (latest_checkpoint(tmp_path / name / "checkpoints") for name in ("whole", "parts"))
    assert one is not None
    assert other is not None
    moments = one.optimizer()
    assert all(torch.equal(value, other.optimizer()[name]) for name, value in moments.items())
    timeless = [
        [
            {k: v for k, v in record.items() if k not in ("time", "tokens_per_second", "mfu")}
            for record in read_metrics(tmp_path / name)
        ]
        for name in ("whole", "parts")
    ]
    assert timeless[0] == timeless[1]


@pytest.mark.parametrize("packing", ["wrapped", "best-fit"])
def test_micro_batches_are_one_batch(
    tmp_path: Path, dataset: Path, small: ModelConfig, packing: str
) -> None:
    """With padding every micro-batch has another number of targets; the mean is over all of them."""
    runs = [
        run(
            dataset,
            tmp_path / str(size),
            small,
            packing=packing,
            document_mask=packing == "best-fit",
            micro_batch_size=size,
            max_steps=5,
        )
        for size in (8, 3, 1)
    ]
    for other in runs[1:]:
        for name, weight in weights(runs[0]).items():
            torch.testing.assert_close(weight, weights(other)[name], atol=2e-6, rtol=0)


def test_a_broken_checkpoint_is_passed_over_and_named(
    tmp_path: Path, dataset: Path, small: ModelConfig, caplog: pytest.LogCaptureFixture
) -> None:
    whole = run(dataset, tmp_path / "run", small)
    newest, before = find_checkpoints(tmp_path / "run" / "checkpoints")[:2]
    file = newest / "model.safetensors"
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(data)
    again = run(dataset, tmp_path / "run", small)
    assert newest.name in caplog.text
    assert "before it is used" in caplog.text
    assert int(before.name[5:]) == 20
    for name, weight in weights(whole).items():
        assert torch.equal(weight, weights(again)[name])
    (newest / "state.json").write_text("{")
    (before / "model.safetensors").unlink()
    assert latest_checkpoint(tmp_path / "run" / "checkpoints") is None


def test_only_the_last_and_the_best_are_kept(
    tmp_path: Path, dataset: Path, small: ModelConfig
) -> None:
    run(
        dataset,
        tmp_path / "run",
        small,
        max_steps=60,
        save_every=10,
        keep_last=2,
        lr=3e-2,
        schedule="constant",
    )
    kept = [int(path.name[5:]) for path in find_checkpoints(tmp_path / "run" / "checkpoints")]
    losses = {
        record["step"]: record["loss"]
        for record in read_metrics(tmp_path / "run")
        if record["kind"] == "validation" and record["step"] % 10 == 0
    }
    best = min(losses, key=lambda step: losses[step])
    assert set(kept) == {60, 50, best}


def test_another_run_in_the_folder_is_refused(
    tmp_path: Path, dataset: Path, small: ModelConfig
) -> None:
    run(dataset, tmp_path / "run", small, max_steps=3)
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"lr": 5e-4}, "`lr` `0.001`, not `0.0005`"),
        ({"max_steps": 4}, r"`max_steps` `3`, not `4`: its step 2, which is done.*\n.*--from"),
        ({"max_steps": 2}, "has done 3 steps, more than the 2 asked for"),
        ({"config": replace(small, d_model=16)}, "`d_model` `32`, not `16`"),
        ({"resume": False}, "holds a run already"),
    )
    for changes, message in cases:
        config = changes.pop("config", small)
        with pytest.raises(ConfigError, match=message):
            run(dataset, tmp_path / "run", config, **{"max_steps": 3, **changes})
    other = tmp_path / "other"
    tokenizer = tm.Tokenizer.load(dataset / "tokenizer")
    tm.encode_dataset(
        tm.documents(["the cat sees the dog"] * 200), tokenizer, other, progress=False
    )
    with pytest.raises(ConfigError, match="was trained on ids of sha256"):
        run(other, tmp_path / "run", small, max_steps=3)
    again = run(other, tmp_path / "run", small, max_steps=3, force=True)
    assert again.step == 3
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    for force in (False, True):
        with pytest.raises(ConfigError, match="no run of ours"):
            run(dataset, tmp_path / "mine", small, force=force)
    assert (tmp_path / "mine" / "thesis.txt").exists()


@pytest.mark.parametrize(
    ("begun", "then"),
    [
        ({"schedule": "constant"}, {"schedule": "constant"}),
        ({"schedule": "wsd", "cooldown_steps": 10}, {"schedule": "wsd", "cooldown_steps": 20}),
        ({"schedule": "constant"}, {"schedule": "wsd", "cooldown_steps": 10}),
    ],
    ids=["constant", "wsd", "a cool-down for a constant one"],
)
def test_a_longer_run_is_the_one_begun_so(
    tmp_path: Path, dataset: Path, small: ModelConfig, begun: dict[str, Any], then: dict[str, Any]
) -> None:
    """Warm-up keeps the length it had: a twentieth of the steps at first."""
    whole = run(dataset, tmp_path / "whole", small, max_steps=60, warmup_steps=2, **then)
    # 30 of 40 steps: those of the cool-down have not come yet.
    stop = 30 if begun["schedule"] == "wsd" else 40

    class Enough(Exception):
        pass

    def enough(result: StepResult) -> None:
        if result.step == stop + 1:
            raise Enough

    if stop == 30:
        with pytest.raises(Enough):
            run(dataset, tmp_path / "parts", small, max_steps=40, on_step=enough, **begun)
    else:
        run(dataset, tmp_path / "parts", small, max_steps=40, **begun)
    seen: list[StepResult] = []
    longer = run(dataset, tmp_path / "parts", small, max_steps=60, on_step=seen.append, **then)
    assert seen[0].step == stop + 1
    for name, weight in weights(whole).items():
        assert torch.equal(weight, weights(longer)[name]), name
    # The same command again.
    assert run(dataset, tmp_path / "parts", small, max_steps=60, **then).step == 60


def test_a_cool_down_that_began_cannot_be_undone(
    tmp_path: Path, dataset: Path, small: ModelConfig
) -> None:
    settings = {"schedule": "wsd", "warmup_steps": 2, "cooldown_steps": 10}
    run(dataset, tmp_path / "run", small, max_steps=20, **settings)
    with pytest.raises(ConfigError, match=r"its step 11, which is done, had the learning rate"):
        run(dataset, tmp_path / "run", small, max_steps=40, **settings)


def test_divergence_stops_and_leaves_good_weights(
    tmp_path: Path, dataset: Path, small: ModelConfig
) -> None:
    with pytest.raises(Diverged, match=r"at step \d+.*saved") as caught:
        run(dataset, tmp_path / "run", small, max_steps=500, lr=1e4, clip=None, warmup_steps=0)
    assert "--lr" in str(caught.value)
    last = latest_checkpoint(tmp_path / "run" / "checkpoints")
    assert last is not None
    assert all(weight.isfinite().all() for weight in last.weights().values())


def test_plain_files(tmp_path: Path, small: ModelConfig) -> None:
    ids = (np.arange(3000) * 7 % 300).astype(np.uint16)
    np.save(tmp_path / "ids.npy", ids)
    ids.tofile(tmp_path / "ids.bin")
    with pytest.raises(ConfigError, match="nothing says which vocab"):
        run(DataSettings(tmp_path / "ids.npy"), tmp_path / "run", small)
    small_vocab = replace(small, vocab_size=250)
    with pytest.raises(VocabError, match=r"token 36 of .* is 252"):
        run(DataSettings(tmp_path / "ids.npy", vocab_size=250), tmp_path / "run", small_vocab)
    made = [
        run(
            DataSettings(tmp_path / name, vocab_size=300, dtype=dtype),
            tmp_path / f"of-{name}",
            small,
            max_steps=3,
        )
        for name, dtype in (("ids.npy", None), ("ids.bin", "uint16"))
    ]
    assert all(torch.equal(w, weights(made[1])[name]) for name, w in weights(made[0]).items())
    assert not (tmp_path / "of-ids.npy" / "tokenizer").exists()


def test_plain_files_of_two_tokenizers_are_refused(tmp_path: Path, small: ModelConfig) -> None:
    """Their manifests say which tokenizer it was, also where both have as many tokens."""
    text = tm.documents(["the cat sat on the mat " * 20])
    files: list[Path] = []
    for word in ("cat", "dog"):
        seen = tm.documents([f"the {word} and the other {word}s " * 20])
        tokenizer = tm.train(seen, vocab_size=270, special_tokens=["<|endoftext|>"])
        files.append(tmp_path / f"{word}.npy")
        tm.encode_dataset(text, tokenizer, files[-1], progress=False)
    config = replace(small, vocab_size=270)
    with pytest.raises(ConfigError, match=r"sha256 `[0-9a-f]{64}` with 270 .* and `[0-9a-f]{64}`"):
        run(DataSettings(files[0], files[1]), tmp_path / "run", config)
    run(DataSettings(files[0], files[0]), tmp_path / "run", config, max_steps=1, batch_size=1)


def test_data_of_two_tokenizers_is_refused(
    tmp_path: Path, dataset: Path, small: ModelConfig
) -> None:
    other = tm.train(
        tm.documents(["another text " * 50]),
        vocab_size=270,
        special_tokens=["<|endoftext|>"],
        progress=False,
    )
    tm.encode_dataset(
        tm.documents(["another text"] * 200), other, tmp_path / "other", progress=False
    )
    with pytest.raises(ConfigError, match=other.sha256):
        run(DataSettings(dataset, tmp_path / "other"), tmp_path / "run", small)
    with pytest.raises(ConfigError, match=r"vocab of 299, .* one of 300"):
        run(dataset, tmp_path / "run", replace(small, vocab_size=299))


def test_settings_are_read_back_as_they_were(
    tmp_path: Path, dataset: Path, small: ModelConfig
) -> None:
    run(dataset, tmp_path / "run", small, max_steps=2)
    said = json.loads((tmp_path / "run" / "run.json").read_text())
    assert said["model"] == small.as_json()
    assert said["settings"]["max_steps"] == 2
    assert said["tokenizer_sha256"] == tm.Tokenizer.load(dataset / "tokenizer").sha256


def test_samples_are_on_record_and_change_nothing(
    tmp_path: Path, dataset: Path, small: ModelConfig
) -> None:
    plain = run(dataset, tmp_path / "plain", small, max_steps=6)
    shown = run(
        dataset,
        tmp_path / "shown",
        small,
        max_steps=6,
        sample_every=2,
        sample_prompts=("the cat", ""),
        sample_tokens=5,
    )
    records = [r for r in read_metrics(tmp_path / "shown") if r["kind"] == "sample"]
    assert [record["step"] for record in records] == [2, 2, 4, 4, 6, 6]
    assert all(record["text"].startswith("the cat") for record in records[::2])
    for name, weight in weights(plain).items():
        assert torch.equal(weight, weights(shown)[name])


def test_no_run_begins_that_cannot_fit(tmp_path: Path, dataset: Path) -> None:
    huge = replace(ModelConfig(vocab_size=300), num_layers=400, d_model=8192, num_heads=8)
    with pytest.raises(DeviceError, match=r"takes about .* are there"):
        run(dataset, tmp_path / "run", huge)
    wide = replace(ModelConfig(vocab_size=300, context=24), d_model=512)
    with pytest.raises(DeviceError, match=r"--micro-batch-size \d"):
        run(dataset, tmp_path / "run", wide, batch_size=10_000_000)
    assert not (tmp_path / "run").exists()
    with pytest.raises(DeviceError, match="asked for `cuda:7`"):
        run(dataset, tmp_path / "run", wide, device="cuda:7")


def test_a_run_that_is_done_says_again_what_it_came_to(
    dataset: Path, small: ModelConfig, tmp_path: Path
) -> None:
    made, again = (run(dataset, tmp_path / "run", small, max_steps=4) for _ in range(2))
    assert (again.step, again.train_loss) == (4, made.train_loss)
    assert again.validation_loss == made.validation_loss
    assert made.train_loss is not None
