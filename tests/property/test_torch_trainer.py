"""Merges learned by tensor operations are the engine's: the same ids, counts and reasons to stop."""

import pydoc_data.topics
from typing import Any

import pytest
import torch
from random_corpora import TIES, random_corpora

import tokenmill as tm
from tokenmill import _core
from tokenmill.errors import ConfigError
from tokenmill.train.backends import rust_cpu, torch_device
from tokenmill.train.settings import TrainSettings

NUM_CORPORA = 300


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def both(counts: _core.Counts, settings: TrainSettings) -> tuple[Any, Any]:
    return (
        rust_cpu.learn_merges(counts, settings, 1, None),
        torch_device.learn_merges(counts, settings, 1, None),
    )


@pytest.mark.parametrize("ties", TIES)
def test_hard_corpora(ties: str) -> None:
    for corpus in random_corpora(5, NUM_CORPORA):
        settings = TrainSettings(
            vocab_size=corpus.num_tokens, special_tokens=(), ties=ties, **corpus.limits
        )
        wanted, found = both(_core.Counts.from_mapping(corpus.counts), settings)
        assert found == wanted, corpus


@pytest.mark.parametrize("ties", TIES)
def test_real_text(ties: str) -> None:
    counts = tm.count(tm.documents(pydoc_data.topics.topics.values()), pattern="gpt4").core
    told: list[int] = []
    settings = TrainSettings(vocab_size=1200, ties=ties)
    wanted, _ = both(counts, settings)
    found = torch_device.learn_merges(counts, settings, 1, lambda done, _: told.append(done))
    assert found == wanted
    assert told == [256, 512, 768]


def test_counts_that_would_not_add_up() -> None:
    counts = _core.Counts.from_mapping({b"ab": 2**61})
    with pytest.raises(ConfigError, match="devices add up to"):
        torch_device.learn_merges(counts, TrainSettings(vocab_size=258), 1, None)


def test_counts_beyond_32_bits() -> None:
    counts = {b"ab" * 3: 2**40, b"abc": 2**40 - 1, b"bcb": 2**41}
    wanted, found = both(_core.Counts.from_mapping(counts), TrainSettings(vocab_size=262))
    assert found == wanted
    assert max(found.counts or []) > 2**41
