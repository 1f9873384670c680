"""An exported assistant and transformers: the same prompt, the same answer, and both stop at the same place."""

import importlib.metadata
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from make_conversations import conversations, encode_rows, say, talking_model
from typer.testing import CliRunner

from tokenmill.cli.main import app
from tokenmill.lm.chat_format import chat_format
from tokenmill.lm.chat_session import ChatSession
from tokenmill.lm.generate_settings import GenerateSettings
from tokenmill.lm.open_model import LoadedModel, open_model
from tokenmill.lm.sft import sft
from tokenmill.lm.sinks import LogSettings

# transformers checks the version of `regex` when it is imported; see test_artifact.py.
_version = importlib.metadata.version
importlib.metadata.version = lambda name: "2025.10.22" if name == "regex" else _version(name)
import transformers  # noqa: E402

importlib.metadata.version = _version
torch.set_num_threads(1)

EOS = "<|endoftext|>"
END = "<|end|>"
TALKS = [
    [say("user", "cat")],
    [say("user", "mat ")],
    [say("user", "sat on"), say("assistant", "sat on"), say("user", "x x")],
    [say("system", "a cat"), say("user", "the ")],
    [say("system", "naïve ☕"), say("user", f"def f(x):\n {END} {EOS}")],
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`run`, a model that has learned to talk, though not well, and `hf`, what `lm export` makes of it."""
    place = tmp_path_factory.mktemp("chat-export")
    sft(
        encode_rows(place / "rows", conversations(20), "sft"),
        place / "run",
        base=talking_model(place / "base"),
        logs=LogSettings(()),
        progress=False,
        max_steps=40,
        batch_size=8,
        lr=1e-2,
        device="cpu",
    )
    asked = ["lm", "export", str(place / "run"), "--out", str(place / "hf")]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    return place


@pytest.fixture(scope="module")
def ours(folder: Path) -> LoadedModel:
    return open_model(folder / "run", device="cpu")


@pytest.fixture(scope="module")
def theirs(folder: Path) -> tuple[Any, Any]:
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / "hf").eval()
    return model, transformers.AutoTokenizer.from_pretrained(folder / "hf")


def test_the_prompt_is_the_same(ours: LoadedModel, theirs: tuple[Any, Any]) -> None:
    assert ours.tokenizer is not None
    form, (_, tokenizer) = chat_format(ours.tokenizer), theirs
    # There, what a person says becomes a special token if it looks like one; here never.
    for messages in TALKS[:-1]:
        found = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
        ids = found if isinstance(found, list) else found["input_ids"]
        assert ids == form.prompt_ids(messages)
    text = tokenizer.apply_chat_template(TALKS[-1], tokenize=False, add_generation_prompt=True)
    assert text == ours.tokenizer.decode(form.prompt_ids(TALKS[-1]))


def test_answers_are_the_same_and_stop_at_the_same_place(
    ours: LoadedModel, theirs: tuple[Any, Any]
) -> None:
    assert ours.tokenizer is not None
    form, (model, tokenizer) = chat_format(ours.tokenizer), theirs
    end = ours.tokenizer.special_tokens[END]
    ends: list[bool] = []
    for messages in TALKS:
        *before, last = [each for each in messages if each["role"] != "system"]
        system = next((each["content"] for each in messages if each["role"] == "system"), None)
        talk = ChatSession(ours.model, form, GenerateSettings(20, 0.0), system)
        talk.turns = before
        reply = talk.answer(last["content"])
        ids = torch.tensor([form.prompt_ids(messages)])
        limit = min(20, ours.model.config.context - ids.shape[1])
        made = model.generate(
            ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=limit
        )
        new = made[0, ids.shape[1] :].tolist()
        assert new == [*reply.ids, *([end] if reply.ended_by == end else [])]
        assert tokenizer.decode(new, skip_special_tokens=True) == reply.text
        ends.append(reply.ended_by == end)
    assert sum(ends) >= 3, "or nothing was learned"


def test_the_folder_says_what_ends_an_answer(folder: Path, ours: LoadedModel) -> None:
    assert ours.tokenizer is not None
    special = ours.tokenizer.special_tokens
    told = json.loads((folder / "hf" / "generation_config.json").read_text())
    assert told["eos_token_id"] == [special[END], special[EOS]]
    assert transformers.GenerationConfig.from_pretrained(folder / "hf").eos_token_id == [
        special[END],
        special[EOS],
    ]
    template = (folder / "hf" / "chat_template.jinja").read_text()
    assert template == ours.tokenizer.chat_template


def test_what_was_exported_still_talks(folder: Path, ours: LoadedModel) -> None:
    asked = ("--message", "cat", "--temperature", "0", "--json", "--device", "cpu")
    answers = [
        json.loads(CliRunner().invoke(app, ["lm", "chat", str(folder / name), *asked]).stdout)
        for name in ("run", "hf")
    ]
    assert answers[0] == answers[1]
    assert answers[0]["answer"]
