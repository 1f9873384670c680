"""Count pretokens: documents in, PretokenCounts out.

Counts add up, and without limits no step looks at more than one document, so threads, chunks, the
order of files and interruptions never show in the result. With `out`, work goes unit by unit and
can be resumed; without, one pass through memory, and no file is written.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

from tokenmill.errors import ConfigError
from tokenmill.progress import Meter, ProgressChoice
from tokenmill.sources.choices import require_whole_number
from tokenmill.sources.inputs import Inputs, find_inputs
from tokenmill.sources.options import ReadKeywords, ReadOptions
from tokenmill.sources.source import TextSource
from tokenmill.storage.files import local_path
from tokenmill.tokenizer.threads import num_threads
from tokenmill.train.count_job import CountJob, CountPlan
from tokenmill.train.counts import PretokenCounts, described
from tokenmill.train.origin import Origin
from tokenmill.train.settings import TrainSettings
from tokenmill.work.input_records import InputRecord, same_inputs
from tokenmill.work.reading import BLOCK_BYTES
from tokenmill.work.units import UNIT_BYTES


def count(
    inputs: Inputs,
    *,
    pattern: str = TrainSettings.pattern,
    special_tokens: Sequence[str] = TrainSettings.special_tokens,
    min_count: int = 1,
    threads: int | None = None,
    out: str | os.PathLike[str] | None = None,
    force: bool = False,
    progress: ProgressChoice = None,
    unit_bytes: int = UNIT_BYTES,
    block_bytes: int = BLOCK_BYTES,
    **read: Unpack[ReadKeywords],
) -> PretokenCounts:
    """Count the pretokens of every document of `inputs`.

    `inputs` is a path, glob, folder or `-`, a list of these, an iterable of documents, or a table;
    `read` takes the fields of ReadOptions. `min_count` drops rarer pretokens and marks the counts
    as cut. With `out` the counts are also saved there: an interrupted run goes on where it stopped,
    a finished one with the same settings is loaded, one with other settings is refused unless
    `force`. The result does not depend on `threads`, `unit_bytes` or `block_bytes`.

    >>> count(iter(["low lower", "low"]), pattern="gpt2").to_dict()
    {b' lower': 1, b'low': 2}
    """
    return prepare_count(
        inputs,
        pattern=pattern,
        special_tokens=special_tokens,
        min_count=min_count,
        threads=threads,
        out=out,
        force=force,
        progress=progress,
        unit_bytes=unit_bytes,
        block_bytes=block_bytes,
        **read,
    ).run()


def prepare_count(
    inputs: Inputs,
    *,
    pattern: str = TrainSettings.pattern,
    special_tokens: Sequence[str] = TrainSettings.special_tokens,
    min_count: int = 1,
    threads: int | None = None,
    out: str | os.PathLike[str] | None = None,
    force: bool = False,
    progress: ProgressChoice = None,
    unit_bytes: int = UNIT_BYTES,
    block_bytes: int = BLOCK_BYTES,
    **read: Unpack[ReadKeywords],
) -> "CountRun":
    """A count checked and ready to run, or to be asked for its plan. The arguments are those of
    `count`."""
    require_whole_number("min count", min_count, 1)
    options = ReadOptions.from_keywords(read)
    sources = find_inputs(inputs, options)
    origin = origin_of(sources, options, pattern, special_tokens)
    job = CountJob(sources, options, origin, num_threads(threads), unit_bytes, block_bytes)
    final = None if out is None else local_path(out)
    return CountRun(job, min_count, final, force, progress)


@dataclass(frozen=True)
class CountRun:
    """A count, and where its result goes."""

    job: CountJob
    min_count: int
    out: Path | None
    force: bool
    progress: ProgressChoice

    def plan(self) -> CountPlan:
        """What there is to read, without reading it."""
        return self.job.plan(self.out)

    def run(self) -> PretokenCounts:
        """Count, or load what an earlier run with the same settings made."""
        done = self._finished() if self.out is not None else None
        if done is not None:
            return done
        meter = Meter(self.progress)
        try:
            with self.job.run(self.out, meter) as (counted, work):
                result = counted.at_least(self.min_count)
                if self.out is not None:
                    result.save(self.out)
                if work is not None:
                    work.remove()
                return result
        finally:
            meter.end()

    def _finished(self) -> PretokenCounts | None:
        """The counts at `out` if they are what this run would make. ConfigError if they are
        something else."""
        assert self.out is not None
        if self.out.is_dir():
            raise ConfigError(f"`{self.out}` is a folder, but counts are a file")
        if not self.out.exists() or self.force:
            return None
        from tokenmill.train.counts_file import load_counts, read_origin

        origin = replace(self.job.origin, min_count=self.min_count)
        there = read_origin(self.out)
        if there is not None and there.without_inputs() == origin.without_inputs():
            recorded = [each.as_json() for each in there.inputs]
            ordered = self.job.options.has_limit
            if same_inputs(recorded, there.inputs_unread, origin.inputs, ordered=ordered):
                return load_counts(self.out)
        made = "by something else" if there is None else "from other text or with other settings"
        raise ConfigError(
            f"`{self.out}` exists and was made {made}",
            "choose another output, or pass `--force` (`force=True`) to replace it",
        )


def origin_of(
    sources: Sequence[TextSource], options: ReadOptions, pattern: str, special_tokens: Sequence[str]
) -> Origin:
    """What counts of these sources will say about themselves; nothing is hashed yet."""
    records = [InputRecord.of(source) for source in sources]
    return described(pattern, special_tokens, records, options.as_settings())
