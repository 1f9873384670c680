"""Counts: made from dicts and buffers, sorted, added, cut."""

import random
import struct

import pytest

from tokenmill import _core
from tokenmill.errors import FormatError

EXAMPLE = {b"the": 5, b"a": 7, b"\xff\x00": 1, b"x" * 70_000: 2}


def from_mapping(mapping: dict[bytes, int]) -> _core.Counts:
    return _core.Counts.from_mapping(mapping)


def as_dict(counts: _core.Counts) -> dict[bytes, int]:
    return dict(counts.most_common(len(counts)))


def from_lists(offsets: list[int], data: bytes, counts: list[int]) -> _core.Counts:
    return _core.Counts.from_buffers(
        struct.pack(f"{len(offsets)}q", *offsets), data, struct.pack(f"{len(counts)}Q", *counts)
    )


def test_a_dict_comes_back() -> None:
    counts = from_mapping(EXAMPLE)
    assert as_dict(counts) == EXAMPLE
    assert len(counts) == 4
    assert counts.occurrences == 15
    assert counts.total_bytes == 15 + 7 + 2 + 140_000


def test_most_common_is_by_count_then_bytes() -> None:
    counts = from_mapping({b"b": 2, b"a": 2, b"c": 3, b"d": 1})
    assert counts.most_common(3) == [(b"c", 3), (b"a", 2), (b"b", 2)]
    assert counts.most_common(0) == []
    assert len(counts.most_common(99)) == 4


def test_buffers_are_sorted_and_come_back() -> None:
    counts = from_mapping(EXAMPLE)
    offsets, data, numbers = counts.buffers()
    assert data == b"".join(sorted(EXAMPLE))
    assert struct.unpack("4Q", numbers) == tuple(EXAMPLE[pretoken] for pretoken in sorted(EXAMPLE))
    assert struct.unpack("5q", offsets)[0] == 0
    assert _core.Counts.from_buffers(offsets, data, numbers).buffers() == counts.buffers()


def test_buffers_in_any_order_with_repeats_add_up() -> None:
    counts = from_lists([0, 1, 3, 4], b"babb", [2, 3, 40])
    assert as_dict(counts) == {b"b": 42, b"ab": 3}


def test_empty() -> None:
    counts = from_mapping({})
    assert (len(counts), counts.occurrences, counts.total_bytes) == (0, 0, 0)
    assert _core.Counts.from_buffers(*counts.buffers()).buffers() == counts.buffers()


def test_adding_is_adding_dicts() -> None:
    rng = random.Random(1)
    for _ in range(100):
        one, two = (
            {
                rng.randbytes(rng.randint(1, 3)): rng.randint(1, 9)
                for _ in range(rng.randint(0, 200))
            }
            for _ in range(2)
        )
        both = {key: one.get(key, 0) + two.get(key, 0) for key in one.keys() | two.keys()}
        assert as_dict(from_mapping(one).add(from_mapping(two))) == both


def test_at_least_drops_the_rare() -> None:
    counts = from_mapping(EXAMPLE).at_least(3)
    assert as_dict(counts) == {b"the": 5, b"a": 7}
    assert counts.occurrences == 12


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({b"": 1}, "empty pretoken"),
        ({b"a": 0}, "pretoken `a` has the count 0"),
        ({b"a": -1}, "the count of pretoken `a` is -1"),
        ({b"a": 2**64}, "the count of pretoken `a` is 18446744073709551616"),
    ],
)
def test_refused(mapping: dict[bytes, int], message: str) -> None:
    with pytest.raises(FormatError, match=message):
        from_mapping(mapping)


@pytest.mark.parametrize(
    ("offsets", "data", "counts"),
    [
        ([0, 2, 1], b"ab", [1, 1]),
        ([0, 3], b"ab", [1]),
        ([-1, 2], b"ab", [1]),
        ([0, 1, 1], b"ab", [1, 1]),
        ([0, 1, 2], b"ab", [1, 0]),
        ([0, 1, 2], b"ab", [1]),
        ([], b"", []),
    ],
    ids=["falling", "past the end", "negative", "empty pretoken", "count of 0", "one count missing", "no offsets"],
)  # fmt: skip
def test_buffers_that_are_refused(offsets: list[int], data: bytes, counts: list[int]) -> None:
    with pytest.raises(FormatError):
        from_lists(offsets, data, counts)
