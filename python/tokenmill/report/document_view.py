"""DocumentView: one document as ids and as text, each token with what it spells and where it stands."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol

from tokenmill.chat.messages import Turn
from tokenmill.report.row_source import LeftOut
from tokenmill.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True)
class TokenView:
    """One token of a document: its id, bytes, and where these stand in what all ids spell."""

    id: int
    token: bytes
    start: int
    end: int
    is_special: bool
    is_trained: bool | None
    """None where everything is trained on."""

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "token": self.token.decode("utf-8", "backslashreplace"),
            "start": self.start,
            "end": self.end,
            "special": self.is_special,
            "trained": self.is_trained,
        }


@dataclass(frozen=True)
class StoredIds:
    """How the ids and the mask of a dataset compare with what the row gives when it is encoded again.
    `place` is the first token that differs, None if all is equal."""

    place: int | None
    stored: tuple[int, bool] | None = None
    """Id there, and whether it is trained on; None behind the end."""
    again: tuple[int, bool] | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "equal": self.place is None,
            "first_different_token": self.place,
            "stored": self.stored and {"id": self.stored[0], "trained": self.stored[1]},
            "again": self.again and {"id": self.again[0], "trained": self.again[1]},
        }


@dataclass(frozen=True)
class RowView:
    """The row that a document of chat data is made of. The raw text of such a document is what the
    template makes of the row."""

    text: bytes
    """As it stands in the source: one JSON object."""
    turns: tuple[Turn, ...] = ()
    left_out: LeftOut | None = None
    is_cut: bool = False
    """Whether the document was too long and lost an end."""
    stored: StoredIds | None = None
    """Of a dataset."""

    def as_json(self) -> dict[str, Any]:
        return {
            "text": self.text.decode("utf-8", "backslashreplace"),
            "turns": [turn._asdict() for turn in self.turns],
            "left_out": None if self.left_out is None else self.left_out._asdict(),
            "cut": self.is_cut,
            "stored": None if self.stored is None else self.stored.as_json(),
        }


@dataclass(frozen=True)
class DocumentView:
    """A document as ids and as text. `part` is `document`, `chosen` or `rejected`, or `row` for one
    that is left out."""

    part: str
    tokens: tuple[TokenView, ...]
    text: bytes
    """What the ids spell, without the bos and eos around the document."""
    raw: bytes | None
    """The text before it was encoded, if it could be found."""
    raw_index: int | None
    """Which document of the source that is."""
    stated_bytes: int | None
    """Bytes of raw text as the dataset has them."""
    encodes_back: bool
    """Whether the text between special tokens, encoded again, gives the same ids."""
    row: RowView | None = None
    """Of chat data, where the row is at hand."""

    @property
    def equals_raw(self) -> bool | None:
        """Whether the ids spell the raw text; by its length if only that is known."""
        if self.raw is not None:
            return self.raw == self.text
        return None if self.stated_bytes is None else self.stated_bytes == len(self.text)

    @property
    def first_difference(self) -> int | None:
        """The first byte where `text` and `raw` part ways."""
        if self.raw is None or self.raw == self.text:
            return None
        pairs = zip(self.raw, self.text, strict=False)
        return next(
            (i for i, (a, b) in enumerate(pairs) if a != b), min(len(self.raw), len(self.text))
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "part": self.part,
            "text": self.text.decode("utf-8", "backslashreplace"),
            "raw": None if self.raw is None else self.raw.decode("utf-8", "backslashreplace"),
            "raw_index": self.raw_index,
            "raw_bytes": self.stated_bytes if self.raw is None else len(self.raw),
            "decoded_equals_raw": self.equals_raw,
            "first_difference": self.first_difference,
            "encodes_back": self.encodes_back,
            "row": None if self.row is None else self.row.as_json(),
            "num_tokens": len(self.tokens),
            "ids": [token.id for token in self.tokens],
            "tokens": [token.as_json() for token in self.tokens],
        }


class Inspection(Protocol):
    """Numbered things to look at. Rows of preference data have two parts, others one."""

    @property
    def name(self) -> str: ...
    @property
    def noun(self) -> str:
        """`document`, `pair`, `row` or `text`."""
        ...

    @property
    def length(self) -> int | None:
        """None while nobody knows how many there are."""
        ...

    def view(self, index: int) -> list[DocumentView]:
        """IndexError for a number that is not there."""
        ...

    def search(self, text: str, start: int = 0) -> int | None:
        """The first number from `start` on whose text contains `text`."""
        ...


def view_of_ids(
    ids: Sequence[int],
    tokenizer: Tokenizer,
    *,
    part: str = "document",
    mask: Sequence[int] | None = None,
    around: tuple[int | None, int | None] = (None, None),
    raw: tuple[int, bytes] | None = None,
    stated_bytes: int | None = None,
) -> DocumentView:
    """The view of `ids`; `around` are the ids of bos and eos, left out of the text."""
    special_ids = set(tokenizer.special_tokens.values())
    spellings = [tokenizer.token_bytes(token_id) for token_id in ids]
    tokens: list[TokenView] = []
    position = 0
    for number, (token_id, token) in enumerate(zip(ids, spellings, strict=True)):
        trained = None if mask is None else bool(mask[number])
        end = position + len(token)
        tokens.append(TokenView(token_id, token, position, end, token_id in special_ids, trained))
        position = end
    text = tokenizer.decode_bytes(without(list(ids), around))
    return DocumentView(
        part=part,
        tokens=tuple(tokens),
        text=text,
        raw=None if raw is None else raw[1],
        raw_index=None if raw is None else raw[0],
        stated_bytes=stated_bytes,
        encodes_back=_encodes_back(tokenizer, tokens),
    )


def without(ids: list[int], around: tuple[int | None, int | None]) -> list[int]:
    """`ids` without the bos and eos at their ends."""
    bos, eos = around
    start = 1 if ids and bos is not None and ids[0] == bos else 0
    stop = len(ids) - 1 if len(ids) > start and eos is not None and ids[-1] == eos else len(ids)
    return ids[start:stop]


def _encodes_back(tokenizer: Tokenizer, tokens: Sequence[TokenView]) -> bool:
    """Run by run: special tokens are what no text becomes, and where a mask changes its mind a
    template put two texts together."""
    runs = groupby(tokens, key=lambda token: (token.is_special, token.is_trained))
    for (is_special, _), run in runs:
        if is_special:
            continue
        ids = [token.id for token in run]
        if tokenizer.encode_ordinary(tokenizer.decode_bytes(ids)) != ids:
            return False
    return True
