"""The parts an encoding is made of: a run of tokens of one text, or tokens that are simply listed.

Truncating, merging and post-processing an encoding only cuts parts, puts them one after another and
notes what to do to their offsets. So none of it touches a token before somebody looks at one.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, cast

from tokenmill.compat.encoded_text import EncodedText, EncodedWords, Pairs, Words
from tokenmill.compat.lookup import Trim, count_spaces


class Shift(NamedTuple):
    """Add this many characters to offsets."""

    chars: int


NOT_HERE = -1
"""As `Trim.first`: no token of this part is the first."""


class Part(Protocol):
    """A run of tokens with their columns. Never changes; what sounds like a change gives a new one,
    and what columns give is the caller's own."""

    def __len__(self) -> int: ...
    @property
    def is_ordered(self) -> bool: ...
    def ids(self) -> list[int]: ...
    def type_ids(self) -> list[int]: ...
    def tokens(self) -> list[str]: ...
    def pairs(self) -> Pairs: ...
    def words(self) -> Words: ...
    def special_tokens_mask(self) -> list[int]: ...
    def attention_mask(self) -> list[int]: ...
    def cut(self, start: int, stop: int) -> "Part": ...
    def with_type_id(self, type_id: int) -> "Part": ...
    def trimmed(self, add_prefix_space: bool, *, is_first: bool) -> "Part": ...
    def shifted(self, chars: int) -> "Part": ...


class TextPart:
    """Tokens `start` to `stop` of a text. Without `tracked`, nothing but their ids is told."""

    __slots__ = ("_source", "_start", "_steps", "_stop", "_tracked", "_type_id")

    def __init__(
        self,
        source: EncodedText | EncodedWords,
        start: int,
        stop: int,
        type_id: int,
        tracked: bool = True,
        steps: tuple[Trim | Shift, ...] = (),
    ) -> None:
        self._source = source
        self._start = start
        self._stop = stop
        self._type_id = type_id
        self._tracked = tracked
        self._steps = steps

    def __len__(self) -> int:
        return self._stop - self._start

    @property
    def is_ordered(self) -> bool:
        """Whether offsets and words never go back from one token to the next."""
        return self._tracked and self._source.is_ordered

    def ids(self) -> list[int]:
        return self._source.ids[self._start : self._stop]

    def type_ids(self) -> list[int]:
        return [self._type_id] * len(self)

    def tokens(self) -> list[str]:
        if not self._tracked:
            return [""] * len(self)
        letters = cast(list[str], self._source.lookup.letters)
        return list(map(letters.__getitem__, self.ids()))

    def pairs(self) -> Pairs:
        if not self._tracked:
            return [(0, 0)] * len(self)
        trims: list[Trim] = []
        for step in self._steps:
            if isinstance(step, Shift):
                break
            trims.append(step)
        pairs = self._source.pairs(self._start, self._stop, trims)
        for step in self._steps[len(trims) :]:
            if isinstance(step, Shift):
                pairs = _shift(pairs, step.chars)
            else:
                pairs = _trim(pairs, self.tokens(), step, step.first - self._start)
        return pairs

    def words(self) -> Words:
        if not self._tracked:
            return [None] * len(self)
        return self._source.words[self._start : self._stop]

    def special_tokens_mask(self) -> list[int]:
        return [0] * len(self)

    def attention_mask(self) -> list[int]:
        return [1] * len(self)

    def cut(self, start: int, stop: int) -> "TextPart":
        first = self._start
        return TextPart(
            self._source, first + start, first + stop, self._type_id, self._tracked, self._steps
        )

    def with_type_id(self, type_id: int) -> "TextPart":
        if type_id == self._type_id:
            return self
        return TextPart(self._source, self._start, self._stop, type_id, self._tracked, self._steps)

    def trimmed(self, add_prefix_space: bool, *, is_first: bool) -> "TextPart":
        return self._after(Trim(add_prefix_space, self._start if is_first else NOT_HERE))

    def shifted(self, chars: int) -> "TextPart":
        return self._after(Shift(chars))

    def _after(self, step: Trim | Shift) -> "TextPart":
        steps = (*self._steps, step)
        return TextPart(self._source, self._start, self._stop, self._type_id, self._tracked, steps)


class Columns(NamedTuple):
    """Everything about some tokens."""

    ids: Sequence[int]
    type_ids: Sequence[int]
    tokens: Sequence[str]
    offsets: Sequence[tuple[int, int]]
    words: Sequence[int | None]
    special_tokens_mask: Sequence[int]
    attention_mask: Sequence[int]


class ListedPart:
    """Tokens given column by column: special tokens, padding, and what was unpickled."""

    __slots__ = ("_columns",)

    def __init__(self, columns: Columns) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return len(self._columns.ids)

    @property
    def is_ordered(self) -> bool:
        return False

    def ids(self) -> list[int]:
        return list(self._columns.ids)

    def type_ids(self) -> list[int]:
        return list(self._columns.type_ids)

    def tokens(self) -> list[str]:
        return list(self._columns.tokens)

    def pairs(self) -> Pairs:
        return list(self._columns.offsets)

    def words(self) -> Words:
        return list(self._columns.words)

    def special_tokens_mask(self) -> list[int]:
        return list(self._columns.special_tokens_mask)

    def attention_mask(self) -> list[int]:
        return list(self._columns.attention_mask)

    def cut(self, start: int, stop: int) -> "ListedPart":
        return ListedPart(Columns(*(cast(Any, column)[start:stop] for column in self._columns)))

    def with_type_id(self, type_id: int) -> "ListedPart":
        return ListedPart(self._columns._replace(type_ids=[type_id] * len(self)))

    def trimmed(self, add_prefix_space: bool, *, is_first: bool) -> "ListedPart":
        first = 0 if is_first else NOT_HERE
        rows = _trim(self.pairs(), self._columns.tokens, Trim(add_prefix_space, first), first)
        return ListedPart(self._columns._replace(offsets=rows))

    def shifted(self, chars: int) -> "ListedPart":
        return ListedPart(self._columns._replace(offsets=_shift(self.pairs(), chars)))


def added_part(
    ids: Sequence[int], tokens: Sequence[str], type_id: int, attention: int
) -> ListedPart:
    """Tokens that no text has: those of a template, which a model attends to, or padding."""
    size = len(ids)
    return ListedPart(
        Columns(
            ids,
            [type_id] * size,
            tokens,
            [(0, 0)] * size,
            [None] * size,
            [1] * size,
            [attention] * size,
        )
    )


def _shift(pairs: Pairs, chars: int) -> Pairs:
    return [(start + chars, end + chars) for start, end in pairs]


def _trim(pairs: Pairs, tokens: Sequence[str], step: Trim, first: int) -> Pairs:
    """The rule that the core has, for offsets that are not its own. `first` counts from 0 here."""
    return [
        _without_spaces(start, end, count_spaces(token), step, is_first=place == first)
        for place, ((start, end), token) in enumerate(zip(pairs, tokens, strict=True))
    ]


def _without_spaces(
    start: int, end: int, spaces: tuple[int, int], step: Trim, *, is_first: bool
) -> tuple[int, int]:
    """One token's offsets without the spaces at its ends. `Trim` says when a single one stays."""
    leading, trailing = spaces
    stays = leading == 1 and step.add_prefix_space and (start == 0 or is_first)
    if not stays:
        start = min(start + leading, end)
    if end >= trailing:
        end = max(end - trailing, start)
    return start, end
