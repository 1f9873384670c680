"""What every command shares: its options, how entrants become records, and how records are kept."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from bench.cases import Cases
from bench.corpora import Corpus
from bench.environments import NotAvailable, python_for
from bench.history import write_history
from bench.machine import Commit, Machine, this_command
from bench.peers.peer import Library
from bench.results import store
from bench.rounds import Plan, Track
from bench.tables import Record

SomeLibrary = TypeVar("SomeLibrary", bound=Library)


@dataclass(frozen=True)
class Setting:
    """The options of one command line. `peers` is `None` when the cases are to say which run."""

    cases: Cases
    plan: Plan
    vocab_size: int
    threads: int
    env_dir: Path
    peers: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Place(Generic[SomeLibrary]):
    """A peer and the Python it runs in, or why it cannot run."""

    peer: SomeLibrary
    python: Path | None
    reason: str | None = None


def place(peer: SomeLibrary, setting: Setting) -> Place[SomeLibrary]:
    try:
        return Place(peer, python_for(peer, setting.env_dir))
    except NotAvailable as error:
        setting.plan.say(f"  {peer.name}: not available: {error}")
        return Place(peer, None, f"not available: {error}")


def named_patterns() -> dict[str, str]:
    """Name → regex, from the package that is being measured."""
    from tokenmill import _core

    return _core.named_patterns()


def package_version() -> str:
    from tokenmill import _core

    return _core.__version__


def entrant_record(
    track: Track, version: str, answer: str = "", *, equal: bool | None = None
) -> dict[str, Any]:
    """`equal` says whether a peer's merges are ours, `None` where that was not asked."""
    done = track.failure is None
    return {
        "name": track.entrant.name,
        "version": version,
        "threads": track.entrant.job.threads,
        "seconds": track.seconds if done else [],
        "user_seconds": [outcome.user_seconds for outcome in track.outcomes],
        "system_seconds": [outcome.system_seconds for outcome in track.outcomes],
        "peak_bytes": track.peak_bytes if done else None,
        "answer": answer,
        "equal": equal,
        "failure": track.failure,
    }


def missing_record(place: Place[Any], threads: int) -> dict[str, Any]:
    """An entrant that never ran."""
    return {
        "name": place.peer.name,
        "version": place.peer.version,
        "threads": threads,
        "seconds": [],
        "user_seconds": [],
        "system_seconds": [],
        "peak_bytes": None,
        "answer": "",
        "equal": None,
        "failure": place.reason,
    }


def make_record(
    kind: str,
    case: str,
    corpus: Corpus,
    setting: Setting,
    entrants: list[dict[str, Any]],
    **more: Any,
) -> Record:
    return {
        "kind": kind,
        "case": case,
        "corpus": {"name": corpus.name, "bytes": corpus.num_bytes},
        "vocab_size": setting.vocab_size,
        "runs": setting.plan.runs,
        "warmup": max(1, setting.plan.warmup),
        "command": this_command(),
        "entrants": entrants,
        "numbers": [],
        **more,
    }


def number(what: str, wanted: str, measured: str, reached: bool | None) -> dict[str, Any]:
    return {"what": what, "wanted": wanted, "measured": measured, "reached": reached}


def keep(record: Record, machine: Machine, commit: Commit, folder: Path) -> Path:
    """Store a record under this machine and commit, and bring history.md up to date."""
    path = store([record], machine, commit, folder)
    write_history(folder)
    return path


def as_json(records: Sequence[Record]) -> str:
    return json.dumps(list(records), indent=1, ensure_ascii=False)
