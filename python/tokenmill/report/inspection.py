"""Inspection: how one document became tokens. Ids in, what each spells and where it stands out.

`open_inspection` turns whatever people name into something with numbered documents: a split of a
dataset, a raw source under a tokenizer, rows of conversations under a profile, or a text that was
typed. Measures only; `render` draws.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from tokenmill.dataset.dataset import Dataset
from tokenmill.dataset.foreign import is_split_folder
from tokenmill.dataset.manifest import FORMAT, Manifest, manifest_path
from tokenmill.dataset.settings import EncodeSettings
from tokenmill.dataset.split_view import SplitView
from tokenmill.errors import ConfigError, FormatError, SourceError
from tokenmill.report.document_view import DocumentView, Inspection, view_of_ids, without
from tokenmill.report.raw_source import RawSource, require_index
from tokenmill.report.row_inspection import RowInspection, with_rows
from tokenmill.report.row_source import RowSource, rows_as_encoded, rows_of_manifest
from tokenmill.sources.formats import format_of_name
from tokenmill.sources.options import ReadOptions
from tokenmill.storage.address import parse_address
from tokenmill.storage.files import local_path, unreadable
from tokenmill.tokenizer.formats import detect
from tokenmill.tokenizer.formats.checked_json import parse_json
from tokenmill.tokenizer.tokenizer import Tokenizer

_SEARCH_DOCUMENTS = 1024


class DatasetInspection:
    """The documents of one split, or its pairs, with the raw texts of a source beside them."""

    def __init__(self, split: SplitView, source: RawSource | RowSource | None = None) -> None:
        self.split = split
        self.tokenizer = split.origin.tokenizer
        self._source = source
        self._is_preference = split.origin.mode == "preference"
        self._around = _around(split.origin.manifest)

    @property
    def name(self) -> str:
        return f"{self.split.origin.path} · {self.split.name}"

    @property
    def noun(self) -> str:
        return "pair" if self._is_preference else "document"

    @property
    def length(self) -> int | None:
        return len(self.split) // 2 if self._is_preference else len(self.split)

    def view(self, index: int) -> list[DocumentView]:
        require_index(index, self.length, self.noun)
        if self._is_preference:
            views = [self._view(2 * index, "chosen"), self._view(2 * index + 1, "rejected")]
        else:
            views = [self._view(index, "document")]
        source = self._source
        return with_rows(source, views, index) if isinstance(source, RowSource) else views

    def _view(self, index: int, part: str) -> DocumentView:
        ids: list[int] = self.split.document(index).tolist()
        mask = self.split.document_mask(index)
        raw = None
        if isinstance(self._source, RawSource):
            text = self.tokenizer.decode_bytes(without(ids, self._around))
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
                inner = without(document.tolist(), self._around)
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
        try:
            raw = self._source.document(index)
        except SourceError as error:
            if "has no field" not in error.message:
                raise
            hint = "name the key of the text with `--field`; conversations need `--mode sft`"
            raise SourceError(error.message, hint) from None
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


def open_inspection(
    path: str | os.PathLike[str],
    *,
    tokenizer: Path | None = None,
    split: str | None = None,
    source: str | os.PathLike[str] | None = None,
    dtype: str | None = None,
    texts: Sequence[str] = (),
    options: ReadOptions | None = None,
    settings: EncodeSettings | None = None,
) -> Inspection:
    """What to look at: a dataset, a tokenizer with `texts`, or a raw source with `tokenizer`, which
    may be elsewhere, as `source` may. `settings` say what `encode` would make of a raw source."""
    kind = kind_of(path, has_tokenizer=tokenizer is not None)
    if settings is not None and kind != "source":
        raise ConfigError(
            f"`--mode` and what goes with it are for raw rows, `{path}` is a {kind}",
            "a dataset knows how it was made" if kind == "dataset" else None,
        )
    if kind == "dataset":
        dataset = Dataset.open(path, dtype=dtype, tokenizer=tokenizer)
        view = dataset.main_split if split is None else dataset[split]
        return DatasetInspection(
            view, None if source is None else _source_of(dataset, source, options)
        )
    for flag, value in (("split", split), ("source", source), ("dtype", dtype)):
        if value is not None:
            raise ConfigError(f"`--{flag}` is for datasets, `{path}` is a {kind}")
    if kind == "tokenizer":
        return TextInspection(Tokenizer.load(path), os.fspath(path), texts)
    if tokenizer is None:
        raise ConfigError(
            f"`{path}` is no dataset and no tokenizer", "for raw text, pass `--tokenizer DIR`"
        )
    options = options or ReadOptions()
    loaded = Tokenizer.load(tokenizer)
    if settings is None or not settings.has_rows:
        return SourceInspection(RawSource(path, options), loaded)
    rows = RawSource(path, _for_rows(options), noun="row")
    return RowInspection(rows_as_encoded(rows, loaded, settings, options))


def _source_of(
    dataset: Dataset, source: str | os.PathLike[str], options: ReadOptions | None
) -> RawSource | RowSource:
    """What a dataset was made of, to look up its documents."""
    options = options or _options_of(dataset)
    manifest = dataset.manifest
    if manifest is None or manifest.mode == "pretrain":
        return RawSource(source, options)
    rows = RawSource(source, _for_rows(options), noun="row")
    return rows_of_manifest(rows, dataset.tokenizer, manifest, options, str(dataset.path))


def _for_rows(options: ReadOptions) -> ReadOptions:
    """Rows are read whole, and what is wrong inside of one is for whoever reads it to judge."""
    return replace(options, field=None, invalid_utf8="keep")


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
    if is_split_folder(path):  # not one by itself, but who asks for it means the one it is in
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
