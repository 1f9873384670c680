"""Comparing answers: a wrong merge anywhere must be seen, and explained by counts."""

from bench.answers import (
    compare_answers,
    first_repeated_token,
    pair_counts_after,
    split_by_merges,
)
from bench.job import Answer

MERGES: Answer = [(b"l", b"o"), (b"lo", b"w"), (b"e", b"r")]


def test_equal_pairs_are_equal() -> None:
    comparison = compare_answers(MERGES, list(MERGES))
    assert comparison.equal
    assert comparison.describe() == "all 3 merges equal"


def test_tokens_without_parts_are_compared_by_their_bytes() -> None:
    assert compare_answers(MERGES, [(b"lo",), (b"low",), (b"er",)]).equal
    assert compare_answers(MERGES, [(b"lo",), (b"er",), (b"low",)]).first_difference == 1


def test_the_same_token_from_other_parts_is_a_difference() -> None:
    other: Answer = [(b"l", b"o"), (b"l", b"ow"), (b"e", b"r")]
    assert compare_answers(MERGES, other).first_difference == 1


def test_a_missing_last_merge_is_a_difference() -> None:
    comparison = compare_answers(MERGES, MERGES[:2])
    assert comparison.first_difference == 2
    assert comparison.num_shared_tokens == 2
    assert comparison.describe() == "100.0% of 2 tokens shared, first difference at merge 2"


def test_agreement_counts_shared_tokens() -> None:
    comparison = compare_answers(MERGES, [(b"er",), (b"lo",), (b"we",), (b"low",)])
    assert (comparison.first_difference, comparison.num_shared_tokens) == (0, 3)
    assert comparison.describe().startswith("75.0% of 4 tokens shared")


def test_a_token_made_twice_is_found() -> None:
    assert first_repeated_token(MERGES) is None
    assert first_repeated_token([(b"a", b"b"), (b"b", b"c"), (b"ab", b"c"), (b"a", b"bc")]) == 3


def test_splitting_follows_ranks_and_takes_runs_from_the_left() -> None:
    assert split_by_merges(b"lower", {(b"l", b"o"): 0, (b"lo", b"w"): 1}) == [b"low", b"e", b"r"]
    assert split_by_merges(b"aaa", {(b"a", b"a"): 0}) == [b"aa", b"a"]
    assert split_by_merges(b"abc", {(b"b", b"c"): 0, (b"a", b"b"): 1}) == [b"a", b"bc"]


def test_pair_counts_after_some_merges_are_weighted_by_occurrences() -> None:
    counts = [(b"low", 5), (b"lower", 2), (b"slow", 1), (b"new", 9)]
    after = pair_counts_after(counts, [(b"l", b"o")], [b"low", b"we", b"lo"])
    assert after == {(b"lo", b"w"): 8, (b"w", b"e"): 2}
