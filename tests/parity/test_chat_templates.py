"""transformers renders our Jinja templates to the same ids and the same mask."""

import json
import os
import random
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import tokenmill as tm
from tokenmill import chat
from tokenmill.chat.foreign_template import ForeignTemplate
from tokenmill.chat.profiles import PROFILES, Profile, Role

# transformers checks the version of `regex` when it is imported; see test_artifact.py.
TRANSFORMERS = """
import importlib.metadata, json, sys
version = importlib.metadata.version
importlib.metadata.version = lambda name: "2025.10.22" if name == "regex" else version(name)
from transformers import AutoTokenizer

answers = {}
for folder, conversations in json.load(sys.stdin).items():
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = answers[folder] = []
    for messages in conversations:
        try:
            found = tokenizer.apply_chat_template(
                messages, return_assistant_tokens_mask=True, return_dict=True)
        except Exception as error:
            rows.append(str(error))
            continue
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        rows.append([found["input_ids"], found["assistant_masks"], text])
json.dump(answers, sys.stdout)
"""

CHATML = Profile(
    "chatml",
    ("<|im_start|>", "<|im_end|>"),
    {
        "system": Role("<|im_start|>system\n", "<|im_end|>\n"),
        "user": Role("<|im_start|>user\n", "<|im_end|>\n"),
        "assistant": Role("<|im_start|>assistant\n", "<|im_end|>\n", trained=True),
    },
)
ODD = Profile(
    "odd",
    ("<|im_start|>", "<|im_end|>"),
    {
        "system": Role("it's {{ \\n }} {% if %} 'q' ", "\t\\<|im_end|>"),
        "user": Role("<|im_start|>", " é日本\n"),
        "assistant": Role("<|im_start|>says", " end\n<|im_end|>", trained=True),
    },
    bos="<|im_start|>begin\n",
)
ALL = [*PROFILES.values(), CHATML, ODD]
SENTENCES = [
    "Can you explain what a hash table is?",
    " Leading and trailing space ",
    "def f(x):\n    return {'a': x ** 2}  # done\n",
    "Größe, naïve façade — Straße.",
    "Как дела? Всё хорошо, спасибо!",
    "日本語の文章です。東京タワー",
    "한국어 문장입니다.",
    "שלום עולם العربية مَرْحَبًا",
    "हिन्दी नमस्ते ไทยสวัสดี",
    "👩‍👩‍👧‍👦 🇩🇪 👍🏽 e\u0301 ½ ²",
    "1234567 items, 3.14159; you're 'quoted' \"text\" \\ backslash",
    "\n\n\nlines\r\n\ttabs\n",
    "{{ messages }} {% raw %} {# comment #}",
    "< | end | > <user> [INST]",
    "",
    " ",
    "\n",
]


def conversations(count: int) -> list[list[dict[str, str]]]:
    rng = random.Random(3)
    sources = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[:40]
    passages = [
        text[i : i + 700]
        for path in sources
        for text in [path.read_text()]
        for i in range(0, 2100, 700)
    ]
    made: list[list[dict[str, str]]] = []
    for _ in range(count):
        messages: list[dict[str, str]] = []
        if rng.random() < 0.4:
            messages.append({"role": "system", "content": rng.choice(SENTENCES)})
        for turn in range(2 * rng.randint(1, 4)):
            kind = rng.random()
            said = "" if kind < 0.05 else " ".join(rng.choices(SENTENCES, k=rng.randint(1, 4)))
            if kind > 0.8:
                said = rng.choice(passages)
            messages.append({"role": ("user", "assistant")[turn % 2], "content": said})
        made.append(messages)
    return made


@pytest.fixture(scope="module")
def base() -> tm.Tokenizer:
    text = [message["content"] for messages in conversations(300) for message in messages]
    return tm.train(tm.documents(text), vocab_size=2000, special_tokens=["<|endoftext|>"])


ODD_ONES: list[list[dict[str, Any]]] = [
    [{"role": "tool", "content": "x"}],
    [{"role": "system", "content": "x"}],
    [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}],
    [{"role": "user", "content": "a<|end|>b"}],
]


@dataclass
class Asked:
    """A profile's tokenizer, conversations, and what transformers makes of them and of odd ones."""

    tokenizer: tm.Tokenizer
    conversations: list[list[dict[str, str]]]
    answers: list[Any]
    odd: list[Any]


@pytest.fixture(scope="module")
def asked(base: tm.Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Asked]:
    """One run of transformers, which takes seconds to import."""
    made: dict[str, Asked] = {}
    folders: dict[str, str] = {}
    for profile in ALL:
        tokenizer = chat.prepare_tokenizer(base, profile)
        folder = tokenizer.save(tmp_path_factory.mktemp("tok") / profile.name)
        count = 300 if profile.name in PROFILES else 60
        made[profile.name] = Asked(tokenizer, conversations(count), [], [])
        folders[profile.name] = str(folder)
    run = subprocess.run(
        [sys.executable, "-c", TRANSFORMERS],
        input=json.dumps({folders[n]: [*one.conversations, *ODD_ONES] for n, one in made.items()}),
        capture_output=True,
        text=True,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
        check=False,
    )
    assert run.returncode == 0, run.stderr
    answers = json.loads(run.stdout)
    for name, one in made.items():
        found = answers[folders[name]]
        one.answers, one.odd = found[: -len(ODD_ONES)], found[-len(ODD_ONES) :]
    return made


@pytest.mark.parametrize("profile", ALL, ids=lambda profile: profile.name)
def test_ids_and_masks(asked: dict[str, Asked], profile: Profile) -> None:
    one = asked[profile.name]
    rows = [json.dumps({"messages": messages}) for messages in one.conversations]
    encoded = chat.encode_rows(one.tokenizer, profile, rows, threads=2)
    documents = {row: encoded.document(i) for i, row in enumerate(encoded.rows.tolist())}
    assert {reason for _, reason, _ in encoded.skipped} <= {"empty_completion"}
    assert encoded.num_documents > 0.9 * len(rows)
    trained = 0
    for index, (messages, theirs) in enumerate(zip(one.conversations, one.answers, strict=True)):
        ids, mask, text = theirs
        ours = chat.render(one.tokenizer, profile, messages)
        assert (ours.ids, ours.mask) == (ids, mask), messages
        prompt = chat.render(one.tokenizer, profile, messages, add_generation_prompt=True)
        assert prompt.text == text
        assert prompt.ids == one.tokenizer.encode(text, allowed_special="all")
        if index in documents:
            assert documents[index][0].tolist() == ids
            assert documents[index][1].tolist() == mask
        trained += sum(mask)
    assert trained > 3000


def test_our_export_in_our_own_sandbox(base: tm.Tokenizer) -> None:
    """What we export renders to the same ids when we run it as a template of somebody else."""
    for profile in ALL:
        tokenizer = chat.prepare_tokenizer(base, profile)
        with ForeignTemplate(tokenizer, chat.jinja_template(profile)) as template:
            assert template.has_generation
            for messages in conversations(40):
                ours = chat.render(tokenizer, profile, messages)
                assert template.render(messages) == ours, (profile.name, messages)


def test_what_cannot_be_rendered_is_an_error_there_too(asked: dict[str, Asked]) -> None:
    plain, merged = asked["chat"].odd, asked["nanochat"].odd
    assert plain[0] == merged[0] == "unknown role tool"
    assert merged[1] == "a system message belongs in front of the first user message"
    assert plain[2][2] == "<|user|>ab<|end|><|assistant|>"
    assert merged[2][2] == "<|bos|><|user_start|>ab<|user_end|><|assistant_start|>"


def test_what_users_write_is_special_there_and_text_here(asked: dict[str, Asked]) -> None:
    """The difference that docs/chat.md states."""
    tokenizer = asked["chat"].tokenizer
    end = tokenizer.special_tokens["<|end|>"]
    assert asked["chat"].odd[3][0].count(end) == 2
    assert chat.render(tokenizer, "chat", ODD_ONES[3]).ids.count(end) == 1
