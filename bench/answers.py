"""Compare what two trainers learned, before anything is timed.

Two answers agree when every merge is the same pair in the same place. A trainer that only lists its tokens is
compared by tokens: in exact BPE a token's two parts follow from the tokens before it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bench.job import Answer

Pair = tuple[bytes, bytes]


@dataclass(frozen=True)
class Comparison:
    """`first_difference` is the index of the first merge that differs, `None` if the answers are equal."""

    num_ours: int
    num_theirs: int
    first_difference: int | None
    num_shared_tokens: int

    @property
    def equal(self) -> bool:
        return self.first_difference is None

    def describe(self) -> str:
        if self.equal:
            return f"all {self.num_ours:,} merges equal"
        share = self.num_shared_tokens / max(1, self.num_theirs)
        return (
            f"{share:.1%} of {self.num_theirs:,} tokens shared, "
            f"first difference at merge {self.first_difference:,}"
        )


def compare_answers(ours: Answer, theirs: Answer) -> Comparison:
    both = zip(ours, theirs, strict=False)
    differing = (index for index, (a, b) in enumerate(both) if not _same_row(a, b))
    first = next(differing, None)
    if first is None and len(ours) != len(theirs):
        first = min(len(ours), len(theirs))
    shared = {b"".join(row) for row in ours} & {b"".join(row) for row in theirs}
    return Comparison(len(ours), len(theirs), first, len(shared))


def _same_row(a: tuple[bytes, ...], b: tuple[bytes, ...]) -> bool:
    return a == b if len(a) == len(b) else b"".join(a) == b"".join(b)


def first_repeated_token(answer: Answer) -> int | None:
    """Index of the first merge that spells a token an earlier merge spelled already, by other parts."""
    seen: set[bytes] = set()
    for index, row in enumerate(answer):
        token = b"".join(row)
        if token in seen:
            return index
        seen.add(token)
    return None


def split_by_merges(pretoken: bytes, rank_of: Mapping[Pair, int]) -> list[bytes]:
    """`pretoken` as the given merges leave it. Plain and slow: it explains differences, nothing else."""
    parts = [pretoken[i : i + 1] for i in range(len(pretoken))]
    while len(parts) > 1:
        pairs = set(pairwise(parts))
        best = min(pairs, key=lambda pair: rank_of.get(pair, len(rank_of)))
        if best not in rank_of:
            break
        parts = _joined(parts, best)
    return parts


def _joined(parts: Sequence[bytes], pair: Pair) -> list[bytes]:
    joined: list[bytes] = []
    index = 0
    while index < len(parts):
        if tuple(parts[index : index + 2]) == pair:
            joined.append(parts[index] + parts[index + 1])
            index += 2
        else:
            joined.append(parts[index])
            index += 1
    return joined


def pair_counts_after(
    counts: Iterable[tuple[bytes, int]], merges: Sequence[Pair], wanted: Iterable[bytes]
) -> Counter[Pair]:
    """How often each pair that spells a token of `wanted` occurs once `merges` have been applied.

    Independent of the engine: when two trainers disagree, this says which of them chose the better pair.
    """
    rank_of: dict[Pair, int] = {}
    for rank, pair in enumerate(merges):
        rank_of.setdefault(pair, rank)
    tokens = set(wanted)
    occurrences: Counter[Pair] = Counter()
    for pretoken, count in counts:
        if not any(token in pretoken for token in tokens):
            continue
        parts = split_by_merges(pretoken, rank_of)
        for left, right in pairwise(parts):
            if left + right in tokens:
                occurrences[left, right] += count
    return occurrences
