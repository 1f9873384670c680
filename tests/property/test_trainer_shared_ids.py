"""Merges that spell the same bytes share one id, as in Hugging Face.

From single bytes they cannot happen. Where pretokens are tokens already, cut in ways that no merges would give,
the same bytes come together from different parts, and a pair that was merged can come back through a shared id:
then it is merged again and keeps its one rank.
"""

import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from tokenmill import _core, reference
from tokenmill.errors import VocabError

TIES = ("lowest-ids", "huggingface", "greatest-bytes")
NUM_CORPORA = 2_000
MADE = [b"ab", b"ba", b"aa", b"bb", b"aba", b"abab", b"\xff ", b" a"]
TOKENS = [*reference.BYTES, *MADE]

Corpus = dict[tuple[int, ...], int]


def random_corpora(seed: int, number: int) -> Iterator[tuple[Corpus, int]]:
    """Pretokens as ids, with how many tokens to learn up to."""
    rng = random.Random(seed)
    for index in range(number):
        single = rng.sample(b"ab" if index % 4 else b"ab \xff", 2)
        letters = single + rng.sample(range(256, len(TOKENS)), 3)
        scale = (1, 1, 1000)[index % 3]
        corpus: Corpus = {}
        for _ in range(rng.randint(1, 14)):
            corpus[tuple(rng.choices(letters, k=rng.randint(1, 20)))] = scale * rng.randint(1, 4)
        if index % 20 == 0:
            corpus[tuple(rng.choices(letters, k=300))] = scale
        yield corpus, len(TOKENS) + rng.randint(0, 30)


def core_merges(corpus: Corpus, num_tokens: int, ties: str) -> _core.Merges:
    return _core.train_merges_from(TOKENS, list(corpus.items()), num_tokens=num_tokens, ties=ties)


@pytest.mark.parametrize("ties", TIES)
def test_merges_of_the_reference(ties: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[int, int]] = []
    join = reference.join

    def join_and_remember(ids: list[int], pair: tuple[int, int], joined: int) -> list[int]:
        if not made or made[-1] != pair:
            made.append(pair)
        return join(ids, pair, joined)

    monkeypatch.setattr(reference, "join", join_and_remember)
    num_shared = num_back = num_corpora = 0
    for corpus, num_tokens in random_corpora(1, NUM_CORPORA):
        made.clear()
        learned = reference.train(corpus, num_tokens, ties, tokens=TOKENS)
        merges = core_merges(corpus, num_tokens, ties)
        assert (merges.tokens(), merges.triples()) == (learned.tokens, learned.merges), corpus
        shared = [
            i for i, (_, _, to) in enumerate(learned.merges) if to in first_ids(learned.merges, i)
        ]
        assert merges.first_shared == (shared[0] if shared else None)
        num_shared += len(shared)
        num_back += len(made) - len(set(made))
        num_corpora += 1
    assert num_corpora == NUM_CORPORA
    assert num_shared >= 2_500
    assert num_back >= 25


def first_ids(merges: list[tuple[int, int, int]], index: int) -> set[int]:
    """Ids that exist before the merge at `index`."""
    return {*range(len(TOKENS)), *(to for _, _, to in merges[:index])}


def test_a_pair_that_comes_back_is_merged_again() -> None:
    a, b, c, ab = b"a"[0], b"b"[0], b"c"[0], 256
    tokens = [*reference.BYTES, b"ab"]
    corpus = [((ab, c), 5), ((a, b, c), 3)]
    merges = _core.train_merges_from(tokens, corpus, num_tokens=300)
    assert merges.triples() == [(ab, c, 257), (a, b, ab)]
    assert merges.counts() == [5, 3]
    assert merges.tokens()[256:] == [b"ab", b"abc"]
    assert merges.first_shared == 1
    assert merges.training_tokens == 8
    assert reference.train(dict(corpus), 300, tokens=tokens).merges == merges.triples()


def test_a_pair_forgotten_for_min_count_comes_back_with_its_true_count() -> None:
    """Two of `bb` make the pair (` a`, `bb`), which occurred too rarely to be kept before."""
    space_a, bb = TOKENS.index(b" a"), TOKENS.index(b"bb")
    corpus: Corpus = {(32, 98, TOKENS.index(b"ab"), space_a, 98, 98): 3_000}
    merges = _core.train_merges_from(TOKENS, list(corpus.items()), num_tokens=275, min_count=3)
    assert (space_a, bb) not in {(left, right) for left, right, _ in merges.triples()}
    assert set(merges.counts()) == {3_000}
    assert merges.triples() == reference.train(corpus, 275, min_count=3, tokens=TOKENS).merges


@pytest.mark.parametrize("ties", TIES)
def test_tokens_and_counts_add_up(ties: str) -> None:
    """The text becomes what applying the merges in order, again and again, leaves of it."""
    for corpus, num_tokens in random_corpora(2, 200):
        merges = core_merges(corpus, num_tokens, ties)
        pairs = {pair for ids in corpus for pair in pairwise(ids)}
        assert merges.num_pairs == len(pairs)
        assert len(merges.counts()) == len(merges)
        if merges.stopped == "no pairs":
            assert merges.training_tokens == sum(corpus.values())


LIMITS: list[dict[str, Any]] = [
    {"min_count": 3},
    {"min_count": 2_000},
    {"max_token_bytes": 4},
    {"min_count": 2, "max_token_bytes": 5},
]


def test_limits() -> None:
    for corpus, num_tokens in random_corpora(3, 300):
        for limits in LIMITS:
            learned = reference.train(corpus, num_tokens, tokens=TOKENS, **limits)
            pretokens = list(corpus.items())
            found = _core.train_merges_from(TOKENS, pretokens, num_tokens=num_tokens, **limits)
            assert (found.tokens(), found.triples()) == (learned.tokens, learned.merges), corpus


def test_pretokens_of_single_bytes_are_plain_training() -> None:
    rng = random.Random(4)
    for _ in range(200):
        counts = {
            bytes(rng.choices(b"abc ", k=rng.randint(1, 12))): rng.randint(1, 5) for _ in range(6)
        }
        plain = _core.train_merges(_core.Counts.from_mapping(counts), num_tokens=280)
        pretokens = [(tuple(pretoken), count) for pretoken, count in counts.items()]
        found = _core.train_merges_from(reference.BYTES, pretokens, num_tokens=280)
        assert found.triples() == plain.triples()


@pytest.mark.parametrize(
    ("tokens", "pretokens", "message"),
    [
        ([b"a", b""], [((0,), 1)], "token 1 is empty"),
        ([b"a", b"b"], [((0, 2), 1)], "token id 2 is not below 2"),
    ],
)
def test_refused(
    tokens: list[bytes], pretokens: list[tuple[tuple[int, ...], int]], message: str
) -> None:
    with pytest.raises(VocabError, match=message):
        _core.train_merges_from(tokens, pretokens, num_tokens=300)
