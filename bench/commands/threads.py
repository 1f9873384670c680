"""`bench threads`: the same training with 1, 2, 4 … threads, and the share that stays serial."""

from dataclasses import replace
from typing import Any

from bench.commands.setting import (
    Setting,
    entrant_record,
    make_record,
    named_patterns,
    number,
    package_version,
)
from bench.corpora import Corpus
from bench.job import BenchError, Job
from bench.machine import available_cores
from bench.peers import tokenmill
from bench.rounds import Entrant, run_answers, run_rounds
from bench.summary import serial_share, summarize
from bench.tables import Record


def threads_record(
    corpus: Corpus, pattern: str, thread_counts: tuple[int, ...], setting: Setting
) -> Record:
    """Also checks that the answer does not depend on the number of threads."""
    setting.plan.say(f"threads, {corpus.name}, {pattern}")
    job = Job(
        program=tokenmill.PROGRAM,
        path=str(corpus.path),
        threads=1,
        vocab_size=setting.vocab_size,
        pattern=pattern,
        regex=named_patterns()[pattern],
        separator=setting.cases.separator,
    )
    entrants = [Entrant(tokenmill.NAME, replace(job, threads=threads)) for threads in thread_counts]
    tracks = run_answers(entrants, setting.plan)
    run_rounds(tracks, setting.plan)
    for track in tracks:
        if track.failure is not None:
            raise BenchError(f"tokenmill with {track.entrant.job.threads} threads {track.failure}")
    if len({track.digest for track in tracks}) > 1:
        raise BenchError("the merges depend on the number of threads")

    medians = {track.entrant.job.threads: summarize(track.seconds).median for track in tracks}
    records = [entrant_record(track, package_version(), "same merges") for track in tracks]
    record = make_record("threads", f"threads-{pattern}", corpus, setting, records)
    return record | {"pattern": pattern, "numbers": [_serial_number(corpus, pattern, medians)]}


def _serial_number(corpus: Corpus, pattern: str, medians: dict[int, float]) -> dict[str, Any]:
    cores = available_cores()
    fitted = {threads: seconds for threads, seconds in medians.items() if threads <= cores}
    share = serial_share(fitted)
    what = f"serial share, {pattern}, {corpus.name}, fitted up to {cores} threads"
    return number(what, "", "" if share is None else f"{share:.1%}", None)
