"""What the bench knows about a peer before it loads it.

An adapter is a module with a `PEER` and the three functions child.py calls: `load(job)` imports the library,
`run(library, job)` is the timed call, `answer(result)` lists what was learned. To add a peer, write one such
file, name it in `bench/peers/__init__.py` and in the cases of cases.toml that should run it.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Library:
    """What there is to know of a library to run it; trainers and encoders (bench/encoders) alike."""

    name: str
    """As people write it, and as `--peers` takes it."""
    distribution: str
    """Its name on the package index."""
    version: str
    """The release every number is about; another release is another peer."""
    program: str
    """Dotted name of the adapter module."""


@dataclass(frozen=True)
class Peer(Library):
    ties: str
    """The tie rule of tokenmill it is compared under."""
    patterns: tuple[str, ...] | None = None
    """Names of the only patterns it knows, `None` if it takes any regex."""
    differs: str | None = None
    """Why its answer may differ from exact BPE; then agreement is reported instead of required."""
    tries_one_thread: bool = False
    """Often faster on one thread: run both ways, and the better one counts."""

    def knows(self, pattern: str) -> bool:
        return self.patterns is None or pattern in self.patterns
