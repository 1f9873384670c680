"""`bench train`: whole training runs beside the peers, answers compared first.

A peer that should give our merges and does not stops the command: a ratio between two different answers
means nothing. A peer that differs by design is timed, and the table says how much it shares.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from bench.answers import compare_answers
from bench.cases import TrainCase
from bench.commands.setting import (
    Place,
    Setting,
    entrant_record,
    make_record,
    missing_record,
    named_patterns,
    number,
    package_version,
    place,
)
from bench.corpora import Corpus
from bench.job import Answer, BenchError, Job
from bench.peers import PEERS, tokenmill
from bench.peers.peer import Peer
from bench.rounds import Entrant, Track, run_answers, run_rounds
from bench.tables import Record, fastest, in_megabytes, median


def train_record(case: TrainCase, corpus: Corpus, setting: Setting) -> Record:
    job = Job(
        program=tokenmill.PROGRAM,
        path=str(corpus.path),
        threads=setting.threads,
        vocab_size=setting.vocab_size,
        pattern=case.pattern,
        regex=named_patterns()[case.pattern],
        ties=case.ties,
        separator=setting.cases.separator,
    )
    names = setting.peers if setting.peers is not None else case.peers
    places = [place(PEERS[name], setting) for name in names if PEERS[name].knows(case.pattern)]
    ours = Entrant(tokenmill.NAME, job)
    entrants = [entrant for each in places for entrant in _entrants(each, job)]

    setting.plan.say(f"{case.name}, {corpus.name}: answers")
    tracks = run_answers([ours, *entrants], setting.plan)
    if tracks[0].failure is not None:
        raise BenchError(f"tokenmill {tracks[0].failure}")
    other_rules = {each.peer.ties for each in places} - {case.ties}
    answers = {case.ties: tracks[0].answer, **_our_answers(ours, other_rules, setting)}
    compared = [_compared(track, answers) for track in tracks[1:]]
    setting.plan.say(f"{case.name}, {corpus.name}: times")
    run_rounds(tracks, setting.plan)
    if tracks[0].failure is not None:
        raise BenchError(f"tokenmill {tracks[0].failure}")

    own = entrant_record(tracks[0], package_version(), f"{len(tracks[0].answer):,} merges")
    theirs = [
        entrant_record(track, PEERS[track.entrant.name].version, text, equal=equal)
        for track, (equal, text) in zip(tracks[1:], compared, strict=True)
    ]
    missing = [missing_record(each, setting.threads) for each in places if each.python is None]
    record = make_record("train", case.name, corpus, setting, [own, *theirs, *missing])
    record |= {"pattern": case.pattern, "threads": setting.threads}
    return record | {"numbers": list(_numbers(case, record))}


def _entrants(place: Place[Peer], job: Job) -> Iterator[Entrant]:
    if place.python is None:
        return
    peer = place.peer
    counts = {1, job.threads} if peer.tries_one_thread else {job.threads}
    for threads in sorted(counts):
        its_job = replace(job, program=peer.program, threads=threads, ties=peer.ties)
        yield Entrant(peer.name, its_job, place.python)


def _our_answers(ours: Entrant, rules: set[str], setting: Setting) -> dict[str, Answer]:
    """What tokenmill learns under each tie rule that a peer follows."""
    entrants = [
        Entrant(f"{ours.name}, ties {rule}", replace(ours.job, ties=rule)) for rule in sorted(rules)
    ]
    tracks = run_answers(entrants, setting.plan)
    for track in tracks:
        if track.failure is not None:
            raise BenchError(f"{track.entrant.name} {track.failure}")
    return {track.entrant.job.ties: track.answer for track in tracks}


def _compared(track: Track, answers: dict[str, Answer]) -> tuple[bool | None, str]:
    """Whether a peer's answer is ours, in a word and in a sentence. BenchError if it should be and is not."""
    if track.failure is not None:
        return None, ""
    peer = PEERS[track.entrant.name]
    comparison = compare_answers(answers[peer.ties], track.answer)
    if comparison.equal:
        return True, comparison.describe()
    if peer.differs is None:
        raise BenchError(
            f"{peer.name} {peer.version} and tokenmill under the tie rule `{peer.ties}` learned different "
            f"merges: {comparison.describe()}\nhint: `python -m bench equality` names the merge"
        )
    return False, f"{comparison.describe()} ({peer.differs})"


def _numbers(case: TrainCase, record: Record) -> Iterator[dict[str, object]]:
    where = f"train {record['pattern']}, {record['corpus']['name']}"
    ours = fastest(record, tokenmill.NAME)
    own = median(ours) if ours else None
    for name, wanted in case.faster_than.items():
        theirs = fastest(record, name)
        what, goal = f"{where}: faster than {name}", f"≥ {wanted:g}×"
        if own is None or theirs is None:
            yield number(what, goal, "", None)
            continue
        ratio = (median(theirs) or 0.0) / own
        yield number(what, goal, f"{ratio:.1f}×", ratio >= wanted)
    if case.leanest and ours is not None:
        yield _memory_number(where, ours, record["entrants"][1:])


def _memory_number(where: str, ours: Record, others: Sequence[Record]) -> dict[str, object]:
    measured = [entrant for entrant in others if entrant["peak_bytes"] is not None]
    what = f"{where}: peak memory"
    if not measured:
        return number(what, "≤ the leanest peer's", in_megabytes(ours["peak_bytes"]), None)
    leanest = min(measured, key=lambda entrant: entrant["peak_bytes"])
    goal = f"≤ {in_megabytes(leanest['peak_bytes'])} ({leanest['name']})"
    reached = ours["peak_bytes"] <= leanest["peak_bytes"]
    return number(what, goal, in_megabytes(ours["peak_bytes"]), reached)
