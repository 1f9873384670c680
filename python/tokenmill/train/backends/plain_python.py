"""tokenmill/reference.py as a backend: slow, short, and the same answer."""

from collections import Counter
from itertools import pairwise

from tokenmill import _core, reference
from tokenmill.train.backends.backend import LearnedMerges, Progress
from tokenmill.train.counts import as_dict
from tokenmill.train.settings import NUM_BYTES, TrainSettings


def learn_merges(
    counts: _core.Counts, settings: TrainSettings, threads: int, progress: Progress | None
) -> LearnedMerges:
    """Learn the same merges as the engine, recounting every pair for each. One thread, no progress."""
    occurrences = as_dict(counts)
    learned = reference.train(
        occurrences,
        settings.num_tokens,
        settings.ties,
        settings.min_count,
        settings.max_token_bytes,
    )
    pairs: Counter[tuple[int, int]] = Counter()
    for pretoken, number in occurrences.items():
        for pair in pairwise(pretoken):
            pairs[pair] += number
    full = len(learned.tokens) >= settings.num_tokens
    return LearnedMerges(
        tokens=learned.tokens,
        merges=learned.merges,
        counts=None,
        stopped="full" if full else "min count" if settings.min_count > 1 else "no pairs",
        training_tokens=_training_tokens(occurrences, learned),
        num_pairs=len(pairs),
        top_pairs=[(left, right, number) for (left, right), number in pairs.most_common(20)],
        first_shared=_first_shared(learned.merges),
    )


def _first_shared(merges: list[tuple[int, int, int]]) -> int | None:
    newest = NUM_BYTES - 1
    for index, (_, _, joined) in enumerate(merges):
        if joined <= newest:
            return index
        newest = joined
    return None


def _training_tokens(occurrences: dict[bytes, int], learned: reference.Learned) -> int:
    return sum(
        number * len(reference.encode(pretoken, learned, lambda whole: [whole], {}))
        for pretoken, number in occurrences.items()
    )
