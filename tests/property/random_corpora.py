"""Small corpora full of what trainers get wrong: ties, runs of one byte, long pretokens, limits."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tokenmill import reference

TIES = ("lowest-ids", "huggingface", "greatest-bytes")

# Hugging Face orders these bytes otherwise than by value; `greatest-bytes` compares whole tokens.
ALPHABET = b"ab \xff\xad!\x7fA"


@dataclass(frozen=True)
class Corpus:
    """`limits` are keywords of both trainers: min_count, max_token_bytes, neither or both."""

    counts: Mapping[bytes, int]
    num_tokens: int
    limits: Mapping[str, Any]

    @property
    def longest(self) -> int:
        return max(map(len, self.counts))


def random_corpora(seed: int, number: int) -> Iterator[Corpus]:
    rng = random.Random(seed)
    for index in range(number):
        alphabet = rng.sample(ALPHABET, rng.randint(1, 5))
        longest = rng.choice((3, 6, 12, 25))
        # Large counts keep their ties, and make the engine forget rare pairs and remember them later.
        scale = (1, 1, 100, 10**6)[index % 4]
        counts: dict[bytes, int] = {}
        for _ in range(rng.randint(1, 14)):
            pretoken = bytes(rng.choices(alphabet, k=rng.randint(1, longest)))
            counts[pretoken] = scale * rng.choice((1, 1, 2, 2, 3, 4, 7))
        if index % 5 == 0:
            counts[bytes(alphabet[:1]) * rng.randint(3, 9)] = scale * 2
        if index % 16 == 0:
            counts[bytes(rng.choices(alphabet, k=rng.randint(256, 400)))] = scale
        limits: dict[str, Any] = {}
        if index % 6 in (1, 2):
            limits["min_count"] = scale * rng.randint(2, 6)
        if index % 6 in (2, 3):
            limits["max_token_bytes"] = rng.randint(2, 5)
        yield Corpus(counts, 256 + rng.randint(1, 40), limits)


Merge = tuple[int, int, int]


@dataclass
class Seen:
    """How often the hard cases came up while merges were made again, one by one, from the counts."""

    merges: int = 0
    ties: int = 0
    runs: int = 0
    passed_over: int = 0
    """Merges before which a pair that is too long was at least as frequent."""

    def __iadd__(self, other: "Seen") -> "Seen":
        self.merges += other.merges
        self.ties += other.ties
        self.runs += other.runs
        self.passed_over += other.passed_over
        return self


@dataclass
class Replay:
    seen: Seen
    merge_counts: list[int]
    num_pairs: int
    num_tokens: int
    """Tokens that the counted text has become."""


def replay(corpus: Corpus, tokens: list[bytes], merges: list[Merge]) -> Replay:
    """Count all pairs before each merge, then make it."""
    seen = Seen()
    merge_counts: list[int] = []
    longest = corpus.limits.get("max_token_bytes", len(max(tokens, key=len)) + corpus.longest)
    pretokens = [(list(pretoken), count) for pretoken, count in corpus.counts.items()]
    num_pairs = len({pair for ids, _ in pretokens for pair in pairwise(ids)})
    for left, right, joined in merges:
        pairs: Counter[tuple[int, int]] = Counter()
        for ids, count in pretokens:
            for pair in pairwise(ids):
                pairs[pair] += count
        count = pairs[left, right]
        rivals = [p for p, n in pairs.items() if n >= count and p != (left, right)]
        allowed = [p for p in rivals if len(tokens[p[0]]) + len(tokens[p[1]]) <= longest]
        assert all(pairs[pair] == count for pair in allowed), "the merge was not the most frequent"
        seen += Seen(1, bool(allowed), has_run(pretokens, left, right), len(rivals) > len(allowed))
        merge_counts.append(count)
        pretokens = [(reference.join(ids, (left, right), joined), n) for ids, n in pretokens]
    num_tokens = sum(len(ids) * count for ids, count in pretokens)
    return Replay(seen, merge_counts, num_pairs, num_tokens)


def has_run(pretokens: list[tuple[list[int], int]], left: int, right: int) -> bool:
    """Whether the pair overlaps itself somewhere, as (a, a) does in a a a."""
    return left == right and any(
        ids[i : i + 3] == [left] * 3 for ids, _ in pretokens for i in range(len(ids) - 2)
    )
