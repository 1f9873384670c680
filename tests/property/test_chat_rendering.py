"""The core renders rows as the plain Python does: any profile, any row, any number of threads."""

import json
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tokenmill as tm
from tokenmill import chat
from tokenmill.chat.encoder import RowOptions
from tokenmill.chat.messages import RowSkipped
from tokenmill.chat.profiles import CHAT, PROFILES, Profile, Role
from tokenmill.chat.rendering import Part, encode_parts, parts_of
from tokenmill.chat.rows import conversations_of
from tokenmill.errors import SourceError
from tokenmill.tokenizer.tokenizer import Tokenizer

WORDS = ["hello", " there", "\n", "\n\n", " ", "  ", "user", "x", "é", "e\u0301", "日本", "👍🏽", "'s",
         "\u0301", "<|end|>", "<|", "end|>", "\\", '"', "\t", "\x00", "1234", "end"]  # fmt: skip

MARKED = Profile(
    "marked",
    ("<m>", "</m>"),
    {
        "system": Role("<m>", "\n"),
        "user": Role("user: ", "\n\n"),
        "assistant": Role("<m>e", " end\n</m>\n", trained=True),
        "critic": Role("e", "</m>", trained=True),
    },
    bos="start\n",
)
PROFILES_TO_TRY = [
    *PROFILES.values(),
    MARKED,
    Profile("silent", CHAT.special_tokens, CHAT.roles, train_end=False),
    Profile("bare", ("<m>",), {
        "user": Role("", "\n"), "assistant": Role(">", "\u0301\n", trained=True)}, merge_system="e"),
]  # fmt: skip


@pytest.fixture(scope="module")
def base() -> tm.Tokenizer:
    text = ["".join(random.Random(seed).choices(WORDS, k=60)) for seed in range(30)]
    return tm.train(tm.documents(text), vocab_size=420)


def random_messages(rng: random.Random, roles: list[str]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    for _ in range(rng.randint(0, 5)):
        content: Any = "".join(rng.choices(WORDS, k=rng.randint(0, 6)))
        if rng.random() < 0.1:
            content = [{"type": "text", "text": content}, "b", {"text": "c"}]
        keys = ("role", "content") if rng.random() < 0.8 else ("from", "value")
        messages.append(dict(zip(keys, (rng.choice(roles), content), strict=True)))
    if rng.random() < 0.08 and messages:
        odd: list[dict[str, Any]] = [
            {"role": "tool", "content": "x"},
            {"role": "user", "content": None},
            {"role": "user"},
            {"role": "assistant", "content": "", "tool_calls": [1]},
            {"role": "user", "content": [{"type": "image", "text": "x"}]},
            {"content": "x"},
            {"role": "user", "content": 5},
        ]
        messages[rng.randrange(len(messages))] = rng.choice(odd)
    return messages


def transcript(rng: random.Random, turns: int) -> str:
    """A conversation as one text."""
    speakers = ["\n\nHuman:", "\n\nHuman: ", "\n\nAssistant: ", "\n\nAssistant:", "\n\nHuman: "]
    return "".join(
        rng.choice(speakers) + "".join(rng.choices(WORDS, k=rng.randint(0, 4)))
        for _ in range(turns)
    )


def random_row(rng: random.Random, roles: list[str], mode: str) -> dict[str, Any]:
    def text() -> Any:
        if rng.random() < 0.3:
            return random_messages(rng, roles)
        return rng.choice([None, 3, *[" ".join(rng.choices(WORDS, k=rng.randint(0, 4)))] * 12])

    keys = ["prompt", "completion", "instruction", "input", "output", "system"]
    if mode == "preference":
        if rng.random() < 0.3:
            beginning = transcript(rng, rng.randint(0, 3))
            return {
                key: beginning + transcript(rng, rng.randint(0, 2))
                for key in ("chosen", "rejected")
            }
        if rng.random() < 0.4:
            shared = random_messages(rng, roles)
            row: dict[str, Any] = {
                key: shared + random_messages(rng, roles) for key in ("chosen", "rejected")
            }
            if shared and rng.random() < 0.5:
                row["prompt"] = rng.choice([shared, shared[0].get("content"), "hello"])
            return row
        keys = ["prompt", "chosen", "rejected", "system"]
    row = {key: text() for key in keys if rng.random() < 0.8}
    if mode == "sft" and rng.random() < 0.6:
        row[rng.choice(["messages", "conversations"])] = random_messages(rng, roles)
    return dict(rng.sample(list(row.items()), len(row)))


def expected_documents(
    tokenizer: Tokenizer, profile: Profile, row: str, mode: str
) -> list[tuple[list[int], list[int]]] | str:
    """The documents of a row, or why there are none."""
    documents: list[tuple[list[int], list[int]]] = []
    try:
        conversations = conversations_of(row, profile, mode=mode)
    except RowSkipped as skipped:
        return skipped.reason
    except SourceError:
        return "unreadable"
    for turns, answer in conversations:
        parts = list(parts_of(turns[:answer], profile))
        parts = [Part(part.text, part.is_special, is_trained=False) for part in parts]
        later = list(parts_of(turns[answer:], profile))[len(profile.pieces(profile.bos)) :]
        documents.append(encode_parts(tokenizer, [*parts, *later]))
    is_trained = all(any(mask) for _, mask in documents)
    return documents if is_trained else "no_trained_tokens"


@pytest.mark.parametrize("mode", ["sft", "preference"])
@pytest.mark.parametrize("profile", PROFILES_TO_TRY, ids=lambda profile: profile.name)
@pytest.mark.parametrize("normalizer", [None, "nfc"])
def test_core_and_plain_python(
    base: tm.Tokenizer, profile: Profile, mode: str, normalizer: Any
) -> None:
    tokenizer = chat.prepare_tokenizer(base, profile)
    tokenizer = Tokenizer(replace(tokenizer._vocab, normalizer=normalizer))
    rng = random.Random(f"{profile.name} {mode}")
    roles = [*profile.roles, "system", "human", "gpt"]
    rows = [json.dumps(random_row(rng, roles, mode), ensure_ascii=False) for _ in range(500)]
    found = chat.encode_rows(tokenizer, profile, rows, RowOptions(mode=mode), on_error="skip")
    again = chat.encode_rows(
        tokenizer, profile, rows, RowOptions(mode=mode), on_error="skip", threads=3
    )
    assert np.array_equal(found.ids, again.ids)
    assert np.array_equal(found.mask, again.mask)
    assert found.skipped == again.skipped
    reasons = {row: reason for row, reason, _ in found.skipped}
    documents = {index: [] for index in range(len(rows))}
    for index, row in enumerate(found.rows.tolist()):
        ids, mask = found.document(index)
        documents[row].append((ids.tolist(), mask.tolist()))
    encoded = 0
    for index, row in enumerate(rows):
        expected = expected_documents(tokenizer, profile, row, mode)
        if isinstance(expected, str):
            assert reasons[index] == expected, row
        else:
            assert documents[index] == expected, row
            encoded += 1
    assert encoded > (80 if mode == "sft" else 20)
    assert len(set(reasons.values())) >= 4
