"""The engine learns what the reference learns: the same merges, ids, counts and reasons to stop."""

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, pairwise
from typing import Any

import pytest
from random_corpora import TIES, Corpus, Merge, Seen, random_corpora, replay

from tokenmill import _core, reference

NUM_CORPORA = 2_000

Learned = tuple[list[bytes], list[Merge]]
Trainer = Callable[[Corpus, str], Learned]


def by_reference(corpus: Corpus, ties: str) -> Learned:
    learned = reference.train(corpus.counts, corpus.num_tokens, ties, **corpus.limits)
    return learned.tokens, learned.merges


def core_merges(corpus: Corpus, ties: str, threads: int = 1) -> _core.Merges:
    counts = _core.Counts.from_mapping(corpus.counts)
    return _core.train_merges(
        counts, num_tokens=corpus.num_tokens, ties=ties, threads=threads, **corpus.limits
    )


@functools.cache
def core_runs(ties: str) -> list[tuple[Corpus, _core.Merges]]:
    return [(corpus, core_merges(corpus, ties)) for corpus in random_corpora(1, NUM_CORPORA)]


def by_core(corpus: Corpus, ties: str) -> Learned:
    merges = core_merges(corpus, ties)
    return merges.tokens(), merges.triples()


def first_difference(trainer: Trainer, corpora: Iterable[Corpus], ties: str) -> int | None:
    """Index of the first corpus from which `trainer` and the reference learn different things."""
    differing = (
        index
        for index, corpus in enumerate(corpora)
        if trainer(corpus, ties) != by_reference(corpus, ties)
    )
    return next(differing, None)


@pytest.mark.parametrize("ties", TIES)
def test_merges_of_the_reference(ties: str) -> None:
    assert first_difference(by_core, random_corpora(1, NUM_CORPORA), ties) is None


@pytest.mark.parametrize("ties", TIES)
def test_the_corpora_are_hard(ties: str) -> None:
    """What the corpora above exercise, and what else the engine says about them."""
    seen = Seen()
    stopped: Counter[str] = Counter()
    for corpus, merges in core_runs(ties):
        again = replay(corpus, merges.tokens(), merges.triples())
        assert merges.counts() == again.merge_counts
        assert merges.training_tokens == again.num_tokens
        assert merges.num_pairs == again.num_pairs
        # From single bytes, two merges never spell the same bytes.
        assert merges.first_shared is None
        assert len(set(merges.tokens())) == 256 + len(merges)
        seen += again.seen
        stopped[merges.stopped] += 1
    assert seen.merges >= 18_000, seen
    assert seen.ties >= 9_000, seen
    assert seen.runs >= 2_500, seen
    assert seen.passed_over >= 1_500, seen
    assert sum(corpus.longest > 255 for corpus, _ in core_runs(ties)) >= 120
    assert min(stopped[reason] for reason in ("full", "no pairs", "min count")) >= 500, stopped


def test_the_rules_differ() -> None:
    """A trainer that mistakes one rule for another cannot pass."""
    for ties, other in combinations(TIES, 2):
        both = zip(core_runs(ties), core_runs(other), strict=True)
        changed = sum(one.triples() != two.triples() for (_, one), (_, two) in both)
        assert changed >= 400, (ties, other, changed)


def incremental(
    tie_key: Callable[[Any, str, Sequence[bytes]], Any] = reference.tie_key,
    change: Callable[[int], int] = lambda count: count,
    join: Callable[[Iterable[int], Any, int], list[int]] = reference.join,
) -> Trainer:
    """A plain trainer that corrects pair counts instead of counting again, with parts that can be broken."""

    def train(corpus: Corpus, ties: str) -> Learned:
        tokens = list(reference.BYTES)
        merges: list[Merge] = []
        pretokens = [(list(pretoken), count) for pretoken, count in corpus.counts.items()]
        pairs: Counter[tuple[int, int]] = Counter()
        for ids, count in pretokens:
            for pair in pairwise(ids):
                pairs[pair] += count
        longest = corpus.limits.get("max_token_bytes", 10**9)
        while len(tokens) < corpus.num_tokens:
            allowed = [p for p in pairs if len(tokens[p[0]]) + len(tokens[p[1]]) <= longest]
            best = max(allowed, key=lambda p: (pairs[p], tie_key(p, ties, tokens)), default=None)
            if best is None or pairs[best] < corpus.limits.get("min_count", 1):
                break
            merges.append((*best, len(tokens)))
            tokens.append(tokens[best[0]] + tokens[best[1]])
            joined = [join(ids, best, len(tokens) - 1) for ids, _ in pretokens]
            for (before, count), after in zip(pretokens, joined, strict=True):
                if before != after:
                    for pair in pairwise(before):
                        pairs[pair] -= change(count)
                    for pair in pairwise(after):
                        pairs[pair] += change(count)
            pretokens = [(ids, count) for ids, (_, count) in zip(joined, pretokens, strict=True)]
            del pairs[best]
            pairs = +pairs
        return tokens, merges

    return train


def highest_ids(pair: tuple[int, int], ties: str, tokens: Sequence[bytes]) -> object:
    return pair


def lowest_ids_of_bytes(pair: tuple[int, int], ties: str, tokens: Sequence[bytes]) -> object:
    return reference.tie_key(pair, "lowest-ids", tokens)


def greatest_joined_bytes(pair: tuple[int, int], ties: str, tokens: Sequence[bytes]) -> object:
    return tokens[pair[0]] + tokens[pair[1]]


def join_from_the_right(ids: Iterable[int], pair: tuple[int, int], joined: int) -> list[int]:
    """a a a becomes a aa."""
    backwards = reference.join(reversed(list(ids)), (pair[1], pair[0]), joined)
    return backwards[::-1]


def join_overlapping(ids: Iterable[int], pair: tuple[int, int], joined: int) -> list[int]:
    """a a a becomes aa and nothing: the middle a is used twice."""
    ids = list(ids)
    starts = {i for i, found in enumerate(pairwise(ids)) if found == pair}
    return [joined if i in starts else x for i, x in enumerate(ids) if i - 1 not in starts]


BROKEN: dict[str, tuple[Trainer, str]] = {
    "wrong tie, lowest-ids": (incremental(tie_key=highest_ids), "lowest-ids"),
    "wrong tie, huggingface": (incremental(tie_key=lowest_ids_of_bytes), "huggingface"),
    "wrong tie, greatest-bytes": (incremental(tie_key=greatest_joined_bytes), "greatest-bytes"),
    "one instead of count": (incremental(change=lambda count: 1), "lowest-ids"),
    "runs from the right": (incremental(join=join_from_the_right), "lowest-ids"),
    "runs overlapping": (incremental(join=join_overlapping), "lowest-ids"),
}


@pytest.mark.parametrize("bug", BROKEN)
def test_planted_bugs_are_caught(bug: str) -> None:
    """Within the first twenty of the two thousand corpora."""
    trainer, ties = BROKEN[bug]
    assert first_difference(trainer, random_corpora(1, 20), ties) is not None


@pytest.mark.parametrize("ties", TIES)
def test_without_a_bug_nothing_is_caught(ties: str) -> None:
    assert first_difference(incremental(), random_corpora(1, 200), ties) is None


@pytest.mark.parametrize("ties", TIES)
def test_threads_change_nothing(ties: str) -> None:
    for corpus in random_corpora(2, 50):
        learned = [core_merges(corpus, ties, threads).triples() for threads in (1, 2, 7)]
        assert learned[0] == learned[1] == learned[2]


def test_top_pairs() -> None:
    for corpus in random_corpora(3, 200):
        pairs: Counter[tuple[int, int]] = Counter()
        for pretoken, count in corpus.counts.items():
            for pair in pairwise(pretoken):
                pairs[pair] += count
        expected = sorted(((-count, pair) for pair, count in pairs.items()))[:20]
        found = core_merges(corpus, "lowest-ids").top_pairs()
        assert [(-count, (left, right)) for left, right, count in found] == expected
