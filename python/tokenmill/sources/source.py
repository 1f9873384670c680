"""TextSource: anything that can be opened as documents, whole or in parts.

A source is a description until it is opened: listing a thousand files opens none of them. What
opening gives is read once, in order, by the core's worker threads.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from tokenmill import _core
from tokenmill.sources.options import ReadOptions


class Part(NamedTuple):
    """A range of a source: of bytes in plain text and JSON lines, of row groups in Parquet; `end`
    is exclusive."""

    start: int
    end: int
    size_in_bytes: int


@dataclass
class OpenedSource:
    """A source being read."""

    documents: _core.Source
    position: Callable[[], int] | None = None
    """Bytes of the input consumed so far; `None` where they are the text bytes themselves, or
    unknown."""
    closers: list[Callable[[], None]] = field(default_factory=list)

    def close(self) -> None:
        for close in reversed(self.closers):
            close()


class TextSource(Protocol):
    """One input: a file, a stream or a Python object."""

    @property
    def name(self) -> str: ...
    @property
    def size_in_bytes(self) -> int | None:
        """Bytes of the input as stored, `None` if nobody knows before reading it."""

    def open(self, options: ReadOptions, part: Part | None = None) -> OpenedSource: ...
