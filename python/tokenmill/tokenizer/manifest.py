"""manifest.json of a tokenizer folder: what it holds, how it was made, the sha256 of every file.

It is written last, so a folder that has one is complete. It holds no time and no path of this
machine: the same settings on the same text give the same bytes.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenmill import _core
from tokenmill.errors import FormatError
from tokenmill.tokenizer.formats.checked_json import Place, dump_json, parse_json, show_json
from tokenmill.tokenizer.vocab import Vocab

FILE_NAME = "manifest.json"
FORMAT = "tokenmill tokenizer"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class Manifest:
    """`settings` and `parents` are the caller's; the rest follows from the vocab and the files."""

    vocab_size: int
    num_merges: int
    pattern_name: str | None
    pattern_regex: str
    special_tokens: dict[str, int]
    unreachable: list[int]
    files: dict[str, str]
    """File name → sha256."""
    normalizer: str | None = None
    ignore_merges: bool = False
    not_written: dict[str, str] = field(default_factory=dict)
    """File name → why this vocab cannot be kept in it."""
    notes: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    parents: dict[str, Any] = field(default_factory=dict)
    tool_version: str = _core.__version__
    unicode_version: str = _core.UNICODE_VERSION

    @property
    def pattern(self) -> str:
        """The name, or the regex of a pattern that has none."""
        return self.pattern_name or self.pattern_regex

    def to_json(self) -> bytes:
        """The bytes of manifest.json. TypeError or ValueError if settings are not JSON values."""
        return dump_json(
            {
                "format": FORMAT,
                "format_version": FORMAT_VERSION,
                "tool": "tokenmill",
                "tool_version": self.tool_version,
                "unicode_version": self.unicode_version,
                "vocab_size": self.vocab_size,
                "num_merges": self.num_merges,
                "pattern": {"name": self.pattern_name, "regex": self.pattern_regex},
                "special_tokens": self.special_tokens,
                "normalizer": self.normalizer,
                "ignore_merges": self.ignore_merges,
                "unreachable": self.unreachable,
                "settings": self.settings,
                "parents": self.parents,
                "notes": self.notes,
                "not_written": self.not_written,
                "files": {name: {"sha256": digest} for name, digest in self.files.items()},
            }
        )

    @staticmethod
    def from_json(data: bytes, file: str = FILE_NAME) -> "Manifest":
        """FormatError if `data` is not a manifest of a tokenizer folder that this version reads."""
        document = parse_json(data, file)
        kind = document.child("format").value
        if kind != FORMAT:
            document.fail(f"`format` is {show_json(kind)}, not `{FORMAT}`")
        version = document["format_version"].as_integer()
        if version > FORMAT_VERSION:
            document.fail(
                f"`format_version` is {version}, this tokenmill reads up to {FORMAT_VERSION}",
                "install a newer tokenmill",
            )
        pattern = document["pattern"]
        name = pattern["name"]
        return Manifest(
            vocab_size=document["vocab_size"].as_integer(),
            num_merges=document["num_merges"].as_integer(),
            pattern_name=None if name.value is None else name.as_string(),
            pattern_regex=pattern["regex"].as_string(),
            special_tokens=_integers(document["special_tokens"]),
            unreachable=[place.as_integer() for place in document["unreachable"].items()],
            files={
                key: document["files"][key]["sha256"].as_string()
                for key in document["files"].as_object()
            },
            # Absent in folders of older versions, which knew neither.
            normalizer=document.child("normalizer").value,
            ignore_merges=document.child("ignore_merges").value is True,
            not_written=dict(document["not_written"].as_object()),
            notes=[place.as_string() for place in document["notes"].items()],
            settings=document["settings"].as_object(),
            parents=document["parents"].as_object(),
            tool_version=document["tool_version"].as_string(),
            unicode_version=document["unicode_version"].as_string(),
        )


def _integers(place: Place) -> dict[str, int]:
    return {key: place[key].as_integer() for key in place.as_object()}


@dataclass(frozen=True)
class Contents:
    """The files of a folder before its manifest, name → bytes, and what to say about them."""

    files: dict[str, bytes]
    notes: list[str]
    not_written: dict[str, str]


def describe(
    vocab: Vocab,
    contents: Contents,
    unreachable: list[int],
    *,
    settings: Mapping[str, object],
    parents: Mapping[str, object],
) -> Manifest:
    """The manifest of a folder that holds `contents`."""
    splitter = _core.Splitter(vocab.pattern)
    return Manifest(
        vocab_size=vocab.core.size,
        num_merges=vocab.core.num_merges,
        pattern_name=splitter.name,
        pattern_regex=splitter.regex,
        special_tokens=vocab.special_tokens,
        unreachable=unreachable,
        normalizer=vocab.normalizer,
        ignore_merges=vocab.ignore_merges,
        files={n: hashlib.sha256(data).hexdigest() for n, data in contents.files.items()},
        not_written=contents.not_written,
        notes=contents.notes,
        settings=dict(settings),
        parents=dict(parents),
    )


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a finished tokenizer folder, None if `folder` is absent or has none."""
    path = folder / FILE_NAME
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FormatError(f"`{path}` cannot be read: {error.strerror}") from error
    return Manifest.from_json(data, str(path))
