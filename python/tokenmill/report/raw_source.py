"""RawSource: the documents of files before anything became of them, by number."""

import os
from collections.abc import Iterator

from tokenmill.progress import Meter
from tokenmill.report.sampling import DocumentReading
from tokenmill.sources.inputs import find_inputs
from tokenmill.sources.options import ReadOptions


class RawSource:
    """Documents of files, by number. They are read in order: going back reads from the start."""

    def __init__(
        self, path: str | os.PathLike[str], options: ReadOptions, *, noun: str = "document"
    ) -> None:
        self.name, self._noun = os.fspath(path), noun
        self._sources = find_inputs(path, options)
        self._options = options
        self._reading: Iterator[bytes] = iter(())
        self._next = 0
        self._last: tuple[int, bytes] | None = None
        self.length: int | None = None
        self._rewind()

    def _rewind(self) -> None:
        reading = DocumentReading(self._sources, self._options, Meter(False))
        self._reading = (
            text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
            for text in reading
        )
        self._next, self._last = 0, None

    def documents(self, start: int = 0) -> Iterator[tuple[int, bytes]]:
        """Number and text of the documents from `start` on."""
        if self._last is not None and self._last[0] == start:
            yield self._last
            start += 1
        if start < self._next:
            self._rewind()
        for document in self._reading:
            self._last = (self._next, document)
            self._next += 1
            if self._last[0] >= start:
                yield self._last
        self.length = self._next

    def document(self, index: int) -> bytes:
        for _, document in self.documents(index):
            return document
        raise IndexError(_out_of_range(index, self.length, self._noun))

    def find(self, text: bytes, index: int) -> tuple[int, bytes] | None:
        """The document that is `text`: number `index` most likely, another one where documents were
        shuffled or went to several splits. Number `index` if none is; None if there is none."""
        at_index = None
        for number, document in self.documents(index):
            if document == text:
                return number, document
            if number == index:
                at_index = (number, document)
        for number, document in self.documents():
            if number >= index:
                break
            if document == text:
                return number, document
        return at_index


def require_index(index: int, length: int | None, noun: str) -> None:
    """IndexError if there is no such number."""
    if index < 0 or (length is not None and index >= length):
        raise IndexError(_out_of_range(index, length, noun))


def _out_of_range(index: int, length: int | None, noun: str) -> str:
    if not length:
        return f"there is no {noun}" if length == 0 else f"{noun} {index} is below 0"
    return f"there is no {noun} {index:,}: numbers go from 0 to {length - 1:,}"
