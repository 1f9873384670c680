"""What a tokenizer made of one text, as columns: ids at once, everything else when it is asked for.

A column has an entry for each token of the whole text; those who need a part of it cut it out. Columns
are lists: texts are short as a rule, and arrays only pay from thousands of tokens on.
"""

import functools
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from tokenmill.compat.alignment import align_nfc

if TYPE_CHECKING:
    from tokenmill import _core
    from tokenmill.compat.lookup import Lookup

Spans = tuple[list[int], list[int]]
"""For each token its first character, and one after its last. Pairs are made for who asks for them."""
Words = list[int | None]


class EncodedText:
    """One text. Its columns are never given away, as people may change what they get."""

    __slots__ = ("_spans", "_text", "_words", "ids", "lookup")

    def __init__(self, lookup: "Lookup", text: str, ids: list[int]) -> None:
        self.lookup = lookup
        self.ids = ids
        self._text = text
        self._spans: Spans | None = None
        self._words: Words | None = None

    @property
    def spans(self) -> Spans:
        """In characters of the text as it was given."""
        if self._spans is None:
            self._spans = char_spans(self.lookup, self._text, self.ids)
        return self._spans

    @property
    def words(self) -> Words:
        """The pretoken each token is part of, counted from 0; a special token is one, too."""
        if self._words is None:
            self._words = word_numbers(self.lookup, self.ids)
        return self._words


class EncodedWords:
    """A text that came in words: each was encoded alone, and offsets are places in the word."""

    def __init__(
        self, lookup: "Lookup", texts: Sequence[str], ids_by_word: Sequence[list[int]]
    ) -> None:
        self.lookup = lookup
        self.ids = [token_id for ids in ids_by_word for token_id in ids]
        self._texts = texts
        self._ids_by_word = ids_by_word

    @functools.cached_property
    def spans(self) -> Spans:
        starts: list[int] = []
        ends: list[int] = []
        for text, ids in zip(self._texts, self._ids_by_word, strict=True):
            of_word = char_spans(self.lookup, text, ids)
            starts += of_word[0]
            ends += of_word[1]
        return starts, ends

    @functools.cached_property
    def words(self) -> Words:
        return [number for number, ids in enumerate(self._ids_by_word) for _ in ids]


def char_spans(lookup: "Lookup", text: str, ids: list[int]) -> Spans:
    """The characters of `text` that each of its ids stands for."""
    if lookup.vocab.normalizer is None or lookup.bpe.decode_bytes(ids) == text.encode():
        return _spans(lookup.bpe.char_offsets(text, ids))
    aligned, places = align_nfc(text, lookup.special_regex)
    if aligned.encode() != lookup.bpe.decode_bytes(ids):
        raise NotImplementedError(
            "the text has characters that Python's Unicode tables and tokenmill's normalize "
            "differently, so offsets into it are not known"
        )
    starts, ends = _spans(lookup.bpe.char_offsets(aligned, ids))
    return [places[start] for start in starts], [places[end - 1] + 1 for end in ends]


def _spans(array: "_core.Array") -> Spans:
    numbers = memoryview(array).tolist()
    return numbers[::2], numbers[1::2]


def word_numbers(lookup: "Lookup", ids: list[int]) -> Words:
    """The pretoken that each of `ids` is part of."""
    if not ids:
        return []
    data = lookup.bpe.decode_bytes(ids)
    borders = memoryview(lookup.bpe.byte_offsets(ids)).tolist()
    # Each special token is a word, and what is between two of them is split on its own.
    starts_of_words: set[int] = set()
    start = 0
    for stop in [*_places(ids, lookup.special_ids), len(ids)]:
        pretokens = lookup.splitter.split(data[borders[start] : borders[stop]])
        starts_of_words.update(accumulate(map(len, pretokens), initial=borders[start]))
        start = stop + 1
    begins_word = map(starts_of_words.__contains__, borders[1:-1])
    return list(accumulate(begins_word, initial=0))


def _places(ids: list[int], wanted: frozenset[int]) -> list[int]:
    if wanted.isdisjoint(ids):
        return []
    return [place for place, token_id in enumerate(ids) if token_id in wanted]
