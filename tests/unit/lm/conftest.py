"""A small dataset, a small model, one thread: what the tests of training share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from make_conversations import conversations, encode_rows, preferences, talking_model

import tokenmill as tm
from tokenmill.lm.model_config import ModelConfig

WORDS = [
    "the",
    "a",
    "small",
    "old",
    "red",
    "blue",
    "cat",
    "dog",
    "bird",
    "tree",
    "sees",
    "finds",
    "likes",
    "and",
    "near",
    "under",
]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Runs are equal bit for bit on one number of threads; here it is always one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def sentences(count: int) -> list[str]:
    return [
        " ".join(WORDS[(number * 7 + place * (3 + number % 5)) % len(WORDS)] for place in range(12))
        for number in range(count)
    ]


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """800 documents in two splits."""
    folder = tmp_path_factory.mktemp("lm-data")
    texts = sentences(800)
    tokenizer = tm.train(
        tm.documents(texts), vocab_size=300, special_tokens=["<|endoftext|>"], progress=False
    )
    tm.encode_dataset(
        tm.documents(texts), tokenizer, folder / "ids", val_fraction=0.1, progress=False
    )
    return folder / "ids"


@pytest.fixture
def small() -> ModelConfig:
    return ModelConfig(vocab_size=300, context=24, num_layers=2, d_model=32, num_heads=4)


@pytest.fixture(scope="session")
def chats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 conversations in two splits, all shorter than the context of `talker`."""
    folder = tmp_path_factory.mktemp("lm-chats")
    return encode_rows(folder / "rows", conversations(60), "sft", val_fraction=0.2)


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 pairs of answers in two splits."""
    folder = tmp_path_factory.mktemp("lm-pairs")
    return encode_rows(folder / "rows", preferences(60), "preference", val_fraction=0.2)


@pytest.fixture(scope="session")
def talker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a model with the tokenizer of `chats` and `pairs`."""
    return talking_model(tmp_path_factory.mktemp("lm-talker") / "run")


@pytest.fixture(scope="session")
def bytecode(dataset: Path) -> Path:
    """Where processes that tests start keep theirs; all share it, since compiling torch's takes ten seconds."""
    return dataset.parent / "bytecode"
