"""One training from its first document to its last file."""

import logging
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tokenmill import _core
from tokenmill.progress import Meter, ProgressChoice, quantity
from tokenmill.sources.inputs import Inputs, find_inputs
from tokenmill.sources.options import ReadOptions
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.tokenizer.vocab import Vocab
from tokenmill.train.count import origin_of
from tokenmill.train.count_job import CountJob, CountPlan
from tokenmill.train.counts import PretokenCounts
from tokenmill.train.layout import lay_out
from tokenmill.train.outputs import TrainedFolder, parents_of_counts, parents_of_inputs
from tokenmill.train.report import Stopwatch, TrainingReport, peak_memory_bytes
from tokenmill.train.settings import TrainSettings

if TYPE_CHECKING:
    from tokenmill.train.backends.backend import LearnedMerges

log = logging.getLogger("tokenmill")

STOPPED = {
    "full": "the vocab is full",
    "no pairs": "no pair is left to merge",
    "min count": "no pair occurs often enough",
}
"""Why a training ended, for people."""


@dataclass
class TrainingRun:
    """Settings, and what becomes of them."""

    settings: TrainSettings
    options: ReadOptions
    inputs: Inputs | None
    counts: PretokenCounts | None
    engine: str
    threads: int
    out: Path | None
    force: bool
    progress: ProgressChoice

    def run(self) -> Tokenizer:
        """Train, or load what an earlier run with the same settings made."""
        self._watch = Stopwatch()
        self._meter = Meter(self.progress)
        try:
            tokenizer = (
                self._from_inputs() if self.counts is None else self._from_counts(self.counts)
            )
        finally:
            self._meter.end()
        if tokenizer.training is None:
            return tokenizer
        return tokenizer.with_training(self._with_totals(tokenizer.training))

    def plan(self) -> CountPlan | None:
        """What there is to read, without reading it; `None` for a training from counts."""
        return None if self.counts is not None else self._job().plan(self.out)

    def _job(self) -> CountJob:
        sources = find_inputs(self.inputs, self.options)
        origin = origin_of(
            sources, self.options, self.settings.pattern, self.settings.special_tokens
        )
        return CountJob(sources, self.options, origin, self.threads)

    def _from_inputs(self) -> Tokenizer:
        job = self._job()
        ordered = self.options.has_limit
        folder = self._folder(job.origin.read)
        done = folder.finished_from_inputs(job.origin, ordered=ordered) if folder else None
        if done is not None:
            return done
        counting = (
            job.run_reference() if self.engine == "reference" else job.run(self.out, self._meter)
        )
        with counting as (counts, work):
            tokenizer = self._learn(counts)
            if folder is not None:
                parents = parents_of_inputs(counts.origin, ordered=ordered)
                tokenizer = self._saved(tokenizer, folder, parents)
            if work is not None:
                work.remove()
        return tokenizer

    def _from_counts(self, counts: PretokenCounts) -> Tokenizer:
        folder = self._folder(counts.origin.read)
        done = folder.finished_from_counts(counts) if folder else None
        if done is not None:
            return done
        tokenizer = self._learn(counts)
        if folder is not None:
            tokenizer = self._saved(tokenizer, folder, parents_of_counts(counts))
        return tokenizer

    def _folder(self, read: object) -> TrainedFolder | None:
        if self.out is None:
            return None
        return TrainedFolder(self.out, {**self.settings.as_settings(), "read": read}, self.force)

    def _saved(
        self, tokenizer: Tokenizer, folder: TrainedFolder, parents: dict[str, object]
    ) -> Tokenizer:
        started = time.perf_counter()
        tokenizer.save(folder.path, settings=folder.settings, parents=parents, force=self.force)
        seconds = time.perf_counter() - started
        return tokenizer.with_training(replace(tokenizer.training, saving_seconds=seconds))

    def _learn(self, counts: PretokenCounts) -> Tokenizer:
        if self.engine == "reference":
            from tokenmill.train.backends.plain_python import learn_merges
        else:
            from tokenmill.train.backends.rust_cpu import learn_merges

        counting_seconds = self._watch.wall()
        started = time.perf_counter()
        self._meter.begin("merging", "merges")
        progress = self._progress if self._meter.is_shown else None
        learned = learn_merges(counts.core, self.settings, self.threads, progress)
        merging_seconds = time.perf_counter() - started
        tokens, merges, special_tokens = lay_out(learned, self.settings)
        # `from_ids` would check what the trainer keeps by construction, for half the time merging
        # took; saving reads the folder back through all of those checks.
        core = _core.Vocab(tokens, merges, special_tokens)
        vocab_bytes = sum(map(len, tokens))
        report = self._report(counts, learned, vocab_bytes, counting_seconds, merging_seconds)
        _log_merges(learned, merging_seconds)
        return Tokenizer(Vocab(core, counts.pattern)).with_training(report)

    def _progress(self, merges: int, _count: int) -> None:
        # Merges that share an id are counted too, so the last few percent may go past the mark:
        # Meter clips.
        self._meter.update(merges, merges / max(1, self.settings.num_tokens - 256))

    def _report(
        self,
        counts: PretokenCounts,
        learned: "LearnedMerges",
        vocab_bytes: int,
        counting_seconds: float,
        merging_seconds: float,
    ) -> TrainingReport:
        tokens = learned.training_tokens
        return TrainingReport(
            read=counts.report,
            occurrences=counts.occurrences,
            distinct_pretokens=len(counts),
            distinct_pairs=learned.num_pairs,
            merges=len(learned.merges),
            vocab_size=len(learned.tokens) + len(self.settings.all_special_tokens),
            vocab_bytes=vocab_bytes,
            bytes_per_token=counts.total_bytes / tokens if tokens else None,
            stopped=learned.stopped,
            first_shared_merge=learned.first_shared,
            engine=self.engine,
            threads=self.threads,
            counting_seconds=counting_seconds,
            merging_seconds=merging_seconds,
            saving_seconds=None,
            wall_seconds=0.0,
            user_seconds=0.0,
            system_seconds=0.0,
            peak_memory_bytes=0,
        )

    def _with_totals(self, report: TrainingReport) -> TrainingReport:
        return replace(
            report,
            wall_seconds=self._watch.wall(),
            user_seconds=self._watch.user(),
            system_seconds=self._watch.system(),
            peak_memory_bytes=peak_memory_bytes(),
        )


def _log_merges(learned: "LearnedMerges", seconds: float) -> None:
    rate = len(learned.merges) / max(seconds, 1e-9)
    log.info(
        "%s at %s/s; %s before the first; %s",
        quantity(len(learned.merges), "merge"),
        quantity(round(rate), "merge"),
        quantity(learned.num_pairs, "distinct pair"),
        STOPPED[learned.stopped],
    )
    if not log.isEnabledFor(logging.DEBUG):
        return
    spelling = learned.tokens
    for left, right, count in learned.top_pairs:
        times = quantity(count, "time")
        log.debug("pair %r %r occurs %s", spelling[left], spelling[right], times)
    counts = learned.counts or [0] * len(learned.merges)
    for rank, ((left, right, joined), count) in enumerate(zip(learned.merges, counts, strict=True)):
        parts = (spelling[left], spelling[right], spelling[joined])
        log.debug("merge %d: %r + %r = %r, %s", rank, *parts, quantity(count, "time"))
