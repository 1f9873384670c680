"""Pairs of answers: the likelier one is found as by hand, and pairs of other models and modes are refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from make_conversations import chat_tokenizer, conversations, encode_rows, preferences, say
from make_dataset import small_tokenizer
from make_model import small_model

import tokenmill as tm
from tokenmill.chat import render
from tokenmill.dataset.dataset import Dataset
from tokenmill.errors import ConfigError, SourceError
from tokenmill.lm import preference_scoring
from tokenmill.lm.model import Model
from tokenmill.lm.preference_scoring import PreferenceAccuracy, score_preferences
from tokenmill.progress import Meter, Snapshot

CHAT = chat_tokenizer()
ROWS = preferences(9)


def talker(**changes: Any) -> Model:
    return small_model(**{"vocab_size": CHAT.vocab_size, "context": 64, **changes})


def by_hand(model: Model, row: Any, which: str) -> tuple[float, int]:
    """The sum of log p of an answer with its end, and its tokens: one text at a time, nothing packed."""
    found = render(CHAT, "chat", [*row["prompt"], *row[which]])
    with torch.no_grad():
        scores = model(torch.tensor([found.ids]))[0].double().log_softmax(-1)
    places = [at for at, is_trained in enumerate(found.mask) if is_trained]
    return sum(float(scores[at - 1, found.ids[at]]) for at in places), len(places)


def accuracy_by_hand(model: Model, rows: Any) -> PreferenceAccuracy:
    found = [[by_hand(model, row, which) for which in ("chosen", "rejected")] for row in rows]
    count = len(found)
    return PreferenceAccuracy(
        count,
        0,
        sum(a > b for (a, _), (b, _) in found) / count,
        sum(a / n > b / m for (a, n), (b, m) in found) / count,
        sum(a for (a, _), _ in found) / count,
        sum(b for _, (b, _) in found) / count,
    )


def close(found: PreferenceAccuracy, wanted: PreferenceAccuracy) -> None:
    assert found.as_json() == pytest.approx(wanted.as_json(), rel=1e-4)


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return file


@pytest.mark.parametrize("seed", range(2))
def test_scores_are_those_by_hand(seed: int, tmp_path: Path) -> None:
    model = talker(seed=seed)
    data = encode_rows(tmp_path / "data", ROWS, "preference", CHAT)
    found = score_preferences(model, CHAT, data)
    close(found, accuracy_by_hand(model, ROWS))
    assert found.pairs == len(ROWS)
    assert 0 < found.accuracy < 1
    assert found.accuracy != found.accuracy_per_token


def test_rows_are_as_good_as_their_dataset(
    tmp_path: Path, lines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = talker().train()
    data = encode_rows(tmp_path / "data", ROWS, "preference", CHAT)
    before = {path.name for path in tmp_path.iterdir()}
    found = score_preferences(model, CHAT, data)
    assert score_preferences(model, CHAT, lines) == found
    assert score_preferences(model, CHAT, str(lines)) == found
    assert {path.name for path in tmp_path.iterdir()} == before
    assert model.training
    told: list[Snapshot] = []
    monkeypatch.setattr(preference_scoring, "PAIRS_AT_ONCE", 4)
    close(score_preferences(model, CHAT, data, meter=Meter(told.append)), found)
    assert [each.done for each in told] == [4, 8, 9]


def test_a_dataset_of_the_tokenizer_before_it_could_talk(tmp_path: Path) -> None:
    """`encode` adds what the profile needs, which is what the model has."""
    data = encode_rows(tmp_path / "data", ROWS, "preference", small_tokenizer())
    close(score_preferences(talker(), CHAT, data), accuracy_by_hand(talker(), ROWS))


def test_validation_pairs_come_first(tmp_path: Path) -> None:
    model = talker()
    data = encode_rows(tmp_path / "data", preferences(60), "preference", CHAT, val_fraction=0.2)
    held_out = Dataset.open(data)["validation"].num_documents // 2
    assert 0 < held_out < 30
    found = score_preferences(model, CHAT, data)
    assert found.pairs == held_out
    assert score_preferences(model, CHAT, data, split="train").pairs == 60 - held_out
    with pytest.raises(ConfigError, match="has no split `nonsense`, it has `train`, `validation`"):
        score_preferences(model, CHAT, data, split="nonsense")
    every = score_preferences(model, CHAT, tmp_path / "data.jsonl")
    assert every.pairs == 60
    assert every.chosen_log_prob != found.chosen_log_prob


def test_pairs_that_do_not_fit_are_counted(tmp_path: Path) -> None:
    model = talker(context=24)
    long = {
        "prompt": [say("user", "x")],
        "chosen": [say("assistant", "the " * 30)],
        "rejected": [say("assistant", "x")],
    }
    other = {**long, "chosen": long["rejected"], "rejected": long["chosen"]}
    rows = [long, ROWS[0], other, ROWS[3]]
    found = score_preferences(model, CHAT, encode_rows(tmp_path / "data", rows, "preference", CHAT))
    assert found.dropped_pairs == 2
    wanted = accuracy_by_hand(model, [ROWS[0], ROWS[3]]).as_json()
    assert found.as_json() == pytest.approx({**wanted, "dropped_pairs": 2}, rel=1e-4)
    nothing = encode_rows(tmp_path / "long", [long], "preference", CHAT)
    with pytest.raises(ConfigError, match="longer than the context of 24") as caught:
        score_preferences(model, CHAT, nothing)
    # Nothing that only training has.
    assert caught.value.hint == "the model needs shorter pairs"


def test_pairs_of_another_tokenizer(tmp_path: Path) -> None:
    other = small_tokenizer(vocab_size=280)
    data = encode_rows(tmp_path / "data", ROWS, "preference", other)
    with pytest.raises(ConfigError, match="do not belong together") as caught:
        score_preferences(talker(), CHAT, data)
    assert CHAT.sha256 in caught.value.message
    assert Dataset.open(data).tokenizer.sha256 in caught.value.message
    assert "encode" in (caught.value.hint or "")


def test_what_is_no_pairs(tmp_path: Path) -> None:
    chats = encode_rows(tmp_path / "chats", conversations(6), "sft", CHAT)
    with pytest.raises(ConfigError, match="of mode `sft`, not pairs of answers") as caught:
        score_preferences(talker(), CHAT, chats)
    assert "--mode preference" in (caught.value.hint or "")
    with pytest.raises(SourceError):
        score_preferences(talker(), CHAT, tmp_path / "chats.jsonl")
    with pytest.raises(SourceError, match="none"):
        score_preferences(talker(), CHAT, tmp_path / "none.jsonl")


@pytest.mark.parametrize("padding", [0, 20])
@pytest.mark.parametrize("as_dataset", [True, False])
def test_a_model_that_never_saw_who_speaks(
    tmp_path: Path, lines: Path, padding: int, as_dataset: bool
) -> None:
    """Also one with room for more ids than its tokenizer has: those rows of its weights have learned nothing."""
    base: tm.Tokenizer = small_tokenizer()
    model = talker(vocab_size=base.vocab_size + padding)
    data = encode_rows(tmp_path / "data", ROWS, "preference", base) if as_dataset else lines
    says = "has not seen those that say who speaks" if as_dataset else "has no chat template"
    with pytest.raises(ConfigError, match=says) as caught:
        score_preferences(model, base, data)
    if as_dataset:
        sizes = f"has {CHAT.vocab_size:,} tokens and the model {base.vocab_size:,}"
        assert sizes in str(caught.value)
    assert "lm sft" in (caught.value.hint or "")
