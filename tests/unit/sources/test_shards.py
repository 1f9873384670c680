"""Numbered shards are a set: sorted, each once, and what is missing is named."""

from pathlib import Path

import pytest

from tokenmill.errors import ConfigError, SourceError
from tokenmill.sources.shards import choose_shards, chosen_numbers, parse_shards, shard_number


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("..8", [0, 1, 2, 3, 4, 5, 6, 7]),
        ("3,5,9", [3, 5, 9]),
        ("9,3,3,5", [3, 5, 9]),
        ("-1", [9]),
        ("2..5", [2, 3, 4]),
        ("7..", [7, 8, 9]),
        ("..-7", [0, 1, 2]),
        ("-2..", [8, 9]),
        ("..", list(range(10))),
        ("..2, 4 ,-1", [0, 1, 4, 9]),
    ],
)
def test_what_each_spelling_names(text: str, expected: list[int]) -> None:
    assert chosen_numbers(range(10), text, "data") == expected


def test_holes_only_matter_where_somebody_asks_for_them() -> None:
    present = [0, 1, 5, 6]
    assert chosen_numbers(present, "1..", "data") == [1, 5, 6]
    assert chosen_numbers(present, "-2", "data") == [5]
    assert chosen_numbers(present, "..-1", "data") == [0, 1, 5]
    with pytest.raises(SourceError, match="asks for 0–2, but `data` has 0–1, 5–6"):
        chosen_numbers(present, "..3", "data")


@pytest.mark.parametrize(
    "text", ["10", "..11", "-11", "3..3", "20..", "5..2", "..999999999999999999"]
)
def test_what_is_not_there_is_named(text: str) -> None:
    with pytest.raises(SourceError, match="0–9"):
        chosen_numbers(range(10), text, "data")


@pytest.mark.parametrize("text", ["", "a", "1,,2", "1...3", "1-3", "..8,"])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="cannot read the shards"):
        parse_shards(text)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("shard_00012.parquet", 12),
        ("data-00003-of-00005.arrow", 3),
        ("v1.2-7.jsonl.bz2", 7),
        ("part-0001.txt.gz", 1),
        ("README.txt", None),
    ],
)
def test_the_number_in_a_name(name: str, number: int | None) -> None:
    assert shard_number(Path(name)) == number


def test_files_are_chosen_by_number_not_by_place() -> None:
    files = [Path(f"d/shard_{number}.txt") for number in (10, 2, 1)] + [Path("d/README.txt")]
    assert choose_shards(files, "1..3", "d") == [Path("d/shard_1.txt"), Path("d/shard_2.txt")]
    assert choose_shards(files, "-1", "d") == [Path("d/shard_10.txt")]
    with pytest.raises(SourceError, match="are both shard 1"):
        choose_shards([Path("a_01.txt"), Path("b_1.txt")], "..", "d")
    with pytest.raises(SourceError, match="no file of `d` has a number"):
        choose_shards([Path("a.txt")], "..", "d")
