"""manifest.json of a dataset: what it holds, how it was made, the sha256 of every file.

It is written last, so a dataset that has one is complete. It holds no time and no path of this
machine: the same settings on the same text give the same bytes. Its last entry is the sha256 of all
before it, so a number that changed by itself is noticed like any other damage. Paths in it are
relative to the folder it is in and never lead out of it.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tokenmill import _core
from tokenmill.errors import FormatError
from tokenmill.storage.files import sha256_of, unreadable
from tokenmill.tokenizer.formats.checked_json import Place, dump_json, parse_json, show_json

if TYPE_CHECKING:
    from tokenmill.tokenizer.tokenizer import Tokenizer

FILE_NAME = "manifest.json"
BESIDE_FILE = ".manifest.json"
"""What follows the name of a token file that has no folder of its own: `x.npy.manifest.json`."""
TOKENIZER_FOLDER = "tokenizer"
FORMAT = "tokenmill dataset"
FORMAT_VERSION = 1
MODES = ("pretrain", "sft", "preference")
LAYOUT_NAMES = ("npy", "bin", "llmc", "megatron", "datatrove")
DTYPES = ("uint16", "uint32", "int32")
SPLIT_NAMES = ("train", "validation", "test")

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file of the dataset: where it is, how long, and what `sha256sum` prints for it."""

    path: str
    size: int
    sha256: str

    def to_value(self) -> dict[str, Any]:
        return {"path": self.path, "size": self.size, "sha256": self.sha256}


@dataclass(frozen=True, slots=True)
class Shard:
    """One file of ids with what belongs to it: `files` has `tokens`, and what else there is."""

    tokens: int
    documents: int
    bytes: int
    files: Mapping[str, FileRecord]

    def to_value(self) -> dict[str, Any]:
        return {
            "tokens": self.tokens,
            "documents": self.documents,
            "bytes": self.bytes,
            "files": {kind: record.to_value() for kind, record in self.files.items()},
        }


@dataclass(frozen=True)
class Split:
    """Shards in order. `trained_tokens` is None where there is no mask: all are trained on."""

    shards: tuple[Shard, ...]
    trained_tokens: int | None = None

    @property
    def tokens(self) -> int:
        return sum(shard.tokens for shard in self.shards)

    @property
    def documents(self) -> int:
        return sum(shard.documents for shard in self.shards)

    @property
    def bytes(self) -> int:
        """Of the text that was encoded, without bos and eos."""
        return sum(shard.bytes for shard in self.shards)

    def to_value(self) -> dict[str, Any]:
        return {
            "tokens": self.tokens,
            "documents": self.documents,
            "bytes": self.bytes,
            "trained_tokens": self.trained_tokens,
            "shards": [shard.to_value() for shard in self.shards],
        }


@dataclass(frozen=True)
class TokenizerRecord:
    """The tokenizer the ids belong to. `files` are those of its folder, if the dataset has it."""

    sha256: str
    vocab_size: int
    pattern: str
    special_tokens: Mapping[str, int]
    files: Mapping[str, FileRecord] = field(default_factory=dict[str, FileRecord])

    def to_value(self) -> dict[str, Any]:
        return {
            "sha256": self.sha256,
            "vocab_size": self.vocab_size,
            "pattern": self.pattern,
            "special_tokens": dict(self.special_tokens),
            "files": {name: record.to_value() for name, record in self.files.items()},
        }


@dataclass(frozen=True)
class InputRecord:
    """A file that was read; `bytes` and `sha256` are None for what was no file."""

    name: str
    bytes: int | None
    sha256: str | None
    split: str

    def to_value(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "bytes": self.bytes,
            "sha256": self.sha256,
            "split": self.split,
        }


@dataclass(frozen=True)
class Manifest:
    """Everything there is to know about a dataset without opening another file of it."""

    mode: str
    layout: str
    dtype: str
    tokenizer: TokenizerRecord
    splits: Mapping[str, Split]
    bos: str | None = None
    eos: str | None = None
    profile: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Everything else that decides the ids; JSON values."""
    inputs: tuple[InputRecord, ...] = ()
    report: Mapping[str, Any] = field(default_factory=dict[str, Any])
    tool_version: str = _core.__version__

    @property
    def tokens(self) -> int:
        return sum(split.tokens for split in self.splits.values())

    @property
    def documents(self) -> int:
        return sum(split.documents for split in self.splits.values())

    def files(self) -> Iterator[FileRecord]:
        """Every file of the dataset but the manifest."""
        yield from self.tokenizer.files.values()
        for split in self.splits.values():
            for shard in split.shards:
                yield from shard.files.values()

    def to_json(self) -> bytes:
        """The bytes of manifest.json. TypeError or ValueError if settings are not JSON values."""
        content = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "tool": "tokenmill",
            "tool_version": self.tool_version,
            "mode": self.mode,
            "layout": self.layout,
            "dtype": self.dtype,
            "tokenizer": self.tokenizer.to_value(),
            "bos": self.bos,
            "eos": self.eos,
            "profile": self.profile,
            "settings": dict(self.settings),
            "splits": {name: split.to_value() for name, split in self.splits.items()},
            "inputs": [record.to_value() for record in self.inputs],
            "report": dict(self.report),
        }
        return _sealed(dump_json(content))

    @staticmethod
    def from_json(data: bytes, file: str = FILE_NAME) -> "Manifest":
        """FormatError if `data` is not a manifest of a dataset that this version reads, or was
        changed since it was written."""
        document = parse_json(data, file)
        _check_format(document)
        _check_seal(document, data)
        splits = document["splits"]
        return Manifest(
            mode=_one_of(document["mode"], MODES),
            layout=_one_of(document["layout"], LAYOUT_NAMES),
            dtype=_one_of(document["dtype"], DTYPES),
            tokenizer=_tokenizer(document["tokenizer"]),
            splits={_split_name(splits, name): _split(splits[name]) for name in splits.as_object()},
            bos=_or_none(document["bos"], Place.as_string),
            eos=_or_none(document["eos"], Place.as_string),
            profile=_or_none(document["profile"], Place.as_string),
            settings=document["settings"].as_object(),
            inputs=tuple(_input(place) for place in document["inputs"].items()),
            report=document["report"].as_object(),
            tool_version=document["tool_version"].as_string(),
        )


_END = b"\n}\n"
_DIGEST = re.compile("[0-9a-f]{64}")
_SEAL = re.compile(rb',\n  "sha256": "([0-9a-f]{64})"\n}\n\Z')


def _sealed(content: bytes) -> bytes:
    """`content`, a JSON object, with its own sha256 as the last entry."""
    digest = hashlib.sha256(content).hexdigest()
    return content.removesuffix(_END) + f',\n  "sha256": "{digest}"'.encode() + _END


def _check_seal(document: Place, data: bytes) -> None:
    """By the bytes, not the values: a space more is a change, too, and nothing is written again."""
    seal = _SEAL.search(data, max(0, len(data) - 96))
    if seal is None:
        document.fail("does not end with the sha256 of what is before", _CHANGED)
    found = hashlib.sha256(data[: seal.start()] + _END).hexdigest()
    if found != seal[1].decode():
        document.fail(
            f"was changed since it was written: it states sha256 `{seal[1].decode()}` of its "
            f"content, which has `{found}`",
            _CHANGED,
        )


_CHANGED = "write the dataset again, or take the manifest from a backup"


def _check_format(document: Place) -> None:
    kind = document.child("format").value
    if kind != FORMAT:
        document.fail(f"`format` is {show_json(kind)}, not `{FORMAT}`")
    version = document["format_version"].as_integer()
    if version > FORMAT_VERSION:
        document.fail(
            f"`format_version` is {version}, this tokenmill reads up to {FORMAT_VERSION}",
            "install a newer tokenmill",
        )


def check_relative(path: str) -> str | None:
    """What is wrong with `path` as a place inside a folder, None if nothing is."""
    if not path or "\0" in path:
        return "is no path"
    if path.startswith("/") or "\\" in path or path[1:2] == ":":
        return "is not relative, with `/` between its parts"
    # Plain strings: a dataset of a hundred shards has hundreds of them, and opening must be quick.
    if not {"", ".", ".."}.isdisjoint(path.split("/")):
        return "leads out of the folder, or to it by a detour"
    return None


def _count(place: Place) -> int:
    if place.as_integer() < 0:
        place.fail(f"expected a count, found {place.value}")
    return place.as_integer()


def _sha256(place: Place) -> str:
    digest = place.as_string()
    if _DIGEST.fullmatch(digest) is None:
        place.fail(f"expected a sha256 of 64 hex digits, found {show_json(digest)}")
    return digest


def _or_none(place: Place, read: Callable[[Place], _Value]) -> _Value | None:
    return None if place.value is None else read(place)


def _one_of(place: Place, allowed: tuple[str, ...]) -> str:
    if place.as_string() not in allowed:
        place.fail(f"expected one of {', '.join(allowed)}, found {show_json(place.value)}")
    return place.as_string()


def _split_name(splits: Place, name: str) -> str:
    if name not in SPLIT_NAMES:
        splits.fail(f"`{name}` is no split, expected {', '.join(SPLIT_NAMES)}")
    return name


def _file(place: Place) -> FileRecord:
    path = place["path"].as_string()
    if problem := check_relative(path):
        place["path"].fail(f"{show_json(path)} {problem}")
    return FileRecord(path, _count(place["size"]), _sha256(place["sha256"]))


def _files(place: Place) -> dict[str, FileRecord]:
    return {name: _file(place[name]) for name in place.as_object()}


def _shard(place: Place) -> Shard:
    return _sound_shard(place.value) or _checked_shard(place)


def _checked_shard(place: Place) -> Shard:
    files = _files(place["files"])
    if "tokens" not in files:
        place["files"].fail("key `tokens` is missing")
    return Shard(_count(place["tokens"]), _count(place["documents"]), _count(place["bytes"]), files)


# A dataset of a hundred shards has hundreds of files, and opening one must be quick. So shards are
# looked at as plain values first; only what is odd goes the long way, where each value knows its
# place, to be named in an error.


def _sound_shard(value: Any) -> Shard | None:
    """What `_checked_shard` gives, None for whatever it might refuse."""
    if type(value) is not dict:
        return None
    shard = cast("dict[str, Any]", value)
    records = shard.get("files")
    if type(records) is not dict:
        return None
    files = {k: _sound_file(each) for k, each in cast("dict[str, Any]", records).items()}
    counts = shard.get("tokens"), shard.get("documents"), shard.get("bytes")
    if "tokens" not in files or None in files.values() or not all(map(_is_count, counts)):
        return None
    return Shard(*counts, files)  # pyright: ignore[reportArgumentType]


def _sound_file(value: Any) -> FileRecord | None:
    if type(value) is not dict:
        return None
    file = cast("dict[str, Any]", value)
    path, size, digest = file.get("path"), file.get("size"), file.get("sha256")
    if type(path) is not str or type(digest) is not str or not _is_count(size):
        return None
    is_sound = _DIGEST.fullmatch(digest) is not None and check_relative(path) is None
    return FileRecord(path, cast("int", size), digest) if is_sound else None


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


def _split(place: Place) -> Split:
    trained = _or_none(place["trained_tokens"], _count)
    split = Split(tuple(_shard(shard) for shard in place["shards"].items()), trained)
    for name in ("tokens", "documents", "bytes"):
        if _count(place[name]) != getattr(split, name):
            place[name].fail(f"is {place[name].value}, its shards have {getattr(split, name)}")
    return split


def _tokenizer(place: Place) -> TokenizerRecord:
    special_tokens = place["special_tokens"]
    return TokenizerRecord(
        sha256=_sha256(place["sha256"]),
        vocab_size=_count(place["vocab_size"]),
        pattern=place["pattern"].as_string(),
        special_tokens={name: _count(special_tokens[name]) for name in special_tokens.as_object()},
        files=_files(place["files"]),
    )


def _input(place: Place) -> InputRecord:
    return InputRecord(
        name=place["name"].as_string(),
        bytes=_or_none(place["bytes"], _count),
        sha256=_or_none(place["sha256"], _sha256),
        split=_one_of(place["split"], SPLIT_NAMES),
    )


def record_file(
    folder: Path, path: str, *, read: Callable[[int], None] = lambda num_bytes: None
) -> FileRecord:
    """The record of the file at `path` inside `folder`, which is read for its sha256; `read` hears how
    far that is."""
    full = folder / path
    try:
        size = full.stat().st_size
    except OSError as error:
        raise unreadable(full, error) from error
    return FileRecord(path, size, sha256_of(full, read=read))


def record_tokenizer(tokenizer: "Tokenizer", folder: Path | None = None) -> TokenizerRecord:
    """The record of `tokenizer`, and of its files if it is saved in the dataset folder `folder`."""
    files: dict[str, FileRecord] = {}
    if folder is not None:
        for path in sorted((folder / TOKENIZER_FOLDER).iterdir()):
            files[path.name] = record_file(folder, f"{TOKENIZER_FOLDER}/{path.name}")
    return TokenizerRecord(
        sha256=tokenizer.sha256,
        vocab_size=tokenizer.vocab_size,
        pattern=tokenizer.pattern,
        special_tokens=tokenizer.special_tokens,
        files=files,
    )


def manifest_path(path: Path) -> Path:
    """Where the manifest of the dataset `path` is: in the folder, or beside the file."""
    return path / FILE_NAME if path.is_dir() else path.with_name(path.name + BESIDE_FILE)


def read_manifest(path: Path) -> Manifest | None:
    """The manifest of the dataset at `path`, a folder or a token file; None if there is none."""
    place = manifest_path(path)
    try:
        data = place.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise FormatError(f"`{place}` cannot be read: {error.strerror}") from error
    return Manifest.from_json(data, str(place))
