"""Runs in processes of their own: in turns, with failures told apart, never trusted when answers vary."""

from pathlib import Path

import pytest
from bench.job import BenchError, Job, read_answer, write_answer
from bench.rounds import Entrant, Plan, run_answers, run_once, run_rounds

PROGRAM = """
import os, sys, time
from pathlib import Path

def load(job):
    return Path(job.path)

def run(log, job):
    with log.open("a") as file:
        file.write(f"{job.ties}{job.threads}{os.environ['RAYON_NUM_THREADS']}\\n")
    if job.ties == "crash":
        raise ValueError("the reason")
    if job.ties == "hang":
        time.sleep(60)
    if job.ties == "hungry":
        return [(str(len(b"x" * 200_000_000)).encode(),)]
    if job.ties == "fickle":
        return [(str(os.getpid()).encode(),)]
    return [(b"l", b"o"), (b"lo", b"w")]

def answer(result):
    return result
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "program_under_test.py").write_text(PROGRAM, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path / "log"


def entrant(name: str, log: Path, threads: int = 1) -> Entrant:
    return Entrant(name, Job("program_under_test", str(log), threads, ties=name))


def quiet(runs: int, warmup: int, timeout_seconds: float = 30) -> Plan:
    return Plan(runs, warmup, timeout_seconds, say=lambda message: None)


def test_entrants_take_turns_and_warm_ups_are_not_kept(log: Path) -> None:
    plan = quiet(runs=2, warmup=2)
    tracks = run_answers([entrant("a", log), entrant("b", log, threads=3)], plan)
    run_rounds(tracks, plan)
    assert log.read_text(encoding="utf-8").split() == ["a11", "b33"] * 4
    assert [len(track.outcomes) for track in tracks] == [2, 2]
    assert all(track.answer == [(b"l", b"o"), (b"lo", b"w")] for track in tracks)


def test_the_answer_comes_first_even_without_warm_up(log: Path) -> None:
    plan = quiet(runs=1, warmup=0)
    tracks = run_answers([entrant("a", log)], plan)
    run_rounds(tracks, plan)
    assert log.read_text(encoding="utf-8").split() == ["a11", "a11"]
    assert len(tracks[0].outcomes) == 1


def test_a_failing_entrant_is_reported_and_the_others_go_on(log: Path) -> None:
    plan = quiet(runs=1, warmup=1)
    tracks = run_answers([entrant("crash", log), entrant("b", log)], plan)
    run_rounds(tracks, plan)
    assert tracks[0].failure == "failed: ValueError: the reason"
    assert tracks[0].outcomes == []
    assert len(tracks[1].outcomes) == 1


def test_two_answers_to_one_question_end_an_entrant(log: Path) -> None:
    plan = quiet(runs=2, warmup=1)
    tracks = run_answers([entrant("fickle", log)], plan)
    run_rounds(tracks, plan)
    assert tracks[0].failure == "two runs on the same text gave two answers"


def test_a_run_that_takes_too_long_is_stopped(log: Path) -> None:
    with pytest.raises(BenchError, match="stopped after 1 s"):
        run_once(entrant("hang", log), timeout_seconds=1)


def test_time_and_memory_are_those_of_the_call(log: Path) -> None:
    small, _ = run_once(entrant("a", log), 30)
    large, _ = run_once(entrant("hungry", log), 30)
    assert large.peak_bytes - small.peak_bytes > 150_000_000
    assert 0 < small.seconds < 5


def test_an_answer_survives_its_file(tmp_path: Path) -> None:
    answer = [(b"\x00\n", b" "), (b"\xff",)]
    write_answer(tmp_path / "answer", answer)
    assert read_answer(tmp_path / "answer") == answer


def test_the_outcome_counts_the_rows_of_the_answer(log: Path) -> None:
    outcome, answer = run_once(entrant("a", log), 30, with_answer=True)
    assert outcome.num_rows == len(answer) == 2
