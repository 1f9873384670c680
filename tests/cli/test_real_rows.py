"""SFT and DPO on rows as Alpaca and hh-rlhf have them, from the files people download to a model that ranks answers.

`TOKENMILL_ALPACA` and `TOKENMILL_HH_RLHF` may name the real `alpaca_data_cleaned.json` and a `.jsonl.gz` of hh-rlhf. Without them the rows
are made of Python's manual, in the same shapes and untidy in the same ways. `pytest -m slow tests/cli/test_real_rows.py`
"""

import gzip
import json
import math
import os
import pydoc_data.topics
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import loopback
import pytest
from typer.testing import CliRunner

from tokenmill.cli.main import app
from tokenmill.dataset.dataset import Dataset
from tokenmill.lm.metrics import read_metrics

pytestmark = pytest.mark.slow
END = "<|end|>"
CONTEXT = 192


def paragraphs() -> list[str]:
    found: list[str] = []
    for text in pydoc_data.topics.topics.values():
        found += [part.strip() for part in text.split("\n\n") if 20 < len(part) < 600]
    return found


def alpaca_rows(count: int) -> list[dict[str, str]]:
    """Most without an input, some with lists, code and other scripts in the answer, one in 40 with none."""
    chance = random.Random(1)
    texts = paragraphs()
    rows: list[dict[str, str]] = []
    for number in range(count):
        about = chance.choice(texts)
        answer = chance.choice(texts)
        if number % 7 == 0:
            answer = "1. café ☕\n2. 漢字\n\n```python\nprint('a  b')\n```\n" + answer
        if number % 40 == 39:
            answer = ""
        given = chance.choice(["", "", "<noinput>", about])
        rows.append(
            {"instruction": about[:60].replace("\n", " "), "input": given, "output": answer}
        )
    return rows


def hh_rows(count: int) -> list[dict[str, str]]:
    """One to four rounds; the last answers differ, but some are equal, some empty, and some texts are very long."""
    chance = random.Random(2)
    texts = paragraphs()
    rows: list[dict[str, str]] = []
    for number in range(count):
        before = ""
        for _ in range(chance.randint(0, 3)):
            before += (
                f"\n\nHuman: {chance.choice(texts)[:90]}\n\nAssistant: {chance.choice(texts)[:120]}"
            )
        before += f"\n\nHuman: {chance.choice(texts)[:90]}\n\nAssistant: "
        # What is preferred here can be learned: answers that are polite.
        chosen = before + "Of course. " + chance.choice(texts)[:150]
        rejected = before + "No idea. " + chance.choice(texts)[:150]
        if number % 50 == 10:
            rejected = chosen
        if number % 50 == 20:
            rejected = before.rstrip(" ")
        if number % 50 == 30:
            chosen = before + " ".join(texts[:40])
        rows.append({"chosen": chosen, "rejected": rejected})
    return rows


@pytest.fixture(scope="module")
def alpaca() -> bytes:
    real = os.environ.get("TOKENMILL_ALPACA")
    return Path(real).read_bytes() if real else json.dumps(alpaca_rows(800)).encode()


@pytest.fixture(scope="module")
def hh_rlhf() -> bytes:
    real = os.environ.get("TOKENMILL_HH_RLHF")
    if real:
        return Path(real).read_bytes()
    return gzip.compress("".join(json.dumps(row) + "\n" for row in hh_rows(600)).encode())


@pytest.fixture(scope="module")
def folder(
    alpaca: bytes, hh_rlhf: bytes, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """What all of it makes, one command after another."""
    made = tmp_path_factory.mktemp("real")
    patch = pytest.MonkeyPatch()
    patch.chdir(made)
    with loopback.serving(loopback.Hub) as hub:
        assert isinstance(hub, loopback.Hub)
        hub.add_dataset("yahma/alpaca-cleaned", {"alpaca_data_cleaned.json": alpaca})
        patch.setenv("HF_ENDPOINT", hub.url)
        call("pull", "alpaca", "--to", "alpaca", "--quiet")
    Path("hh-rlhf.jsonl.gz").write_bytes(hh_rlhf)
    texts = (row["output"] for row in rows_of("train"))
    Path("text.txt").write_text("<|endoftext|>".join(texts))
    call("train", "text.txt", "--vocab-size", 1024, "--out", "tok", "--quiet")
    call("encode", "text.txt", "--tokenizer", "tok", "--out", "ids", "--quiet")
    shape = [f"model.{each}" for each in ("num_layers=2", "d_model=96", "num_heads=4")]
    how = [part for each in shape for part in ("--set", each)]
    steps = ("--max-steps", 60, "--batch-size", 8, "--lr", 0.004, "--context", CONTEXT)
    call("lm", "pretrain", "--data", "ids", "--out", "base", *how, *steps, *QUIET)
    yield made
    patch.undo()


QUIET = ("--device", "cpu", "--log", "none", "--quiet")


def call(*args: object) -> str:
    done = CliRunner().invoke(app, [str(arg) for arg in args])
    assert done.exit_code == 0, done.output
    return done.stdout


def rows_of(split: str) -> list[dict[str, str]]:
    return [
        json.loads(line)
        for line in Path(f"alpaca/{split}/alpaca.jsonl").read_text().split("\n")
        if line
    ]


def losses(run: str, kind: str) -> list[float]:
    return [record["loss"] for record in read_metrics(Path(run)) if record["kind"] == kind]


@pytest.fixture(scope="module")
def encoded(folder: Path) -> dict[str, Any]:
    """What `encode` says of Alpaca, on which `sft` is trained."""
    told = json.loads(
        call("encode", "alpaca", "--tokenizer", "tok", "--out", "chats", "--mode", "sft", "--json")
    )
    steps = ("--max-steps", 80, "--batch-size", 8, "--lr", 0.003, "--eval-every", 20)
    call("lm", "sft", "--base", "base", "--data", "chats", "--out", "sft", *steps, *QUIET)
    return told


def test_alpaca(encoded: dict[str, Any]) -> None:
    data = Dataset.open("chats")
    rows = rows_of("train")
    useful = [row for row in rows if row["output"]]
    assert data["train"].num_documents == len(useful) < len(rows)
    assert encoded["report"]["left_out"]["empty_completion"] > 0
    # What is trained on is the answer and its end, to the letter.
    for number in range(0, len(useful), 17):
        assert trained_text(data, number) == useful[number]["output"] + END
    found = losses("sft", "validation")
    assert found[-1] < found[0] - 0.1
    run = json.loads(Path("sft/run.json").read_text())
    left_out = run["documents"]
    assert left_out["documents"] + left_out["too_long"] == data["train"].num_documents
    answer = json.loads(
        call("lm", "chat", "sft", "--message", "print", "--json", "--device", "cpu")
    )
    assert answer


def trained_text(data: Dataset, number: int) -> str:
    mask = data["train"].document_mask(number)
    assert mask is not None
    return data.tokenizer.decode(data["train"].document(number)[mask == 1].tolist())


@pytest.mark.usefixtures("encoded")
def test_hh_rlhf() -> None:
    told = json.loads(
        call(
            *("encode", "hh-rlhf.jsonl.gz", "--tokenizer", "sft/tokenizer", "--out", "pairs"),
            *("--mode", "preference", "--val-fraction", 0.1, "--json"),
        )
    )
    reasons = told["report"]["left_out"]
    assert reasons["chosen_equals_rejected"] > 0
    assert reasons["empty_completion"] > 0
    before = json.loads(
        call("lm", "evaluate", "sft", "--prefs", "pairs", "--device", "cpu", "--json")
    )
    steps = ("--max-steps", 60, "--batch-size", 8, "--lr", 0.0005, "--eval-every", 30)
    call("lm", "dpo", "--base", "sft", "--data", "pairs", "--out", "dpo", *steps, *QUIET)
    records = [each for each in read_metrics(Path("dpo")) if each["kind"] == "train"]
    assert records[0]["loss"] == pytest.approx(math.log(2), abs=1e-4)
    assert records[0]["rewards/margins"] == pytest.approx(0, abs=1e-4)
    assert records[-1]["rewards/margins"] > 0.1
    run = json.loads(Path("dpo/run.json").read_text())
    assert run["documents"]["too_long"] > 0
    pairs = Dataset.open("pairs")["train"].num_documents // 2
    assert run["documents"]["pairs"] + run["documents"]["dropped_pairs"] == pairs
    after = json.loads(
        call("lm", "evaluate", "dpo", "--prefs", "pairs", "--device", "cpu", "--json")
    )
    gained = after["preferences"]["accuracy"] - before["preferences"]["accuracy"]
    assert gained > 0.1
