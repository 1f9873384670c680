"""Inspection: how one document became tokens. Ids in, what each spells and where it stands out.

`open_inspection` turns whatever people name into something with numbered documents: a split of a
dataset, a raw source under a tokenizer, or a text that was typed. Measures only; `render` draws.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol, cast

from tokenmill.dataset.dataset import Dataset
from tokenmill.dataset.manifest import FORMAT, Manifest, manifest_path
from tokenmill.dataset.split_view import SplitView
from tokenmill.errors import ConfigError, FormatError
from tokenmill.progress import Meter
from tokenmill.report.sampling import DocumentReading
from tokenmill.sources.formats import format_of_name
from tokenmill.sources.inputs import find_inputs
from tokenmill.sources.options import ReadOptions
from tokenmill.storage.address import parse_address
from tokenmill.storage.files import local_path, unreadable
from tokenmill.tokenizer.formats import detect
from tokenmill.tokenizer.formats.checked_json import parse_json
from tokenmill.tokenizer.tokenizer import Tokenizer

_SEARCH_DOCUMENTS = 1024


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
class DocumentView:
    """A document as ids and as text. `part` is `document`, `chosen` or `rejected`."""

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
        """`document` or `pair`."""
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
    text = tokenizer.decode_bytes(_without(list(ids), around))
    return DocumentView(
        part=part,
        tokens=tuple(tokens),
        text=text,
        raw=None if raw is None else raw[1],
        raw_index=None if raw is None else raw[0],
        stated_bytes=stated_bytes,
        encodes_back=_encodes_back(tokenizer, tokens),
    )


def _without(ids: list[int], around: tuple[int | None, int | None]) -> list[int]:
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


class DatasetInspection:
    """The documents of one split, or its pairs, with the raw texts of a source beside them."""

    def __init__(self, split: SplitView, source: "RawSource | None" = None) -> None:
        self.split = split
        self.tokenizer = split.dataset.tokenizer
        self._source = source
        self._is_preference = split.dataset.mode == "preference"
        self._around = _around(split.dataset.manifest)

    @property
    def name(self) -> str:
        return f"{self.split.dataset.path} · {self.split.name}"

    @property
    def noun(self) -> str:
        return "pair" if self._is_preference else "document"

    @property
    def length(self) -> int | None:
        return len(self.split) // 2 if self._is_preference else len(self.split)

    def view(self, index: int) -> list[DocumentView]:
        require_index(index, self.length, self.noun)
        if self._is_preference:
            return [self._view(2 * index, "chosen"), self._view(2 * index + 1, "rejected")]
        return [self._view(index, "document")]

    def _view(self, index: int, part: str) -> DocumentView:
        ids: list[int] = self.split.document(index).tolist()
        mask = self.split.document_mask(index)
        raw = None
        if self._source is not None and self.split.dataset.mode == "pretrain":
            text = self.tokenizer.decode_bytes(_without(ids, self._around))
            raw = self._source.find(text, index)
        return view_of_ids(
            ids,
            self.tokenizer,
            part=part,
            mask=None if mask is None else mask.tolist(),
            around=self._around,
            raw=raw,
            stated_bytes=self.split.bytes_of(index)
            if part == "document" and mask is None
            else None,
        )

    def search(self, text: str, start: int = 0) -> int | None:
        wanted = text.encode()
        factor = 2 if self._is_preference else 1
        for first in range(start * factor, len(self.split), _SEARCH_DOCUMENTS):
            last = min(first + _SEARCH_DOCUMENTS, len(self.split))
            documents = [self.split.document(i) for i in range(first, last)]
            # One call for all of them; only where something is found, which one it is in.
            if wanted not in self.tokenizer.decode_bytes(_joined(documents)):
                continue
            for index, document in enumerate(documents, first):
                inner = _without(document.tolist(), self._around)
                if wanted in self.tokenizer.decode_bytes(inner):
                    return index // factor
        return None


def _joined(documents: Sequence[Any]) -> Any:
    import numpy as np

    return np.concatenate(documents)


def _around(manifest: Manifest | None) -> tuple[int | None, int | None]:
    if manifest is None:
        return None, None
    ids = manifest.tokenizer.special_tokens
    return ids.get(manifest.bos or ""), ids.get(manifest.eos or "")


class RawSource:
    """Documents of files, by number. They are read in order: going back reads from the start."""

    def __init__(self, path: str | os.PathLike[str], options: ReadOptions) -> None:
        self.name = os.fspath(path)
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
        raise IndexError(_out_of_range(index, self.length, "document"))

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


class SourceInspection:
    """The documents of a raw source, encoded as they are looked at."""

    noun = "document"

    def __init__(self, source: RawSource, tokenizer: Tokenizer) -> None:
        self._source, self.tokenizer = source, tokenizer

    @property
    def name(self) -> str:
        return self._source.name

    @property
    def length(self) -> int | None:
        return self._source.length

    def view(self, index: int) -> list[DocumentView]:
        require_index(index, self.length, self.noun)
        raw = self._source.document(index)
        return [view_of_ids(self.tokenizer.encode_ordinary(raw), self.tokenizer, raw=(index, raw))]

    def search(self, text: str, start: int = 0) -> int | None:
        wanted = text.encode()
        found = (number for number, raw in self._source.documents(start) if wanted in raw)
        return next(found, None)


class TextInspection:
    """Texts that were typed: the tokenizer alone is what is looked at."""

    noun = "text"

    def __init__(self, tokenizer: Tokenizer, name: str, texts: Sequence[str]) -> None:
        self.tokenizer, self.name = tokenizer, name
        self.texts = list(texts)

    @property
    def length(self) -> int | None:
        return len(self.texts)

    def view(self, index: int) -> list[DocumentView]:
        require_index(index, self.length, self.noun)
        raw = self.texts[index].encode("utf-8", "surrogatepass")
        ids = self.tokenizer.encode(raw, allowed_special="all")
        return [view_of_ids(ids, self.tokenizer, raw=(index, raw))]

    def search(self, text: str, start: int = 0) -> int | None:
        return next((i for i in range(start, len(self.texts)) if text in self.texts[i]), None)


def require_index(index: int, length: int | None, noun: str) -> None:
    """IndexError if there is no such number."""
    if index < 0 or (length is not None and index >= length):
        raise IndexError(_out_of_range(index, length, noun))


def _out_of_range(index: int, length: int | None, noun: str) -> str:
    if not length:
        return f"there is no {noun}" if length == 0 else f"{noun} {index} is below 0"
    return f"there is no {noun} {index:,}: numbers go from 0 to {length - 1:,}"


def open_inspection(
    path: str | os.PathLike[str],
    *,
    tokenizer: Path | None = None,
    split: str | None = None,
    source: str | os.PathLike[str] | None = None,
    dtype: str | None = None,
    texts: Sequence[str] = (),
    options: ReadOptions | None = None,
) -> Inspection:
    """What to look at: a dataset, a tokenizer with `texts`, or a raw source with `tokenizer`, which
    may be elsewhere, as `source` may."""
    kind = kind_of(path, has_tokenizer=tokenizer is not None)
    if kind == "dataset":
        dataset = Dataset.open(path, dtype=dtype, tokenizer=tokenizer)
        if source is not None and dataset.mode != "pretrain":
            raise ConfigError(
                f"`{path}` holds data of mode `{dataset.mode}`, whose text a template made",
                "leave `--source` out: it is for documents that were encoded as they are",
            )
        view = dataset.main_split if split is None else dataset[split]
        raw = None if source is None else RawSource(source, options or _options_of(dataset))
        return DatasetInspection(view, raw)
    for flag, value in (("split", split), ("source", source), ("dtype", dtype)):
        if value is not None:
            raise ConfigError(f"`--{flag}` is for datasets, `{path}` is a {kind}")
    if kind == "tokenizer":
        return TextInspection(Tokenizer.load(path), os.fspath(path), texts)
    if tokenizer is None:
        raise ConfigError(
            f"`{path}` is no dataset and no tokenizer", "for raw text, pass `--tokenizer DIR`"
        )
    source_view = RawSource(path, options or ReadOptions())
    return SourceInspection(source_view, Tokenizer.load(tokenizer))


def _options_of(dataset: Dataset) -> ReadOptions:
    """How the inputs of `dataset` were read, where its manifest says it."""
    manifest = dataset.manifest
    stated = None if manifest is None else manifest.settings.get("read")
    if not isinstance(stated, dict):
        return ReadOptions()
    settings = cast("dict[str, object]", stated)
    known = {key: value for key, value in settings.items() if hasattr(ReadOptions, key)}
    return ReadOptions.from_keywords(known)


def kind_of(address: str | os.PathLike[str], *, has_tokenizer: bool) -> str:
    """`dataset`, `tokenizer` or `source`."""
    if parse_address(os.fspath(address)) is not None:
        return "source"
    path = local_path(address)
    place = manifest_path(path)
    if place.is_file():
        kind = parse_json(place.read_bytes(), str(place)).child("format").value
        if kind == FORMAT:
            return "dataset"
    if path.suffix in (".npy", ".bin", ".ds", ".idx") or Path(f"{path}.idx").is_file():
        return "dataset"
    if has_tokenizer:
        return "source"
    if not path.exists():
        raise unreadable(path, FileNotFoundError())
    if path.is_file() and format_of_name(path.name, None) is not None:
        return "source"
    try:
        detect.detect(path)
    except FormatError:
        return "source"
    return "tokenizer"
