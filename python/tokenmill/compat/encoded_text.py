"""What a tokenizer made of one text, as columns: ids at once, everything else when it is asked for.

A column has an entry for each token of the whole text; those who need a part of it cut it out. Columns
are lists: texts are short as a rule, and arrays only pay from thousands of tokens on.
"""

import functools
from array import array
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING

from tokenmill.compat.alignment import align_nfc

if TYPE_CHECKING:
    from tokenmill import _core
    from tokenmill.compat.lookup import Lookup, Trim

Pairs = list[tuple[int, int]]
"""For each token its first character, and one after its last."""
Words = list[int | None]


class EncodedText:
    """One text. Its columns are never given away, as people may change what they get."""

    __slots__ = ("_offsets", "_text", "_words", "ids", "lookup")

    def __init__(self, lookup: "Lookup", text: str, ids: list[int]) -> None:
        self.lookup = lookup
        self.ids = ids
        self._text = text
        self._offsets: _core.Array | array[int] | None = None
        self._words: Words | None = None

    def pairs(self, start: int, stop: int, trims: Sequence["Trim"]) -> Pairs:
        """The characters of tokens `start` to `stop`, in the text as it was given."""
        if self._offsets is None:
            self._offsets = char_offsets(self.lookup, self._text, self.ids)
        return self.lookup.pairs(self._offsets, self.ids, start, stop, trims)

    @property
    def is_ordered(self) -> bool:
        """Whether no token begins or ends before the one in front of it does."""
        return self.lookup.vocab.normalizer is None

    @property
    def words(self) -> Words:
        """The pretoken each token is part of, counted from 0; a special token is one, too."""
        if self._words is None:
            numbers: Words = [*self.lookup.bpe.word_numbers(self.lookup.splitter, self.ids)]
            self._words = numbers
        return self._words


class EncodedWords:
    """A text that came in words: each was encoded alone, and offsets are places in the word."""

    is_ordered = False

    def __init__(
        self, lookup: "Lookup", texts: Sequence[str], ids_by_word: Sequence[list[int]]
    ) -> None:
        self.lookup = lookup
        self.ids = [token_id for ids in ids_by_word for token_id in ids]
        self._texts = texts
        self._ids_by_word = ids_by_word

    def pairs(self, start: int, stop: int, trims: Sequence["Trim"]) -> Pairs:
        return self.lookup.pairs(self._offsets, self.ids, start, stop, trims)

    @functools.cached_property
    def _offsets(self) -> "array[int]":
        offsets = array("q")
        for text, ids in zip(self._texts, self._ids_by_word, strict=True):
            offsets.frombytes(memoryview(char_offsets(self.lookup, text, ids)).cast("B"))
        return offsets

    @functools.cached_property
    def words(self) -> Words:
        return [number for number, ids in enumerate(self._ids_by_word) for _ in ids]


def char_offsets(lookup: "Lookup", text: str, ids: list[int]) -> "_core.Array | array[int]":
    """The characters of `text` that each of its ids stands for."""
    if lookup.vocab.normalizer is None or lookup.bpe.decode_bytes(ids) == text.encode():
        return lookup.bpe.char_offsets(text, ids)
    aligned, places = align_nfc(text, lookup.special_regex)
    if aligned.encode() != lookup.bpe.decode_bytes(ids):
        raise NotImplementedError(
            "the text has characters that Python's Unicode tables and tokenmill's normalize "
            "differently, so offsets into it are not known"
        )
    numbers = memoryview(lookup.bpe.char_offsets(aligned, ids)).tolist()
    starts = (places[start] for start in numbers[::2])
    ends = (places[end - 1] + 1 for end in numbers[1::2])
    return array("q", chain.from_iterable(zip(starts, ends, strict=True)))
