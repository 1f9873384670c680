"""One run in one process: a Job goes in as JSON, an Outcome comes back as JSON.

This module is loaded by every measured process, also by those of peers in their own environments, so it
imports little and never tokenmill: what it loads would count towards a peer's peak memory.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

Answer = list[tuple[bytes, ...]]
"""What a run learned, in order: (left, right) of each merge, or (token,) from a trainer that does not say
which merge made a token, or a (digest,) with what else is worth telling."""


class BenchError(Exception):
    """A measurement that cannot be made or must not be trusted."""


@dataclass(frozen=True)
class Job:
    """What to run on what. `program` is a module with `load`, `run` and `answer` (see child.py)."""

    program: str
    path: str
    threads: int
    vocab_size: int = 32768
    pattern: str = "gpt4"
    regex: str = ""
    """The pattern spelled out, for peers that take no names."""
    ties: str = "lowest-ids"
    separator: str = "<|endoftext|>"
    encoder: str = ""
    """For what encodes or decodes: dotted name of the adapter of the library that does it."""
    tokenizer: str = ""
    """Folder of the tokenizer, as tokenmill wrote it."""
    shape: str = "batch"
    """`batch` for a list of documents, `text` for all of them as one text."""
    form: str = ""
    """How ids are taken and given where a library offers more than one way, such as `lists`."""
    warm_path: str = ""
    """Text that is encoded before the clock starts, so that caches are as in the middle of a long job."""
    out: str = ""
    """Folder to write to; whoever writes cleans up."""
    size: int = 0
    """Bytes, steps or tokens, for what is asked for an amount of work and not for all of a file."""
    options: dict[str, float] = field(default_factory=dict[str, float])
    """What else a program wants to know, by name."""


@dataclass(frozen=True)
class Outcome:
    """One measured run. `digest` stands for the whole answer: runs of one job must agree on it."""

    seconds: float
    user_seconds: float
    system_seconds: float
    peak_bytes: int
    digest: str
    num_rows: int
    extra: dict[str, float] = field(default_factory=dict)
    """What else the program measured, by name."""


def to_json(value: Job | Outcome) -> str:
    return json.dumps(asdict(value))


def job_from_json(text: str) -> Job:
    return Job(**json.loads(text))


def outcome_from_json(text: str) -> Outcome:
    return Outcome(**json.loads(text))


def write_answer(path: Path, answer: Iterable[tuple[bytes, ...]]) -> None:
    """One row a line, its parts in hex: readable with any tool when two answers differ."""
    with path.open("w", encoding="ascii") as file:
        for row in answer:
            file.write(" ".join(part.hex() for part in row) + "\n")


def read_answer(path: Path) -> Answer:
    with path.open(encoding="ascii") as file:
        return [tuple(bytes.fromhex(part) for part in line.split()) for line in file]
