"""Run entrants one process at a time, in turns: A B C A B C, never A A A.

A slow minute of the machine then falls on all of them. The first turn also brings the answers home; it is
never timed, and it is the first warm-up.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from bench.environments import last_line
from bench.job import Answer, BenchError, Job, Outcome, outcome_from_json, read_answer, to_json
from bench.machine import REPOSITORY


@dataclass(frozen=True)
class Entrant:
    name: str
    job: Job
    python: Path = Path(sys.executable)

    @property
    def label(self) -> str:
        threads = self.job.threads
        return f"{self.name}, {threads} thread{'s' if threads > 1 else ''}"


@dataclass
class Track:
    """One entrant's runs. After a failure it runs no more, and `failure` says why."""

    entrant: Entrant
    answer: Answer = field(default_factory=list)
    digest: str = ""
    outcomes: list[Outcome] = field(default_factory=list)
    failure: str | None = None

    @property
    def seconds(self) -> list[float]:
        return [outcome.seconds for outcome in self.outcomes]

    @property
    def peak_bytes(self) -> int:
        return max(outcome.peak_bytes for outcome in self.outcomes)


Say = Callable[[str], None]


def say_on_stderr(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Plan:
    runs: int
    warmup: int
    timeout_seconds: float
    say: Say = say_on_stderr


def run_answers(entrants: Sequence[Entrant], plan: Plan) -> list[Track]:
    """One untimed run of each, for what it learns."""
    return [_answered(Track(entrant), plan) for entrant in entrants]


def run_rounds(tracks: Sequence[Track], plan: Plan) -> None:
    """The remaining warm-ups, then `plan.runs` timed turns; outcomes go into the tracks."""
    for turn in range(1 - max(1, plan.warmup), plan.runs):
        kind = f"run {turn + 1} of {plan.runs}" if turn >= 0 else "warm-up"
        for track in tracks:
            if track.failure is None:
                _timed(track, plan, kind, keep=turn >= 0)


def _answered(track: Track, plan: Plan) -> Track:
    try:
        outcome, answer = run_once(track.entrant, plan.timeout_seconds, with_answer=True)
    except BenchError as error:
        track.failure = str(error)
        plan.say(f"  {track.entrant.label}: {track.failure}")
        return track
    track.answer, track.digest = answer, outcome.digest
    plan.say(f"  {track.entrant.label}: {len(answer):,} rows, {outcome.seconds:.2f} s")
    return track


def _timed(track: Track, plan: Plan, kind: str, *, keep: bool) -> None:
    try:
        outcome, _ = run_once(track.entrant, plan.timeout_seconds)
    except BenchError as error:
        track.failure = str(error)
        plan.say(f"  {kind}  {track.entrant.label}: {track.failure}")
        return
    if outcome.digest != track.digest:
        track.failure = "two runs on the same text gave two answers"
        return
    plan.say(f"  {kind}  {track.entrant.label}: {outcome.seconds:.3f} s")
    if keep:
        track.outcomes.append(outcome)


def run_once(
    entrant: Entrant, timeout_seconds: float, *, with_answer: bool = False
) -> tuple[Outcome, Answer]:
    """Run the job in a process of its own. BenchError when it fails, is killed or takes too long."""
    with TemporaryDirectory(prefix="tokenmill-bench-run-") as name:
        folder = Path(name)
        job_file, outcome_file, answer_file = (
            folder / part for part in ("job", "outcome", "answer")
        )
        job_file.write_text(to_json(entrant.job), encoding="utf-8")
        files = [job_file, outcome_file, *([answer_file] if with_answer else [])]
        try:
            done = subprocess.run(
                [str(entrant.python), "-m", "bench.child", *map(str, files)],
                cwd=REPOSITORY,
                env=_environment(entrant),
                stdout=subprocess.DEVNULL,  # gigatoken prints what it does
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                timeout=timeout_seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise BenchError(f"stopped after {timeout_seconds:.0f} s") from None
        if done.returncode != 0:
            raise BenchError(_why(done.returncode, done.stderr))
        outcome = outcome_from_json(outcome_file.read_text(encoding="utf-8"))
        return outcome, read_answer(answer_file) if with_answer else []


def _why(returncode: int, stderr: str) -> str:
    if returncode < 0:
        return f"killed by {signal.Signals(-returncode).name}"
    return f"failed: {last_line(stderr)}"


def _environment(entrant: Entrant) -> dict[str, str]:
    """Every peer in Rust takes its number of threads from rayon's variable, and all have their bytecode."""
    ours = entrant.python == Path(sys.executable)
    paths = [str(REPOSITORY), *([os.environ.get("PYTHONPATH", "")] if ours else [])]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "RAYON_NUM_THREADS": str(entrant.job.threads),
        "TOKENIZERS_PARALLELISM": "true" if entrant.job.threads > 1 else "false",
        "PYTHONWARNINGS": "ignore",
        # Bytecode for everybody, wherever it may be written: without it a process that is timed compiles what it imports.
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(Path(gettempdir(), "tokenmill-bench-bytecode")),
    }
