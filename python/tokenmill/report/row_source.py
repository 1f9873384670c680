"""RowSource: rows of conversations by number, and the documents that `encode` makes of each.

A row that `encode` leaves out or stops at is a row here, too, with the name of the reason.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple, cast

from tokenmill.chat.encoder import EncodedRows, RowOptions, encode_rows
from tokenmill.chat.messages import RowSkipped, Turn
from tokenmill.chat.prepare import prepare_tokenizer
from tokenmill.chat.profile_file import find_profile, profile_from_values
from tokenmill.chat.profiles import Profile
from tokenmill.chat.rendering import parts_of
from tokenmill.chat.rows import conversations_of
from tokenmill.dataset.manifest import Manifest
from tokenmill.dataset.settings import EncodeSettings
from tokenmill.errors import ConfigError, SourceError
from tokenmill.report.raw_source import RawSource
from tokenmill.sources.options import ReadOptions
from tokenmill.tokenizer.tokenizer import Tokenizer

_ROWS_AT_ONCE = 256
_DECODE_ERRORS = {"error": "strict", "replace": "replace", "keep": "surrogateescape"}


class RowDocument(NamedTuple):
    """A document that a row becomes: ids, and 1 for each that is trained on."""

    ids: list[int]
    mask: list[int]


class LeftOut(NamedTuple):
    """Why a row becomes no document: the name of the reason, and more words."""

    reason: str
    detail: str


@dataclass(frozen=True)
class EncodedRow:
    """Number `index` of the rows, as it stands in the source and as what it becomes."""

    index: int
    text: bytes
    documents: tuple[RowDocument, ...]
    """One, two of a preference, none if it is left out."""
    left_out: LeftOut | None
    is_cut: bool
    """Whether one of the documents was too long and lost an end."""


class RowSource:
    """The rows of `source` under a profile."""

    def __init__(
        self, source: RawSource, tokenizer: Tokenizer, profile: Profile, options: RowOptions
    ) -> None:
        self.source = source
        self.tokenizer = prepare_tokenizer(tokenizer, profile)
        self.profile, self.options = profile, options

    def row(self, index: int) -> EncodedRow:
        """IndexError if there is no such row."""
        return self._encoded(index, self.source.document(index))

    def _encode(self, rows: Sequence[bytes]) -> EncodedRows:
        return encode_rows(self.tokenizer, self.profile, rows, self.options, on_error="skip")

    def _encoded(self, index: int, text: bytes) -> EncodedRow:
        found = self._encode([text])
        left_out = [LeftOut(reason, detail) for _, reason, detail in found.skipped]
        return EncodedRow(
            index,
            text,
            tuple(_documents_of(found)),
            left_out[0] if left_out else None,
            found.truncated > 0,
        )

    def find(self, stored: Sequence[RowDocument], near: int) -> EncodedRow | None:
        """The row that becomes `stored`. If none does, the one whose documents begin most alike, of
        several the nearest to number `near`; None if no row becomes a document.

        Rows from `near` on come first: where none was left out, shuffled or held out, that is it.
        """
        best: tuple[int, bytes] | None = None
        most = (0, 0)
        for start, stop in ((near, None), (0, near)):
            for index, text, documents in self._all(start, stop):
                if documents == list(stored):
                    return self._encoded(index, text)
                likeness = sum(map(num_shared, documents, stored)), -abs(index - near)
                if best is None or likeness > most:
                    best, most = (index, text), likeness
        return None if best is None else self._encoded(*best)

    def _all(self, start: int, stop: int | None) -> Iterator[tuple[int, bytes, list[RowDocument]]]:
        """Number, text and documents of the rows that become some."""
        count = None if stop is None else stop - start
        rows = islice(self.source.documents(start), count)
        while batch := list(islice(rows, _ROWS_AT_ONCE)):
            found = self._encode([text for _, text in batch])
            by_row: dict[int, list[RowDocument]] = {}
            for row, document in zip(found.rows.tolist(), _documents_of(found), strict=True):
                by_row.setdefault(row, []).append(document)
            for row, documents in by_row.items():
                yield *batch[row], documents

    def turns(self, row: EncodedRow) -> list[list[Turn]]:
        """Who says what in each document of `row`; nothing if it is left out."""
        if row.left_out is not None:
            return []
        try:
            text = row.text.decode("utf-8", _DECODE_ERRORS[self.options.invalid_utf8])
            found = conversations_of(
                text, self.profile, mode=self.options.mode, shape=self.options.shape
            )
        except (RowSkipped, SourceError, ValueError, RecursionError):
            return []
        return [conversation.turns for conversation in found]

    def rendered(self, turns: Sequence[Turn]) -> bytes:
        """The text that the template makes of `turns`, whole."""
        text = "".join(part.text for part in parts_of(turns, self.profile))
        if self.options.invalid_utf8 == "replace":
            # JSON may name half of a surrogate pair.
            text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        try:
            return text.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            return text.encode("utf-8", "surrogatepass")

    def search(self, text: str, start: int) -> int | None:
        """The first row from `start` on in which somebody says `text`, or that is spelled so."""
        wanted = text.encode()
        for index, row in self.source.documents(start):
            if wanted in row or any(text in said for said in _strings_in(row)):
                return index
        return None


def num_shared(one: RowDocument, other: RowDocument) -> int:
    """How many tokens both begin with, ids and mask."""
    pairs = zip(zip(*one, strict=True), zip(*other, strict=True), strict=False)
    most = min(len(one.ids), len(other.ids))
    return next((place for place, (a, b) in enumerate(pairs) if a != b), most)


def _documents_of(found: EncodedRows) -> Iterator[RowDocument]:
    for number in range(found.num_documents):
        ids, mask = found.document(number)
        yield RowDocument(ids.tolist(), mask.tolist())


def _strings_in(row: bytes) -> Iterator[str]:
    """Every string of a row, without the escapes that JSON writes."""
    if b"\\" not in row:  # then what is said is spelled as it is
        return
    try:
        values: list[Any] = [json.loads(row)]
    except (ValueError, RecursionError):
        return
    while values:
        value = values.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            values += cast("dict[str, Any]", value).values()
        elif isinstance(value, list):
            values += cast("list[Any]", value)


def rows_as_encoded(
    source: RawSource, tokenizer: Tokenizer, settings: EncodeSettings, read: ReadOptions
) -> RowSource:
    """The rows of `source` as `encode` with these settings would take them."""
    options = RowOptions(
        mode=settings.mode,
        shape=settings.shape,
        max_tokens=settings.max_tokens,
        too_long=settings.too_long,
        invalid_utf8=read.invalid_utf8,
    )
    return RowSource(source, tokenizer, find_profile(settings.profile), options)


def rows_of_manifest(
    source: RawSource, tokenizer: Tokenizer, manifest: Manifest, read: ReadOptions, name: str
) -> RowSource:
    """The rows of `source` as those of a dataset were encoded: by its own profile, with all it
    said then. ConfigError if the manifest does not have that."""
    settings = manifest.settings
    stated = settings.get("profile")
    if not isinstance(stated, Mapping):
        raise ConfigError(
            f"the manifest of `{name}` holds no profile, so nothing tells how its rows were rendered",
            "leave `--source` out",
        )
    known = cast("Mapping[str, Any]", stated)
    values = {key: value for key, value in known.items() if value is not None}
    options = RowOptions(
        mode=manifest.mode,
        shape=settings.get("shape"),
        max_tokens=settings.get("max_tokens"),
        too_long=settings.get("too_long") or RowOptions.too_long,
        invalid_utf8=read.invalid_utf8,
    )
    profile = profile_from_values(values, manifest.profile or name)
    return RowSource(source, tokenizer, profile, options)
