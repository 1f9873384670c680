"""Python objects as sources: iterables of text, and everything that speaks Arrow's C interface.

An iterable of str or bytes gives one document for each item; mappings, as Hugging Face datasets
yield them, give the value under `field`. Tables (pyarrow, polars, pandas, duckdb, Hugging Face)
give one document for each row of the column `field`, arrays and series one for each value, and
their memory is read where it lies.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from tokenmill import _core
from tokenmill.errors import SourceError
from tokenmill.sources.json_rows import row_as_json
from tokenmill.sources.options import ReadOptions
from tokenmill.sources.source import OpenedSource, Part


@dataclass(frozen=True)
class Documents:
    """Text in memory or made as it goes. What is an iterator can be read once."""

    texts: Iterable[str | bytes | Mapping[str, object]]
    name: str = "documents"
    declared: bool = True
    """Whether somebody said that these are documents; otherwise the first is looked at for being a
    path."""

    @property
    def size_in_bytes(self) -> None:
        return None

    def open(self, options: ReadOptions, part: Part | None = None) -> OpenedSource:
        assert part is None, "an iterable has no parts"
        texts = _fields(self.texts, options.field, self.name, declared=self.declared)
        return OpenedSource(_core.Source.strings(texts, name=self.name))


def documents(texts: Iterable[str | bytes], *, name: str = "documents") -> Documents:
    """Say that `texts` are documents themselves. A list of str would otherwise be taken for paths."""
    if isinstance(texts, (str, bytes)):
        raise TypeError("documents() takes an iterable of documents; put a single one into a list")
    return Documents(texts, name)


def _fields(
    texts: Iterable[Any], field: str | None, name: str, *, declared: bool
) -> Iterator[str | bytes]:
    for index, text in enumerate(texts):
        if index == 0 and not declared and _names_a_file(text):
            raise SourceError(
                f"the first item of `{name}` is `{text}`, which is the path of a file",
                "paths go into a list; wrap documents in `tm.documents(...)`",
            )
        if not isinstance(text, Mapping):
            yield text
            continue
        row = cast("Mapping[str, str | bytes]", text)
        if field is None:
            yield row_as_json(row)
            continue
        if field not in row:
            keys = ", ".join(f"`{key}`" for key in row) or "none"
            raise SourceError(f"item {index:,} of `{name}` has no `{field}`; its keys are {keys}")
        yield row[field]


def _names_a_file(text: object) -> bool:
    """Whether training on `text` would most likely be training on a file's name."""
    if isinstance(text, os.PathLike):
        return True
    return isinstance(text, str) and len(text) < 1024 and "\0" not in text and os.path.exists(text)


@dataclass(frozen=True)
class ArrowTable:
    """Anything with `__arrow_c_stream__` or `__arrow_c_array__`: a table, a batch, a series, an
    array."""

    table: object
    name: str

    @property
    def size_in_bytes(self) -> int | None:
        size = getattr(self.table, "nbytes", None)
        return size if isinstance(size, int) else None

    def open(self, options: ReadOptions, part: Part | None = None) -> OpenedSource:
        from tokenmill.sources.arrow_objects import open_table

        assert part is None, "a table has no parts"
        return open_table(self.table, options.field, self.name)


@dataclass(frozen=True)
class HuggingFaceDataset:
    """A `datasets.Dataset` or `IterableDataset`, taken batch by batch as Arrow."""

    dataset: object
    name: str = "dataset"

    @property
    def size_in_bytes(self) -> None:
        return None

    def open(self, options: ReadOptions, part: Part | None = None) -> OpenedSource:
        from tokenmill.sources.arrow_objects import open_dataset

        assert part is None, "a dataset has no parts"
        return open_dataset(self.dataset, options.field, self.name)


def is_huggingface(value: object) -> bool:
    """Whether `value` walks like a Hugging Face dataset; the package itself is never imported."""
    return all(hasattr(value, name) for name in ("with_format", "column_names", "iter", "features"))


def is_arrow(value: object) -> bool:
    """Whether `value` offers its memory through Arrow's C interface."""
    return hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__")
