# pyright: basic
"""`bench lm`: the command on a small text, and that what it compares is what it says."""

import json
import math
import random
import statistics
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bench.cases import load_cases
from bench.commands.lm import require_near
from bench.job import BenchError, Job
from bench.machine import REPOSITORY
from bench.mixed_lengths import Lengths
from bench.rounds import Entrant, Track, run_once
from bench.stages import byte_ngrams, post_train_model, post_train_trl
from make_conversations import chat_tokenizer, conversations, encode_rows, preferences
from make_model import small_model

from tokenmill.dataset.dataset import Dataset
from tokenmill.lm.export import export_model
from tokenmill.lm.open_model import LoadedModel

CASES = load_cases()
SEPARATOR = CASES.separator


def written(path: Path, documents: list[str]) -> Path:
    path.write_text(SEPARATOR.join(documents), encoding="utf-8")
    return path


def some_documents(number: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    words = [
        "the",
        "a",
        "low",
        "lower",
        "lowest",
        "new",
        "newest",
        "wide",
        "widest",
        "mill",
        "token",
        "été",
        "漢字",
    ]
    return [" ".join(chance.choices(words, k=chance.randint(1, 200))) for _ in range(number)]


def test_steps_and_tokens_are_those_of_transformers(tmp_path: Path) -> None:
    """Losses and tokens are compared before they are timed; had they differed, the command would have failed."""
    text = written(tmp_path / "text.txt", some_documents(300, 1))
    command = [sys.executable, "-m", "bench", "lm", str(text), "--quick", "--json"]
    command += ["--cases", "step,generate,checkpoint", "--presets", "1m", "--peers", "transformers"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    step, generate, checkpoint = json.loads(done.stdout)
    names = [(entrant["name"], entrant["form"]) for entrant in step["entrants"]]
    assert names[:2] == [("tokenmill", "1m"), ("transformers", "1m")]
    ours, theirs = step["entrants"][:2]
    assert ours["answer"] == theirs["answer"]
    assert all(0 < seconds < 60 for seconds in ours["seconds"] + theirs["seconds"])
    assert any("faster than transformers" in number["what"] for number in step["numbers"])
    assert generate["entrants"][1]["equal"]
    assert [number["what"].split()[0] for number in checkpoint["numbers"]] == ["save", "resume"]


def test_lengths_are_drawn_from_a_log_normal() -> None:
    lengths = Lengths(90, 0.8, 16, 230)
    drawn = [lengths.draw(random.Random(seed)) for seed in range(2000)]
    assert drawn == [lengths.draw(random.Random(seed)) for seed in range(2000)]
    assert min(drawn) >= 16
    assert max(drawn) <= 230
    assert 75 < statistics.median(drawn) < 90  # what is longer than allowed is drawn again
    assert str(lengths) == "log-normal, median 90, σ 0.8, 16 to 230"


@pytest.mark.parametrize("stage", ["sft", "dpo"])
def test_trl_trains_on_the_same_tokens_from_the_same_loss(stage: str, tmp_path: Path) -> None:
    tokenizer = chat_tokenizer()
    model = small_model(vocab_size=tokenizer.vocab_size, context=96)
    export_model(LoadedModel(model, tokenizer, 1, tmp_path, tokenizer.sha256), tmp_path / "base")
    rows = {"sft": conversations, "dpo": preferences}[stage](16)
    mode = {"sft": "sft", "dpo": "preference"}[stage]
    dataset = encode_rows(tmp_path / "rows", rows, mode, tokenizer)
    ours = Job(
        program=post_train_model.PROGRAM,
        path=str(dataset),
        threads=1,
        tokenizer=str(tmp_path / "base"),
        form=stage,
        size=2,
        options={"batch_size": 8, "warm_steps": 1, "context": 96},
    )
    theirs = replace(
        ours,
        program=post_train_trl.PROGRAM,
        path=str(tmp_path / "rows.jsonl"),
        form=f"{stage}, {post_train_trl.PLAIN}",
        out=str(tmp_path / "cache"),
    )
    found = [run_once(Entrant("one", job), 300, with_answer=True) for job in (ours, theirs)]
    (own, own_answer), (other, other_answer) = found
    assert float(own_answer[0][0]) == pytest.approx(float(other_answer[0][0]), abs=1e-4)
    # Two steps are all sixteen rows, or pairs; the first one is not timed.
    assert 0 < other.extra["tokens"] < sum(len(document) for document in Dataset.open(dataset))
    assert 0.5 < own.extra["used_share"] <= 1
    assert own.extra["tokens"] > 0
    for each in (own, other):
        assert each.extra["step_seconds"] > 0
        assert each.peak_bytes > each.extra["imported_bytes"] > 0


def track(*losses: float) -> Track:
    found = Track(Entrant("one", Job("program", "path", 1)))
    found.answer = [(str(loss).encode(),) for loss in losses]
    return found


def test_losses_must_be_near() -> None:
    require_near(track(1.0, 2.0), track(1.0, 2.004), 0.01)
    with pytest.raises(BenchError, match=r"step 2 is 2\.0, ours 2\.1"):
        require_near(track(1.0, 2.0), track(1.0, 2.1), 0.01)


def slow_bits(
    training: list[str], held_out: list[str], order: int, discount: float | None
) -> float:
    """An interpolated n-gram model by counting, one context at a time."""
    counts: dict[tuple[int, ...], dict[int, int]] = {}

    def contexts(symbols: list[int], at: int) -> list[tuple[int, ...]]:
        before = [256] * order + symbols[:at]
        return [tuple(before[len(before) - size :]) for size in range(order)]

    for document in training:
        symbols = [*document.encode(), 256]
        for at, symbol in enumerate(symbols):
            for context in contexts(symbols, at):
                seen = counts.setdefault(context, {})
                seen[symbol] = seen.get(symbol, 0) + 1
    bits = 0.0
    for document in held_out:
        symbols = [*document.encode(), 256]
        for at, symbol in enumerate(symbols):
            p = 1 / 257
            for context in contexts(symbols, at):
                seen = counts.get(context, {})
                total, kinds, count = sum(seen.values()), len(seen), seen.get(symbol, 0)
                if not total:
                    continue
                if discount is None:
                    p = (count + kinds * p) / (total + kinds)
                else:
                    p = (max(count - discount, 0) + discount * kinds * p) / total
            bits -= math.log2(p)
    return bits / sum(len(document.encode()) for document in held_out)


@pytest.mark.parametrize("order", [1, 2, 5])
def test_ngrams_are_those_of_counting(tmp_path: Path, order: int) -> None:
    training, held_out = some_documents(20, 2), [*some_documents(3, 3), "zzz ZZZ"]
    job = Job(
        program="",
        path=str(written(tmp_path / "training.txt", training)),
        warm_path=str(written(tmp_path / "held.txt", held_out)),
        threads=1,
        options={"order": order},
    )
    bell, flat, num_bytes = byte_ngrams.run(np, job)
    assert num_bytes == sum(len(document.encode()) for document in held_out)
    assert bell == pytest.approx(slow_bits(training, held_out, order, None))
    assert flat == pytest.approx(slow_bits(training, held_out, order, byte_ngrams.DISCOUNT))
