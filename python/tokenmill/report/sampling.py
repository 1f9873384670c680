"""Documents to measure on: the documents of a text one after another, and a sample of them by seed.

A sample depends on the documents, their order, its size and the seed, and on nothing else. Every
document has the same chance, however long the text is, and only the sample is held in memory.
"""

import contextlib
import random
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

from tokenmill import _core
from tokenmill.errors import SourceError
from tokenmill.progress import Meter
from tokenmill.sources.choices import require_whole_number
from tokenmill.sources.options import ReadOptions
from tokenmill.sources.source import OpenedSource, TextSource
from tokenmill.sources.stored_files import is_stored
from tokenmill.work.read_report import ReadReport
from tokenmill.work.reading import new_reader

Text = str | bytes
"""A document: `str`, or the bytes themselves where they are not UTF-8 and were kept."""

_METER_EVERY = 256


class DocumentReading:
    """The documents of `sources`, once, in order. `report` is complete when the last one is out."""

    def __init__(self, sources: Sequence[TextSource], options: ReadOptions, meter: Meter) -> None:
        self.report = ReadReport()
        self._sources = sources
        self._options = options
        self._meter = meter
        self._opened: OpenedSource | None = None
        self._input_before = self._text_before = self._text_bytes = 0

    def __iter__(self) -> Iterator[Text]:
        reader = new_reader(self._options)
        with contextlib.closing(self._open_in_turn()) as sources:
            for index, document in enumerate(reader.documents(sources)):
                self._text_bytes += len(document)
                if index % _METER_EVERY == 0:
                    self._meter.update(self._text_bytes, self._fraction())
                yield as_text(document)
        for source in self._sources:
            if is_stored(source):
                source.require_unchanged()
        self.report = ReadReport(
            inputs=len(self._sources),
            **reader.report,
            skipped=reader.skipped,
            limit_reached=reader.limit_reached,
        )

    def _open_in_turn(self) -> Generator[_core.Source]:
        for source in self._sources:
            self._opened, self._text_before = source.open(self._options), self._text_bytes
            try:
                yield self._opened.documents
            finally:
                self._opened.close()
                self._opened = None
            self._input_before += source.size_in_bytes or 0

    def _fraction(self) -> float | None:
        sizes = [source.size_in_bytes for source in self._sources]
        total = None if None in sizes else sum(size for size in sizes if size is not None)
        if not total:
            return None
        within = 0
        if self._opened is not None:
            position = self._opened.position
            within = position() if position else self._text_bytes - self._text_before
        return (self._input_before + within) / total


def as_text(document: bytes) -> Text:
    """What the reader gave, as `str` where it is UTF-8."""
    try:
        return document.decode()
    except UnicodeDecodeError:
        return document


def num_bytes_of(text: Text) -> int:
    """Bytes of a document, in UTF-8."""
    if isinstance(text, bytes):
        return len(text)
    return len(text) if text.isascii() else len(text.encode())


class Reservoir:
    """Takes documents one by one and keeps `size` of them, each as likely as any other."""

    def __init__(self, size: int, seed: int) -> None:
        self.size = require_whole_number("sample", size, 1)
        self.num_seen = 0
        self._random = random.Random(seed)
        self._kept: list[tuple[int, Text]] = []

    def add(self, document: Text) -> None:
        item = (self.num_seen, document)
        self.num_seen += 1
        if len(self._kept) < self.size:
            self._kept.append(item)
            return
        place = self._random.randrange(self.num_seen)
        if place < self.size:
            self._kept[place] = item

    def documents(self) -> list[Text]:
        """The sample, in the order of the text."""
        return [document for _, document in sorted(self._kept, key=lambda item: item[0])]


@dataclass(frozen=True)
class Sample:
    """Documents chosen by a seed, and what they were chosen from."""

    documents: tuple[Text, ...]
    seed: int
    read: ReadReport

    @property
    def num_bytes(self) -> int:
        return sum(num_bytes_of(document) for document in self.documents)

    def batches(self, batch_size: int) -> list[list[Text]]:
        """The documents in groups of `batch_size`; the last may be smaller."""
        starts = range(0, len(self.documents), batch_size)
        return [list(self.documents[start : start + batch_size]) for start in starts]


def sample_documents(
    sources: Sequence[TextSource], options: ReadOptions, size: int, seed: int, meter: Meter
) -> Sample:
    """`size` documents of `sources`, or all if there are not as many. SourceError if there is none."""
    reservoir = Reservoir(size, seed)
    reading = DocumentReading(sources, options, meter)
    meter.begin("sampling", "bytes")
    for document in reading:
        reservoir.add(document)
    require_documents(reservoir.num_seen, sources)
    return Sample(tuple(reservoir.documents()), seed, reading.report)


def require_documents(number: int, sources: Sequence[TextSource]) -> None:
    """SourceError if `number` is 0: there is nothing to measure on."""
    if number == 0:
        names = ", ".join(f"`{source.name}`" for source in sources[:3])
        more = f" and {len(sources) - 3} more" if len(sources) > 3 else ""
        raise SourceError(f"{names}{more}: no document, so there is nothing to measure on")
