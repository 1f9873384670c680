"""Fine-tuning: what it makes of a model, how long it takes, and what it writes down."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from make_conversations import CONTEXT, chat_tokenizer, encode_rows, say
from make_dataset import small_tokenizer
from make_model import random_ids, save_run, small_model

import tokenmill as tm
from tokenmill.chat import prepare_tokenizer
from tokenmill.errors import ConfigError
from tokenmill.lm.checkpoint import weights_of
from tokenmill.lm.generate import generate
from tokenmill.lm.loop import StepResult
from tokenmill.lm.metrics import read_metrics
from tokenmill.lm.open_model import open_model
from tokenmill.lm.post_training_settings import SFT, SftSettings
from tokenmill.lm.run import TrainedModel
from tokenmill.lm.sft import prepare_sft, sft
from tokenmill.lm.sinks import LogSettings
from tokenmill.lm.start_from import open_start
from tokenmill.lm.token_data import DataSettings
from tokenmill.lm.vocab_growth import grown


def run(data: Path | DataSettings, out: Path, base: Path, **changes: Any) -> TrainedModel:
    settings = {"batch_size": 4, "eval_rows": 4, "device": "cpu"}
    return sft(
        data, out, base=base, logs=LogSettings(()), progress=False, **{**settings, **changes}
    )


def test_it_learns_to_answer(tmp_path: Path, talker: Path) -> None:
    """Each word has its answer, which nothing but the rows could tell."""
    answers = {"cat": "mat", "the": "return", "x": "done"}
    rows = [
        {"messages": [say("user", word), say("assistant", answer)]}
        for word, answer in answers.items()
    ]
    data = encode_rows(tmp_path / "rows", rows * 8, "sft")
    seen: list[StepResult] = []
    run(
        *(DataSettings(data, validation=data), tmp_path / "run", talker),
        max_steps=60,
        lr=1e-2,
        sample_every=30,
        sample_prompts=("cat", "x"),
        sample_tokens=12,
        on_step=seen.append,
    )
    assert seen[0].loss > 4
    assert seen[-1].loss < 0.1
    loaded = open_model(tmp_path / "run")
    assert loaded.tokenizer is not None
    special = loaded.tokenizer.special_tokens
    for word, answer in answers.items():
        prompt = f"<|user|>{word}<|end|><|assistant|>"
        ids = loaded.tokenizer.encode(prompt, allowed_special="all")
        (found,) = generate(
            loaded.model, loaded.tokenizer, [ids], temperature=0, stop_tokens=("<|end|>",)
        )
        assert (found.text, found.ended_by) == (answer, special["<|end|>"])
    records = read_metrics(tmp_path / "run")
    samples = [record["text"] for record in records if record["kind"] == "sample"]
    assert samples[-2:] == [
        "<|user|>cat<|end|><|assistant|>mat",
        "<|user|>x<|end|><|assistant|>done",
    ]
    last = [record for record in records if record["kind"] == "validation"][-1]
    assert last["loss"] < 0.1
    # Bytes are those of the whole text, and most of it is not scored.
    assert "bits_per_byte" not in last


def test_without_prompts_the_first_conversations_are_answered(
    tmp_path: Path, chats: Path, talker: Path
) -> None:
    run(chats, tmp_path / "run", talker, max_steps=8, sample_tokens=4)
    samples = [r for r in read_metrics(tmp_path / "run") if r["kind"] == "sample"]
    assert [record["step"] for record in samples] == [at for at in (2, 4, 6, 8) for _ in range(3)]
    data = tm.Dataset.open(chats)["validation"]
    assert data.mask is not None
    first = chat_tokenizer().decode(data.tokens[: int(data.mask[:].argmax())])
    assert samples[0]["text"].startswith(first)
    assert first.endswith("<|assistant|>")


@pytest.mark.parametrize(("epochs", "batch_size"), [(1.0, 4), (2.5, 3), (0.01, 8)])
def test_epochs_decide_steps_unless_they_are_given(
    tmp_path: Path, chats: Path, talker: Path, epochs: float, batch_size: int
) -> None:
    def prepared(**train: Any) -> Any:
        return prepare_sft(
            DataSettings(chats),
            tmp_path / "run",
            base=talker,
            options=SftSettings(epochs=epochs),
            train={"device": "cpu", "batch_size": batch_size, **train},
        )

    found = prepared()
    rows = len(found.train_rows)
    assert found.settings.max_steps == max(1, -(-round(epochs * rows * 100) // (100 * batch_size)))
    assert found.settings.cooldown_steps == found.settings.max_steps // 2
    assert (found.settings.lr, found.settings.schedule) == (SFT.lr, "wsd")
    assert prepared(max_steps=7).settings.max_steps == 7
    assert not (tmp_path / "run").exists()


def test_new_tokens_are_the_mean_of_the_old_and_nothing_else_changes() -> None:
    model = small_model(3)
    before = weights_of(model)
    weights = grown(before, 304)
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        assert torch.equal(weights[name][:300], before[name])
        mean = before[name].mean(0)
        assert all(torch.equal(row, mean) for row in weights[name][300:])
    same = before.keys() - {"model.embed_tokens.weight", "lm_head.weight"}
    assert all(weights[name] is before[name] for name in same)
    assert grown(before, 300) == before
    tied = grown(weights_of(small_model(tied_head=True)), 304)
    assert "lm_head.weight" not in tied
    assert len(tied["model.embed_tokens.weight"]) == 304


def test_a_model_that_grew_says_of_old_tokens_what_it_said(tmp_path: Path, chats: Path) -> None:
    base = save_run(tmp_path / "base", {1: small_model(3, context=CONTEXT)}, small_tokenizer())
    plan = prepare_sft(
        DataSettings(chats), tmp_path / "run", base=base, train={"device": "cpu", "lr": 1e-30}
    )
    assert plan.config.vocab_size == 304
    assert plan.describe()["from"]["new_ids"] == [300, 301, 302, 303]
    made = run(chats, tmp_path / "run", base, max_steps=1, lr=1e-30, sample_every=0)
    ids = random_ids(small_model(), 3, 20)
    with torch.no_grad():
        old, new = open_model(base).model(ids), made.model.eval()(ids)
    torch.testing.assert_close(new[..., :300], old, rtol=0, atol=1e-6)
    mean = old.mean(-1, keepdim=True).expand(-1, -1, 4)
    torch.testing.assert_close(new[..., 300:], mean, rtol=0, atol=1e-5)
    said = json.loads((tmp_path / "run" / "run.json").read_text())
    assert said["stage_settings"]["profile"]["name"] == "chat"
    # Where it goes on, it is as large as it became.
    again = run(chats, tmp_path / "run", base, max_steps=1, lr=1e-30, sample_every=0)
    assert again.model.config.vocab_size == 304


def test_ids_of_another_tokenizer_are_refused(tmp_path: Path, talker: Path) -> None:
    rows = [{"messages": [say("user", "a"), say("assistant", "b")]}]
    other = prepare_tokenizer(small_tokenizer(vocab_size=280), "chat")
    data = encode_rows(tmp_path / "rows", rows, "sft", small_tokenizer(vocab_size=280))
    ours = chat_tokenizer().sha256
    with pytest.raises(
        ConfigError, match=f"do not belong together.*{ours}.*{other.sha256}.*more special"
    ):
        run(data, tmp_path / "run", talker)
    # The model's special tokens are not those of the data: ids mean something else.
    renamed = encode_rows(tmp_path / "renamed", rows, "sft", profile="nanochat")
    with pytest.raises(ConfigError, match="do not belong together"):
        run(renamed, tmp_path / "run", talker)
    assert not (tmp_path / "run").exists()
    # More of them behind its own are well.
    both = encode_rows(tmp_path / "both", rows * 4, "sft", chat_tokenizer(), profile="nanochat")
    made = run(both, tmp_path / "run", talker, max_steps=1, sample_every=0)
    assert made.model.config.vocab_size == 304 + 9
    assert open_start(tmp_path / "run", tmp_path / "new").config == made.model.config


def test_rows_that_a_model_had_to_spare_are_new_when_tokens_take_them() -> None:
    before = weights_of(small_model(3))
    weights = grown(before, 300, new_ids=(298, 299))
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        assert torch.equal(weights[name][:298], before[name][:298])
        assert torch.equal(weights[name][298:], before[name][:298].mean(0).expand(2, -1))
        assert not torch.equal(before[name][298], weights[name][298])
