"""The cases of `bench train` that time a part of training: counting, merging, reading Parquet."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bench.commands.setting import Setting, entrant_record, make_record, number, package_version
from bench.corpora import Corpus
from bench.documents import read_through
from bench.job import BenchError, Job
from bench.machine import REPOSITORY, installed_version
from bench.peers import tokenmill
from bench.rounds import Entrant, Track, run_answers, run_rounds
from bench.stages import count_pretokens, merge_counts, read_parquet
from bench.stages.parquet_copy import write_parquet
from bench.summary import summarize
from bench.tables import Record


def count_record(corpus: Corpus, setting: Setting) -> Record:
    """Pretokenise and count on one thread, every named pattern: megabytes a second for one core."""
    case = setting.cases.count
    setting.plan.say(f"{case.name}, {corpus.name}")
    jobs = [
        Job(count_pretokens.PROGRAM, str(corpus.path), case.threads, pattern=pattern)
        for pattern in case.patterns
    ]
    tracks = _measured([Entrant(job.pattern, job) for job in jobs], setting)
    numbers: list[dict[str, Any]] = []
    for track in tracks:
        rate = corpus.num_bytes / 1e6 / summarize(track.seconds).median
        what = f"count {track.entrant.name}, {corpus.name}: per core"
        goal = f"≥ {case.min_megabytes_per_second:g} MB/s"
        reached = rate >= case.min_megabytes_per_second
        numbers.append(number(what, goal, f"{rate:.0f} MB/s", reached))
    entrants = [entrant_record(track, "") for track in tracks]
    return make_record("count", case.name, corpus, setting, entrants, numbers=numbers)


def merge_record(corpus: Corpus, setting: Setting) -> Record:
    """Merging alone on a small and a large inventory of compounds of the corpus's words."""
    case = setting.cases.merge
    setting.plan.say(
        f"{case.name}: making {case.distinct[-1]:,} pretokens from the words of {corpus.name}"
    )
    with TemporaryDirectory(prefix="tokenmill-bench-merge-") as name:
        folders = [Path(name) / str(distinct) for distinct in case.distinct]
        _make_word_pairs(corpus, setting, folders)
        tracks = _measured(
            [
                Entrant(
                    f"{distinct:,} pretokens",
                    Job(merge_counts.PROGRAM, str(folder), setting.threads, setting.vocab_size),
                )
                for distinct, folder in zip(case.distinct, folders, strict=True)
            ],
            setting,
        )
    few, many = summarize(tracks[0].seconds).median, summarize(tracks[-1].seconds).median
    what = f"merge {case.distinct[-1]:,} pretokens vs {case.distinct[0]:,}, words of {corpus.name}"
    reached = many / few <= case.max_ratio
    numbers = [number(what, f"≤ {case.max_ratio:g}×", f"{many / few:.2f}×", reached)]
    entrants = [entrant_record(track, "") for track in tracks]
    return make_record("merge", case.name, corpus, setting, entrants, numbers=numbers)


def _make_word_pairs(corpus: Corpus, setting: Setting, folders: Sequence[Path]) -> None:
    """In a process of its own: eight million Python objects are not worth keeping."""
    targets = [word for folder in folders for word in (folder.name, str(folder))]
    arguments = [str(corpus.path), setting.cases.separator, *targets]
    done = subprocess.run(
        [sys.executable, "-m", "bench.stages.word_pairs", *arguments],
        cwd=REPOSITORY,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BenchError(f"making pretokens from words failed: {done.stderr.strip()}")


def parquet_records(corpus: Corpus, setting: Setting) -> list[Record]:
    """The same documents as Parquet and as text, counted and trained, and pyarrow's read alone."""
    case = setting.cases.parquet
    setting.plan.say(f"{case.name}, {corpus.name}")
    with TemporaryDirectory(prefix="tokenmill-bench-parquet-") as name:
        parquet = Path(name) / f"{corpus.name}.parquet"
        write_parquet(corpus.path, setting.cases.separator, case.rows_per_group, parquet)
        read_through(parquet)
        return [
            _parquet_record(program, corpus, parquet, setting)
            for program in (tokenmill.PROGRAM, count_pretokens.PROGRAM)
        ]


def _parquet_record(program: str, corpus: Corpus, parquet: Path, setting: Setting) -> Record:
    case = setting.cases.parquet
    verb = "train" if program == tokenmill.PROGRAM else "count"

    def entrant(name: str, path: Path, its_program: str = program) -> Entrant:
        return Entrant(
            name, Job(its_program, str(path), setting.threads, setting.vocab_size, case.pattern)
        )

    entrants = [
        entrant(f"{verb} .parquet", parquet),
        entrant(f"{verb} .txt", corpus.path),
        entrant("pyarrow read alone", parquet, read_parquet.PROGRAM),
    ]
    tracks = _measured(entrants, setting, same_answer=2)
    from_parquet, *others = (summarize(track.seconds).median for track in tracks)
    ratio = from_parquet / max(others)
    what = f"{verb} .parquet vs the larger of .txt and pyarrow's read, {corpus.name}"
    numbers = [number(what, f"≤ {case.max_ratio:g}×", f"{ratio:.2f}×", ratio <= case.max_ratio)]
    versions = [package_version(), package_version(), installed_version("pyarrow") or ""]
    measured = zip(tracks, versions, strict=True)
    records = [entrant_record(track, version) for track, version in measured]
    return make_record("parquet", f"{case.name}-{verb}", corpus, setting, records, numbers=numbers)


def _measured(
    entrants: Sequence[Entrant], setting: Setting, *, same_answer: int = 0
) -> list[Track]:
    """Answers, then times. Every entrant here is ours or simple: a failure is an error.

    The first `same_answer` entrants must learn the same thing."""
    tracks = run_answers(entrants, setting.plan)
    if len({track.digest for track in tracks[:same_answer]}) > 1:
        names = " and ".join(track.entrant.name for track in tracks[:same_answer])
        raise BenchError(f"{names} gave different answers")
    run_rounds(tracks, setting.plan)
    for track in tracks:
        if track.failure is not None:
            raise BenchError(f"{track.entrant.name} {track.failure}")
    return tracks
