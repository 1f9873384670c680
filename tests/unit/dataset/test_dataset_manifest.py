"""manifest.json of datasets: the same bytes for the same values, and nothing read that is not right."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tokenmill.dataset.manifest import (
    FileRecord,
    InputRecord,
    Manifest,
    Shard,
    Split,
    TokenizerRecord,
    check_relative,
    read_manifest,
)
from tokenmill.errors import FormatError
from tokenmill.tokenizer.formats.checked_json import dump_json

SHA = "0123456789abcdef" * 4


def example() -> Manifest:
    files = {"tokens": FileRecord("train/tokens-00000.npy", 148, SHA)}
    return Manifest(
        mode="pretrain",
        layout="npy",
        dtype="uint16",
        tokenizer=TokenizerRecord(SHA, 300, "gpt4", {"<|endoftext|>": 299}),
        splits={"train": Split((Shard(10, 2, 31, files), Shard(5, 1, 9, files)))},
        eos="<|endoftext|>",
        settings={"seed": 1, "fraction": 0.1},
        inputs=(InputRecord("a.txt", 31, SHA, "train"), InputRecord("-", None, None, "train")),
        report={"documents": 3},
    )


def changed(path: str, value: Any) -> bytes:
    """The example with one value changed and a right sha256 again."""
    document = json.loads(example().to_json())
    document.pop("sha256")
    *parents, last = path.split(".")
    place = document
    for name in parents:
        place = place[int(name) if isinstance(place, list) else name]
    place[last] = value
    return dump_json(document | {"sha256": hashlib.sha256(dump_json(document)).hexdigest()})


def test_there_and_back() -> None:
    data = example().to_json()
    assert Manifest.from_json(data) == example()
    assert Manifest.from_json(data).to_json() == data
    assert json.loads(data)["splits"]["train"]["tokens"] == 15


def test_every_flipped_bit_is_noticed() -> None:
    data = example().to_json()
    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1 << place % 8
        with pytest.raises(FormatError, match=r"manifest\.json"):
            Manifest.from_json(bytes(flipped))


def test_every_cut_is_noticed() -> None:
    data = example().to_json()
    for length in range(len(data)):
        with pytest.raises(FormatError, match=r"manifest\.json"):
            Manifest.from_json(data[:length])


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("format", "tokenmill tokenizer", "not `tokenmill dataset`"),
        ("format_version", 2, "reads up to 1"),
        ("layout", "parquet", "at `layout`: expected one of npy, bin"),
        ("mode", 3, "at `mode`: expected a string, found `3`"),
        ("dtype", "float32", "at `dtype`"),
        ("splits.train.tokens", 16, "is 16, its shards have 15"),
        ("splits.train.tokens", -1, "expected a count"),
        ("splits.train.shards.0.files.tokens.sha256", "abc", "64 hex digits"),
        ("splits.train.shards.0.files.tokens.path", "../x.npy", "leads out of the folder"),
        ("splits.train.shards.0.files.tokens.path", "/x.npy", "is not relative"),
        ("splits.train.shards.0.files.tokens.size", True, "expected a whole number"),
        ("splits.train.shards.0.files", {}, "key `tokens` is missing"),
        ("splits", {"holdout": {}}, "`holdout` is no split"),
        ("inputs", {}, "expected a list"),
        ("tokenizer.special_tokens", {"<|eos|>": "1"}, "expected a whole number"),
    ],
)
def test_what_is_wrong_is_named(path: str, value: Any, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        Manifest.from_json(changed(path, value))


@pytest.mark.parametrize(
    "path",
    [
        "tokens",
        "documents",
        "bytes",
        "files",
        *(f"files.tokens.{k}" for k in ("path", "size", "sha256")),
    ],
)
@pytest.mark.parametrize("value", [None, True, -1, 1.5, [], {}, "/", "A" * 64, "0" * 64 + "\n"])
def test_whatever_is_odd_in_a_shard_is_named(path: str, value: Any) -> None:
    """However quickly shards are looked at."""
    if path.endswith("path") and isinstance(value, str) and value != "/":
        value = value.encode().hex() + "/"
    with pytest.raises(FormatError, match=rf"at `splits\.train\.shards\[1\]\.{re.escape(path)}`: "):
        Manifest.from_json(changed(f"splits.train.shards.1.{path}", value))


@pytest.mark.parametrize(
    "path",
    ["", "/a", "../a", "a/../../b", "a/..", "a//b", "./a", "a/", "C:/a", "a\\b", "a\0b", ".."],
)
def test_paths_that_are_not_inside(path: str) -> None:
    assert check_relative(path) is not None


def test_paths_that_are_inside() -> None:
    for path in ("a", "a/b.npy", "..a/b..", "a b/ü"):
        assert check_relative(path) is None


def test_a_dataset_without_one(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) is None
    assert read_manifest(tmp_path / "x.npy") is None
    (tmp_path / "x.npy").write_bytes(b"")
    (tmp_path / "x.npy.manifest.json").write_bytes(example().to_json())
    assert read_manifest(tmp_path / "x.npy") == example()
