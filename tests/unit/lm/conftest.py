"""A small dataset, a small model, one thread: what the tests of training share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

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
