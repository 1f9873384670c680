"""Reading for the core: opens sources one after another, watches how far they are, closes them."""

import contextlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tokenmill import _core
from tokenmill.progress import Meter
from tokenmill.sources.options import ReadOptions
from tokenmill.sources.source import OpenedSource, Part, TextSource
from tokenmill.sources.stored_files import is_stored

T = TypeVar("T")


BLOCK_BYTES = 1 << 20
"""What one thread takes at a time: enough to make the taking cheap, little enough to spread work."""


def new_reader(
    options: ReadOptions,
    chars_before: int = 0,
    bytes_before: int = 0,
    block_bytes: int = BLOCK_BYTES,
) -> _core.Reader:
    """The core's reader under these options; `…_before` is what earlier units used of the limits."""
    return _core.Reader(
        doc_cap=options.doc_cap,
        max_chars=options.max_chars,
        max_bytes=options.max_bytes,
        on_error=options.on_error,
        invalid_utf8=options.invalid_utf8,
        chars_before=chars_before,
        bytes_before=bytes_before,
        block_bytes=block_bytes,
    )


@dataclass
class _Place:
    """Where reading is. Workers move it on while the calling thread looks at it, so it is replaced
    as a whole."""

    source: OpenedSource | None
    """`None` between two sources."""
    input_before: int
    """Input bytes of the sources before this one."""
    size_in_bytes: int = 0
    text_before: int | None = None
    """Text bytes counted when it was first looked at: the last ones known when it was opened may
    be megabytes behind."""


class Reading:
    """Sources, or parts of them, being read in order."""

    def __init__(
        self,
        parts: Sequence[tuple[TextSource, Part | None]],
        options: ReadOptions,
        meter: Meter,
        before: tuple[int, int] = (0, 0),
        total_bytes: int | None = None,
    ) -> None:
        """`before` are input and text bytes of earlier units, `total_bytes` the input bytes of all
        units."""
        self._parts = parts
        self._options = options
        self._meter = meter
        self._input_before, self._text_before = before
        self._total_bytes = _total_bytes(parts) if total_bytes is None else total_bytes
        self._place = _Place(None, 0)
        self._consumed_bytes = 0
        self.num_inputs = 0
        """Inputs begun so far; later parts of one that began elsewhere do not count."""

    def run(
        self,
        reader: _core.Reader,
        work: Callable[[Iterator[_core.Source], Callable[[int, int], None] | None], T],
    ) -> T:
        """`work(sources, progress)`, which reads everything with `reader`. SourceError if a file was
        not the same from its listing to the end."""
        with contextlib.closing(self.sources()) as sources:
            result = work(sources, self._progress if self._meter.is_shown else None)
        self.require_unchanged()
        if not reader.limit_reached:
            self._progress(reader.report["bytes"], 0)
        return result

    def sources(self) -> Generator[_core.Source]:
        """Each source, opened when the one before is at its end."""
        for source, part in self._parts:
            opened = source.open(self._options, part)
            self.num_inputs += part is None or part.start == 0
            before, size = self._place.input_before, _bytes_of(source, part) or 0
            self._place = _Place(opened, before, size, None if before else 0)
            try:
                yield opened.documents
            finally:
                opened.close()
            self._place = _Place(None, before + size)

    def require_unchanged(self) -> None:
        for source, _ in self._parts:
            if is_stored(source):
                source.require_unchanged()

    def _progress(self, text_bytes: int, _documents: int) -> None:
        # What was counted lags behind what was read, so a source's end may come early or late by a
        # few blocks; never back.
        self._consumed_bytes = max(self._consumed_bytes, _consumed(self._place, text_bytes))
        fraction = None
        if self._total_bytes:
            fraction = (self._input_before + self._consumed_bytes) / self._total_bytes
        self._meter.update(self._text_before + text_bytes, fraction)


def _consumed(place: _Place, text_bytes: int) -> int:
    """Input bytes read so far, `text_bytes` of text having come out of them."""
    if place.source is None:
        return place.input_before
    if place.text_before is None:
        place.text_before = text_bytes
    position = place.source.position
    within = position() if position else text_bytes - place.text_before
    return place.input_before + min(within, place.size_in_bytes)


def _bytes_of(source: TextSource, part: Part | None) -> int | None:
    return source.size_in_bytes if part is None else part.size_in_bytes


def _total_bytes(parts: Sequence[tuple[TextSource, Part | None]]) -> int | None:
    sizes = [_bytes_of(source, part) for source, part in parts]
    return None if None in sizes else sum(size for size in sizes if size is not None)
