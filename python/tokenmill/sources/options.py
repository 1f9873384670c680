"""How inputs are read: one frozen record of every choice, with the defaults everybody else refers
to."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TypedDict

from tokenmill.errors import ConfigError
from tokenmill.sources.choices import nearest_hint, require_one_of, require_whole_number
from tokenmill.sources.formats import FORMATS, parse_format

ON_ERROR = ("fail", "skip")
INVALID_UTF8 = ("error", "replace", "keep")


class ReadKeywords(TypedDict, total=False):
    """The keywords `tm.count` and `tm.train` hand to ReadOptions; that class explains them."""

    field: str | None
    separator: str | bytes
    input_format: str | None
    shards: str | None
    doc_cap: int | None
    max_chars: int | None
    max_bytes: int | None
    on_error: str
    invalid_utf8: str


@dataclass(frozen=True)
class ReadOptions:
    """Everything that decides which documents an input yields."""

    field: str | None = "text"
    """Column of Parquet and Arrow, key of JSON lines and of mappings; `None` takes whole rows, as
    JSON."""
    separator: str | bytes = "<|endoftext|>"
    """What stands between the documents of a plain text."""
    input_format: str | None = None
    """`txt`, `jsonl`, `parquet` or `arrow`, with or without `.gz`, `.zst`, `.bz2`; `None` goes by
    the file name."""
    shards: str | None = None
    """Which numbered files of each folder or glob to read, as `..8`, `3,5,9`, `-1`; `None` reads
    all."""
    doc_cap: int | None = None
    """Documents are cut after this many characters."""
    max_chars: int | None = None
    """Reading stops after the document that passes this many characters, counted after the cap."""
    max_bytes: int | None = None
    """Reading stops before the document that would pass this many bytes."""
    on_error: str = "fail"
    """What a broken line, a missing field or a null does: `fail`, or `skip` and count it."""
    invalid_utf8: str = "error"
    """What a byte outside UTF-8 does: `error`, `replace` by U+FFFD and count it, `keep` as it is.
    """

    def __post_init__(self) -> None:
        if not self.separator:
            raise ConfigError("the separator is empty; it must be at least one byte")
        if self.field == "":
            raise ConfigError("the field name is empty")
        if self.input_format is not None:
            parse_format(self.input_format)
        if self.shards is not None:
            from tokenmill.sources.shards import parse_shards

            parse_shards(self.shards)
        for name in ("doc_cap", "max_chars", "max_bytes"):
            if getattr(self, name) is not None:
                require_whole_number(name.replace("_", " "), getattr(self, name), 1)
        require_one_of("on-error rule", self.on_error, ON_ERROR)
        require_one_of("rule for invalid UTF-8", self.invalid_utf8, INVALID_UTF8)

    @property
    def separator_bytes(self) -> bytes:
        return self.separator.encode() if isinstance(self.separator, str) else self.separator

    @property
    def has_limit(self) -> bool:
        """Whether what a document yields depends on the documents before it."""
        return self.max_chars is not None or self.max_bytes is not None

    @classmethod
    def from_keywords(cls, keywords: Mapping[str, object]) -> "ReadOptions":
        """Options from keyword arguments; an unknown one is a TypeError that knows the nearest
        name."""
        known = [each.name for each in fields(cls)]
        for name in keywords:
            if name not in known:
                hint = nearest_hint(name, known)
                raise TypeError(f"unknown keyword `{name}`" + (f"; {hint}" if hint else ""))
        return cls(**keywords)  # pyright: ignore[reportArgumentType]

    def as_settings(self) -> dict[str, object]:
        """What a manifest records: every choice that can change the documents, in JSON's types."""
        return {
            "field": self.field,
            "separator": self.separator_bytes.decode("utf-8", "backslashreplace"),
            "input_format": self.input_format,
            "doc_cap": self.doc_cap,
            "max_chars": self.max_chars,
            "max_bytes": self.max_bytes,
            "on_error": self.on_error,
            "invalid_utf8": self.invalid_utf8,
        }


__all__ = ["FORMATS", "INVALID_UTF8", "ON_ERROR", "ReadKeywords", "ReadOptions"]
