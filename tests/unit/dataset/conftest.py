"""A small tokenizer and documents to encode with it."""

import random

import pytest

import tokenmill as tm

WORDS = [
    "the",
    "quick",
    "brown",
    "fox",
    "jumps",
    "over",
    "a",
    "lazy",
    "dog",
    "λόγος",
    "世界",
    "naïve",
    "<|endoftext|>",
    "1234567",
    "\n\n",
    "\t",
]


@pytest.fixture(scope="session")
def tokenizer() -> tm.Tokenizer:
    text = tm.documents(["the quick brown fox jumps over the lazy dog 世界 λόγος " * 20])
    return tm.train(text, vocab_size=300, special_tokens=["<|bos|>", "<|endoftext|>"])


@pytest.fixture(scope="session")
def documents() -> list[str]:
    """Documents of all sizes, one much longer than a block of the tests, some equal."""
    rng = random.Random(5)

    def text(length: int) -> str:
        return " ".join(rng.choice(WORDS) for _ in range(length))

    found = [text(rng.randrange(1, 40)) for _ in range(300)]
    found[17] = text(4000)
    found[31] = "a" * 5000
    found[100] = found[101] = found[50]
    return found
