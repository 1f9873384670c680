"""What `tokenmill lm sft`, `dpo` and `chat` say about themselves is what they do."""

import json
import re
from pathlib import Path

import pytest
from make_dataset import small_tokenizer
from make_model import save_run, small_model
from typer.testing import CliRunner

import tokenmill as tm
from tokenmill.chat import foreign_template
from tokenmill.cli.main import app


def said(*args: object) -> str:
    done = CliRunner().invoke(app, ["lm", *(str(arg) for arg in args)])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A model that does not know who speaks, beside conversations for it."""
    rows = tmp_path / "rows.jsonl"
    row = json.dumps({"prompt": "the cat?", "completion": "the mat"})
    rows.write_text(f"{row}\n" * 40)
    tm.encode_dataset(str(rows), small_tokenizer(), tmp_path / "chats", mode="sft")
    return save_run(tmp_path / "base", {1: small_model(context=64)}, small_tokenizer())


def test_adapters_with_new_tokens_are_not_all_that_is_trained(base: Path) -> None:
    data = ("--data", base.parent / "chats", "--device", "cpu", "--log", "none")
    asked = ("sft", "--base", base, *data, "--lora", "--max-steps", 1)
    told = "embeddings and head are trained whole"
    assert told in said(*asked, "--out", base.parent / "grown")
    again = ("sft", "--base", base.parent / "grown", *data, "--lora", "--max-steps", 1)
    assert told not in said(*again, "--out", base.parent / "more")


CHATML = """
special_tokens = ["<|im_start|>", "<|im_end|>"]
roles.user = { before = "<|im_start|>user\\n", after = "<|im_end|>\\n" }
roles.assistant = { before = "<|im_start|>assistant\\n", after = "<|im_end|>\\n", trained = true }
"""


@pytest.mark.parametrize("profile", ["alpaca-tags", "chatml.toml"])
def test_a_model_is_asked_in_the_format_it_was_taught(
    profile: str, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the rows come without one, and without the process that templates of others need."""
    monkeypatch.chdir(base.parent)
    monkeypatch.setattr(foreign_template, "ForeignTemplate", None)
    Path("chatml.toml").write_text(CHATML)
    tm.encode_dataset("rows.jsonl", small_tokenizer(), "own", mode="sft", profile=profile)
    place = ("--device", "cpu")
    said("sft", "--base", base, "--data", "own", "--out", "run", "--max-steps", 1, *place)
    pair = {"prompt": "the cat?", "chosen": "the mat", "rejected": "mat"}
    Path("pairs.jsonl").write_text(json.dumps(pair) + "\n")
    Path("asked.jsonl").write_text(json.dumps({"prompt": "the cat?", "answer": "the mat"}) + "\n")
    told = said("evaluate", "run", "--prefs", "pairs.jsonl", "--questions", "asked.jsonl", *place)
    assert "ranked   1 pair\n" in told
    assert "asked    1 question\n" in told
    assert said("chat", "run", "-m", "the cat?", "--max-tokens", 2, *place)


@pytest.mark.parametrize("stage", ["sft", "dpo"])
def test_help_says_how_often_there_are_samples(stage: str) -> None:
    assert re.search(
        r"--sample-every N +Steps between samples.*?a\s+quarter", said(stage, "-h"), re.S
    )
    assert "a quarter" not in said("pretrain", "-h")


def test_help_of_chat_does_not_promise_another_seed_for_each_answer() -> None:
    assert "N + 1" not in said("chat", "-h")
