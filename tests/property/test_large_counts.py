"""Counts are exact to 2**64 - 1: merges do not change where other trainers overflow, and a sum beyond raises."""

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise

import pytest
from random_corpora import TIES, Corpus, random_corpora

from tokenmill import _core, reference

MOST = 2**64 - 1


def scaled(corpus: Corpus, most: int) -> dict[bytes, int]:
    """Counts as large as they can be without a pair that occurs more than `most` times. They keep their order, but
    every other one is one more than its equals, so that few ties are left to rules."""
    ones = {pretoken: index % 2 for index, pretoken in enumerate(sorted(corpus.counts))}
    factor = (most - most_frequent(ones)) // most_frequent(corpus.counts)
    return {pretoken: count * factor + ones[pretoken] for pretoken, count in corpus.counts.items()}


def most_frequent(counts: Mapping[bytes, int]) -> int:
    """Occurrences of the most frequent pair, or of a pretoken of one byte if that is more."""
    found = Counter(counts)
    for pretoken, count in counts.items():
        for pair in pairwise(pretoken):
            found[bytes([*pair, 0])] += count
    return max(found.values())


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("most", [2**31, 2**32, 2**33, 2**53, 2**63, MOST])
def test_merges_of_the_reference(ties: str, most: int) -> None:
    """Pairs that occur just about `most` times, a hundred corpora for each tie rule."""
    reached = 0
    for corpus in random_corpora(5, 100):
        counts = scaled(corpus, most)
        limits = {name: value for name, value in corpus.limits.items() if name != "min_count"}
        found = _core.train_merges(
            _core.Counts.from_mapping(counts), num_tokens=corpus.num_tokens, ties=ties, **limits
        )
        expected = reference.train(counts, corpus.num_tokens, ties, **limits)
        assert (found.tokens(), found.triples()) == (expected.tokens, expected.merges), counts
        reached += most_frequent(counts) > most - most // 8
    assert reached >= 95


@pytest.mark.parametrize("big", [2**31, 2**32, 2**63])
def test_one_more_decides(big: int) -> None:
    """32-bit counts would take `ab`: its count wraps to a larger number, or the two look alike."""
    counts = _core.Counts.from_mapping({b"ab": big - 1, b"cd": big, b"de": 1})
    merges = _core.train_merges(counts, num_tokens=258)
    assert merges.tokens()[256:] == [b"cd", b"ab"]
    assert merges.counts() == [big, big - 1]


def test_pairs_of_2_64_minus_1() -> None:
    merges = _core.train_merges(
        _core.Counts.from_mapping({b"ab": 2**63, b"xab": 2**63 - 1}), num_tokens=300
    )
    assert merges.counts() == [MOST, 2**63 - 1]
    assert merges.training_tokens == MOST


@pytest.mark.parametrize(
    "counts", [{b"ab": 2**63, b"xab": 2**63}, {b"abab": 2**63}, {b"aaa": 2**63}]
)
def test_a_pair_beyond_raises(counts: dict[bytes, int]) -> None:
    with pytest.raises(OverflowError, match="2\\^64 - 1"):
        _core.train_merges(_core.Counts.from_mapping(counts), num_tokens=300)
    pretokens = [(tuple(pretoken), count) for pretoken, count in counts.items()]
    with pytest.raises(OverflowError, match="2\\^64 - 1"):
        _core.train_merges_from(reference.BYTES, pretokens, num_tokens=300)


def test_a_pair_that_grows_beyond_through_a_shared_id_raises() -> None:
    """(a, b) becomes `ab`, which stands before c in as many places as before."""
    tokens = [*reference.BYTES, b"ab"]
    a, b, c, ab = 97, 98, 99, 256
    for count, fits in ((2**63 - 1, True), (2**63, False)):
        pretokens = [((ab, c), count), ((a, b, c), 2**63), ((a, b), 1)]
        if fits:
            merges = _core.train_merges_from(tokens, pretokens, num_tokens=300)
            assert merges.counts() == [2**63 + 1, MOST]
        else:
            with pytest.raises(OverflowError, match="2\\^64 - 1"):
                _core.train_merges_from(tokens, pretokens, num_tokens=300)


def test_adding_beyond_raises() -> None:
    counts = _core.Counts.from_mapping({b"ab": MOST, b"cd": 1})
    with pytest.raises(OverflowError, match="`ab` occurs more than 2\\^64 - 1 times"):
        counts.add(_core.Counts.from_mapping({b"ab": 1}))
    both = counts.add(_core.Counts.from_mapping({b"cd": MOST - 1}))
    assert dict(both.most_common(2)) == {b"ab": MOST, b"cd": MOST}
    assert both.occurrences == 2 * MOST
    assert both.total_bytes == 4 * MOST
