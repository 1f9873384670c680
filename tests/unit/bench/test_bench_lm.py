# pyright: basic
"""`bench lm`: the command on a small text, and that what it compares is what it says."""

import json
import math
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from bench.cases import load_cases
from bench.commands.lm import require_near
from bench.job import BenchError, Job
from bench.machine import REPOSITORY
from bench.rounds import Entrant, Track
from bench.stages import byte_ngrams

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
