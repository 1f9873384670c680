"""The engine: the core's merge loop on this machine's processors."""

from tokenmill import _core
from tokenmill.train.backends.backend import LearnedMerges, Progress
from tokenmill.train.settings import TrainSettings


def learn_merges(
    counts: _core.Counts, settings: TrainSettings, threads: int, progress: Progress | None
) -> LearnedMerges:
    """Learn until the vocab is full, no pair is left, or the best one is too rare. GIL released,
    Ctrl-C heard."""
    learned = _core.train_merges(
        counts,
        num_tokens=settings.num_tokens,
        ties=settings.ties,
        min_count=settings.min_count,
        max_token_bytes=settings.max_token_bytes,
        special_tokens=settings.all_special_tokens,
        threads=threads,
        progress=progress,
    )
    return LearnedMerges(
        tokens=learned.tokens(),
        merges=learned.triples(),
        counts=learned.counts(),
        stopped=learned.stopped,
        training_tokens=learned.training_tokens,
        num_pairs=learned.num_pairs,
        top_pairs=learned.top_pairs(),
        first_shared=learned.first_shared,
    )
