"""Made-up inventories: exactly as many pretokens as asked for, real words first, the same every time."""

from array import array
from pathlib import Path

import pytest
from bench.job import BenchError
from bench.stages.word_pairs import (
    bound_for,
    count_words,
    distinct_pretokens,
    write_counts,
)

WORDS = [(b" the", 60), (b" cat", 30), (b" a", 20), (b" thecat", 5)]


def test_words_come_most_frequent_first(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("b a\nb_c 12 b<|endoftext|>é c3", encoding="utf-8")
    expected = [(b" b", 3), (b" c", 2), (b" a", 1), (" é".encode(), 1)]
    assert count_words(path, "<|endoftext|>") == expected


@pytest.mark.parametrize(("num_pairs", "num_words"), [(1, 1), (5, 3), (9, 3), (50, 10), (100, 10)])
def test_the_bound_is_the_least_that_is_enough(num_pairs: int, num_words: int) -> None:
    def pairs_within(bound: int) -> int:
        ranks = range(1, num_words + 1)
        return sum(1 for i in ranks for j in ranks if i * j <= bound)

    bound = bound_for(num_pairs, num_words)
    assert pairs_within(bound) >= num_pairs
    assert bound == 1 or pairs_within(bound - 1) < num_pairs


@pytest.mark.parametrize("num_distinct", [1, 4, 5, 9, 15])
def test_as_many_as_asked_for_with_real_words_first(num_distinct: int) -> None:
    inventory = distinct_pretokens(WORDS, num_distinct)
    assert len(inventory) == num_distinct
    assert list(inventory.items())[:4] == WORDS[:num_distinct]
    assert min(inventory.values()) >= 1


def test_a_compound_counts_as_often_as_chance_would_have_it() -> None:
    inventory = distinct_pretokens(WORDS, 9)
    assert inventory[b" thethe"] == 60 * 60 // 115
    assert inventory[b" thecat"] == 5  # a real word keeps its own count


def test_more_than_the_words_allow_is_an_error() -> None:
    with pytest.raises(BenchError, match="4 words"):
        distinct_pretokens(WORDS, 1000)


def test_the_files_hold_the_inventory(tmp_path: Path) -> None:
    write_counts({b" ab": 3, b"c": 2**40}, tmp_path)
    assert list(array("q", (tmp_path / "offsets").read_bytes())) == [0, 3, 4]
    assert (tmp_path / "data").read_bytes() == b" abc"
    assert list(array("Q", (tmp_path / "counts").read_bytes())) == [3, 2**40]
