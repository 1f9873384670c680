"""Encoding, in the shape of `tokenizers.Encoding`: ids, and all that can be said about each of them.

Everything but the length is worked out when it is asked for. `truncate`, `pad` and
`set_sequence_id` change an encoding, as in the original; what properties give is the caller's own.
"""

import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, TypeVar, cast

from tokenmill.compat.encoded_text import Pairs, Words
from tokenmill.compat.parts import Columns, ListedPart, Part, added_part
from tokenmill.errors import ConfigError

_Entry = TypeVar("_Entry")
_ATTRIBUTES = "ids, type_ids, tokens, offsets, attention_mask, special_tokens_mask, overflowing"


class Encoding:
    """What `Tokenizer.encode` gives."""

    __slots__ = ("_length", "_overflowing", "_pairs", "_parts", "_ranges", "_words")

    def __init__(
        self, parts: list[Part] | None = None, ranges: dict[int, tuple[int, int]] | None = None
    ) -> None:
        """Empty, as in the original. `parts`, and the tokens of each sequence, are for tokenmill."""
        self._overflowing: list[Encoding] = []
        self._ranges = {} if ranges is None else ranges
        self._set_parts([] if parts is None else parts)

    def _set_parts(self, parts: list[Part]) -> None:
        self._parts = parts
        self._length = sum(map(len, parts))
        self._pairs: Pairs | None = None
        self._words: Words | None = None

    def copy(self) -> "Encoding":
        """Another one that can be changed without this one."""
        copy = Encoding(self._parts, dict(self._ranges))
        copy._overflowing = [overflow.copy() for overflow in self._overflowing]
        return copy

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"Encoding(num_tokens={self._length}, attributes=[{_ATTRIBUTES}])"

    # Columns

    @property
    def ids(self) -> list[int]:
        """The id of each token."""
        return _joined([part.ids() for part in self._parts])

    @property
    def type_ids(self) -> list[int]:
        """For each token, which of the two sequences a model should take it for."""
        return _joined([part.type_ids() for part in self._parts])

    @property
    def tokens(self) -> list[str]:
        """The spelling of each token, in letters for its bytes."""
        return _joined([part.tokens() for part in self._parts])

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """For each token, the characters of the text it comes from: (first, one after the last)."""
        return self._known_pairs().copy()

    @property
    def word_ids(self) -> list[int | None]:
        """For each token, the pretoken (or given word) it is part of, None if it is in no text."""
        return self._known_words().copy()

    @property
    def words(self) -> list[int | None]:
        """The same, by its old name."""
        warnings.warn("`words` is the old name of `word_ids`", DeprecationWarning, stacklevel=2)
        return self.word_ids

    @property
    def special_tokens_mask(self) -> list[int]:
        """1 for each token that was put around the text, by a template or as padding."""
        return _joined([part.special_tokens_mask() for part in self._parts])

    @property
    def attention_mask(self) -> list[int]:
        """0 for padding, else 1."""
        return _joined([part.attention_mask() for part in self._parts])

    @property
    def sequence_ids(self) -> list[int | None]:
        """For each token, the sequence it belongs to, None if to neither."""
        numbers: list[int | None] = [None] * self._length
        for sequence in range(self.n_sequences):
            start, stop = self._range_of(sequence)
            numbers[start:stop] = [sequence] * (stop - start)
        return numbers

    @property
    def n_sequences(self) -> int:
        """1, or 2 for a pair."""
        return len(self._ranges) or 1

    @property
    def overflowing(self) -> list["Encoding"]:
        """What truncation left out, in pieces of the allowed length."""
        return [overflow.copy() for overflow in self._overflowing]

    def _known_pairs(self) -> Pairs:
        if self._pairs is None:
            self._pairs = _joined([part.pairs() for part in self._parts])
        return self._pairs

    def _known_words(self) -> Words:
        if self._words is None:
            self._words = _joined([part.words() for part in self._parts])
        return self._words

    # From one to another

    def _range_of(self, sequence: int) -> tuple[int, int]:
        return self._ranges.get(sequence, (0, self._length))

    def _is_ordered(self, first: int, last: int) -> bool:
        """Whether these tokens are those of one text, in the order of their characters and words."""
        place = 0
        for part in self._parts:
            if place <= first and last <= place + len(part):
                return part.is_ordered
            place += len(part)
        return False

    def set_sequence_id(self, sequence_id: int) -> None:
        """Say that all tokens belong to this sequence."""
        self._ranges[_unsigned(sequence_id)] = (0, self._length)

    def token_to_sequence(self, token_index: int) -> int | None:
        """The sequence of a token, None if it belongs to neither."""
        if _unsigned(token_index) > self._length:
            return None
        if not self._ranges:
            return 0
        # Where steps of a post-processor disagree, the last one holds, as for `sequence_ids`.
        found = (n for n, (start, stop) in self._ranges.items() if start <= token_index < stop)
        return max(found, default=None)

    def token_to_chars(self, token_index: int) -> tuple[int, int] | None:
        """The offsets of a token, None if it belongs to no sequence."""
        if self.token_to_sequence(token_index) is None or token_index >= self._length:
            return None
        return self._known_pairs()[token_index]

    def token_to_word(self, token_index: int) -> int | None:
        """The word of a token."""
        if self.token_to_sequence(token_index) is None or token_index >= self._length:
            return None
        return self._known_words()[token_index]

    def char_to_token(self, char_pos: int, sequence_index: int = 0) -> int | None:
        """The first token that has a part of this character."""
        first, last = self._range_of(_unsigned(sequence_index))
        position = _unsigned(char_pos)
        pairs = self._known_pairs()
        places = range(first, last)
        if self._is_ordered(first, last):
            # The first token that ends behind the character; if it has not that, no other does.
            place = bisect_right(pairs, position, first, last, key=itemgetter(1))
            places = range(place, min(place + 1, last))
        for place in places:
            start, end = pairs[place]
            if start <= position < end:
                return place
        return None

    def char_to_word(self, char_pos: int, sequence_index: int = 0) -> int | None:
        """The word that has this character."""
        token = self.char_to_token(char_pos, sequence_index)
        return None if token is None else self.token_to_word(token)

    def word_to_tokens(self, word_index: int, sequence_index: int = 0) -> tuple[int, int] | None:
        """The tokens of a word: (first, one after the last)."""
        first, last = self._range_of(_unsigned(sequence_index))
        wanted = _unsigned(word_index)
        words = self._known_words()
        if self._is_ordered(first, last):
            numbers = cast(list[int], words)
            start = bisect_left(numbers, wanted, first, last)
            stop = bisect_right(numbers, wanted, start, last)
            return (start, stop) if start < stop else None
        found: list[int] = []
        for place, word in enumerate(words[first:last], first):
            # What comes after a later word is another text, whose words count from 0 again.
            if word is not None and word > wanted:
                break
            if word == wanted:
                found.append(place)
        return (found[0], found[-1] + 1) if found else None

    def word_to_chars(self, word_index: int, sequence_index: int = 0) -> tuple[int, int] | None:
        """The characters of a word: (first, one after the last)."""
        tokens = self.word_to_tokens(word_index, sequence_index)
        if tokens is None:
            return None
        pairs = self._known_pairs()
        return pairs[tokens[0]][0], pairs[tokens[1] - 1][1]

    # For post-processors

    @property
    def is_plain(self) -> bool:
        """Whether it is as `encode` first has it: nothing overflows, and no sequence has a number."""
        return not self._overflowing and not self._ranges

    def prepared_parts(self, type_id: int, trims: Iterable[bool]) -> list[Part]:
        """The parts with this type id, trimmed once for each of `trims` (`trim_offsets`)."""
        parts = [part.with_type_id(type_id) for part in self._parts]
        for add_prefix_space in trims:
            parts = _trimmed(parts, add_prefix_space)
        return parts

    def with_overflowing(self) -> list["Encoding"]:
        """This one and those that overflow, themselves and no copies."""
        return [self, *self._overflowing]

    def set_type_id(self, type_id: int) -> None:
        """Give all tokens this type id."""
        self._set_parts([part.with_type_id(type_id) for part in self._parts])

    def trim_offsets(self, add_prefix_space: bool) -> None:
        """Leave spaces at both ends of tokens out of their offsets (`parts.Trim`)."""
        self._set_parts(_trimmed(self._parts, add_prefix_space))

    # What changes an encoding

    def truncate(self, max_length: int, stride: int = 0, direction: str = "right") -> None:
        """Keep `max_length` tokens; the rest becomes `overflowing`, each piece with `stride` tokens
        of the one before."""
        if direction not in ("left", "right"):
            raise ConfigError(f"truncation direction is `{direction}`, not `left` or `right`")
        length = self._length
        if _unsigned(max_length) >= length:
            return
        if max_length == 0:
            whole = self.copy()
            self._set_parts([])
            self._ranges, self._overflowing = {}, [whole]
            return
        if not 0 <= stride < max_length:
            raise ConfigError(f"stride {stride} is not less than `max_length` {max_length}")
        pieces = [
            Encoding(cut_parts(self._parts, start, stop))
            for start, stop in _windows(length, max_length, stride, direction)
        ]
        # Which sequence is which is lost, as in the original.
        self._ranges = {}
        self._set_parts(pieces[0]._parts)
        self._overflowing = pieces[1:]

    def pad(
        self,
        length: int,
        *,
        direction: str = "right",
        pad_id: int = 0,
        pad_type_id: int = 0,
        pad_token: str = "[PAD]",
    ) -> None:
        """Add padding up to `length` tokens, here and in `overflowing`."""
        if direction not in ("left", "right"):
            raise ConfigError(f"padding direction is `{direction}`, not `left` or `right`")
        for overflow in self._overflowing:
            overflow.pad(
                length,
                direction=direction,
                pad_id=pad_id,
                pad_type_id=pad_type_id,
                pad_token=pad_token,
            )
        missing = _unsigned(length) - self._length
        if missing <= 0:
            return
        padding = added_part([pad_id] * missing, [pad_token] * missing, pad_type_id, attention=0)
        if direction == "right":
            self._set_parts([*self._parts, padding])
            return
        self._set_parts([padding, *self._parts])
        moved = {n: (start + missing, stop + missing) for n, (start, stop) in self._ranges.items()}
        self._ranges = moved

    @staticmethod
    def merge(encodings: Sequence["Encoding"], growing_offsets: bool = True) -> "Encoding":
        """One after another. With `growing_offsets` those of each go on where the last ended."""
        merged = Encoding()
        for encoding in encodings:
            merged._append(encoding, growing_offsets)
        return merged

    def _append(self, other: "Encoding", growing_offsets: bool) -> None:
        overflowing: list[Encoding] = []
        if self._overflowing or other._overflowing:
            for left, right in _combinations(self, other):
                joined = left.copy()
                joined._append(right, growing_offsets)
                overflowing.append(joined)
        for sequence, (start, stop) in other._ranges.items():
            self._ranges[sequence] = (start + self._length, stop + self._length)
        parts = other._parts
        if growing_offsets and self._length:
            chars = self._known_pairs()[-1][1]
            parts = [part.shifted(chars) for part in parts]
        self._set_parts([*self._parts, *parts])
        self._overflowing = overflowing

    # Pickles hold plain columns.
    def __getstate__(self) -> dict[str, Any]:
        columns = (
            self.ids,
            self.type_ids,
            self.tokens,
            self.offsets,
            self.word_ids,
            self.special_tokens_mask,
            self.attention_mask,
        )
        return {"columns": columns, "overflowing": self._overflowing, "ranges": self._ranges}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._set_parts([ListedPart(Columns(*state["columns"]))])
        self._overflowing = state["overflowing"]
        self._ranges = state["ranges"]


def _joined(columns: list[list[_Entry]]) -> list[_Entry]:
    return columns[0] if len(columns) == 1 else list(chain.from_iterable(columns))


def _trimmed(parts: list[Part], add_prefix_space: bool) -> list[Part]:
    """The first token that there is counts as the first, whichever part it is in."""
    if len(parts) == 1:
        return [parts[0].trimmed(add_prefix_space, is_first=True)]
    first = next((place for place, part in enumerate(parts) if len(part)), None)
    return [
        part.trimmed(add_prefix_space, is_first=place == first) for place, part in enumerate(parts)
    ]


def cut_parts(parts: list[Part], start: int, stop: int) -> list[Part]:
    """The parts of tokens `start` to `stop`."""
    cut: list[Part] = []
    place = 0
    for part in parts:
        first, last = max(start - place, 0), min(stop - place, len(part))
        if first < last:
            cut.append(part.cut(first, last))
        place += len(part)
    return cut


def _windows(length: int, max_length: int, stride: int, direction: str) -> list[tuple[int, int]]:
    """The pieces that truncation makes: each goes on `max_length - stride` after the one before."""
    step = max_length - stride
    if direction == "right":
        starts = range(0, length - stride, step)
        return [(start, min(start + max_length, length)) for start in starts]
    stops = range(length, stride, -step)
    return [(max(stop - max_length, 0), stop) for stop in stops]


def _combinations(first: Encoding, second: Encoding) -> list[tuple[Encoding, Encoding]]:
    """What overflows when two are merged: all pairs of pieces but that of the two themselves."""
    both = [(one, other) for one in first.with_overflowing() for other in second.with_overflowing()]
    # Pieces of the first come before the first itself, as in the original.
    own = len(second.with_overflowing())
    return both[own:] + both[1:own]


def _unsigned(number: int) -> int:
    if number < 0:
        raise OverflowError(f"{number} is below 0")
    return number
