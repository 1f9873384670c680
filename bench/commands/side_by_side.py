"""Encoders beside each other on one job: answers first, then times, then a record with every ratio.

A peer with a goal that gives other ids than ours stops the command: a ratio between two different answers means
nothing. A peer without one is left out of the timing and the table says why.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.commands.setting import (
    Place,
    Setting,
    entrant_record,
    make_record,
    missing_record,
    number,
    package_version,
    place,
)
from bench.corpora import Corpus
from bench.encoders import ENCODERS, tokenmill
from bench.job import Answer, BenchError, Job
from bench.peers.peer import Library
from bench.rounds import Entrant, Track, run_answers, run_rounds
from bench.tables import Record, fastest, median
from bench.vocabularies import Vocabulary


@dataclass(frozen=True)
class Contest:
    """One job for several libraries. The first entrant is ours and is the one goals are about."""

    kind: str
    case: str
    corpus: Corpus
    vocabulary: Vocabulary
    entrants: tuple[Entrant, ...]
    absent: tuple[Place[Library], ...]
    goals: Mapping[str, float]
    """Name of a peer → how many times faster than it we mean to be."""
    right_answer: Answer | None = None
    """Known beforehand, as for decoding, or `None`."""


def our_entrants(job: Job, forms: Sequence[str] = ("",)) -> list[Entrant]:
    ours = replace(job, encoder=tokenmill.PROGRAM)
    return [Entrant(tokenmill.NAME, replace(ours, form=form)) for form in forms]


def peer_entrants(
    job: Job, setting: Setting, names: Sequence[str]
) -> tuple[list[Entrant], list[Place[Library]]]:
    """Those that can run, and those that cannot be installed here."""
    wanted = names if setting.peers is None else [name for name in names if name in setting.peers]
    places = [place(ENCODERS[name], setting) for name in wanted]
    entrants = [
        Entrant(each.peer.name, replace(job, encoder=each.peer.program), each.python)
        for each in places
        if each.python is not None
    ]
    return entrants, [each for each in places if each.python is None]


def contest_record(contest: Contest, setting: Setting, **more: Any) -> Record:
    where = f"{contest.case}, {contest.corpus.name}, {contest.vocabulary.name}"
    setting.plan.say(f"{where}: answers")
    tracks = run_answers(contest.entrants, setting.plan)
    _require(tracks[0])
    right = contest.right_answer or tracks[0].answer
    for track in tracks:
        _compare(track, right, required=track.entrant.name in (tokenmill.NAME, *contest.goals))
    setting.plan.say(f"{where}: times")
    run_rounds(tracks, setting.plan)
    _require(tracks[0])
    entrants = [_record_of(track, right) for track in tracks]
    missing = [missing_record(each, tracks[0].entrant.job.threads) for each in contest.absent]
    record = make_record(
        contest.kind, contest.case, contest.corpus, setting, [*entrants, *missing], **more
    )
    record |= {
        "vocabulary": contest.vocabulary.name,
        "vocab_size": contest.vocabulary.size,
        "pattern": contest.vocabulary.pattern,
        "threads": tracks[0].entrant.job.threads,
    }
    return record | {"numbers": list(_numbers(contest, record))}


def _require(track: Track) -> None:
    if track.failure is not None:
        raise BenchError(f"{track.entrant.name} {track.failure}")


def _compare(track: Track, right: Answer, *, required: bool) -> None:
    if track.failure is not None or track.answer == right:
        return
    form = f" ({track.entrant.job.form})" if track.entrant.job.form else ""
    message = f"gave another answer: {_size(track.answer)} instead of {_size(right)}"
    if required:
        raise BenchError(
            f"{track.entrant.name}{form} {message}\n"
            "hint: `python -m bench encode-equality` names the document"
        )
    track.failure = message


def _size(answer: Answer) -> str:
    """The second row of an answer is how many ids or bytes it has."""
    return f"{int(answer[1][0]):,} ids or bytes, digest {answer[0][0].hex()[:8]}"


def _record_of(track: Track, right: Answer) -> Record:
    ours = track.entrant.name.startswith(tokenmill.NAME)
    version = package_version() if ours else ENCODERS[track.entrant.name].version
    same = track.failure is None and track.answer == right
    text = f"same, {int(right[1][0]):,}" if same else ""
    record = entrant_record(track, version, text, equal=same)
    return record | {"form": track.entrant.job.form}


def _numbers(contest: Contest, record: Record) -> Iterator[Record]:
    ours = record["entrants"][0]
    for name, wanted in contest.goals.items():
        if name not in {entrant["name"] for entrant in record["entrants"]}:
            continue
        what = f"{contest.case}, {_what(contest)}: faster than {name}"
        goal, theirs = f"≥ {wanted:g}×", fastest(record, name)
        own = median(ours)
        if theirs is None or not own:
            yield number(what, goal, "", None)
            continue
        ratio = (median(theirs) or 0.0) / own
        yield number(what, goal, f"{ratio:.1f}×", ratio >= wanted)


def _what(contest: Contest) -> str:
    return f"{contest.corpus.name}, {contest.vocabulary.name} {contest.vocabulary.size:,}"
