"""What an address says, what a glob matches, which names are safe, and how long to wait."""

import glob
import os
import re
from pathlib import Path

import pytest
from loopback import Fault, Server

from tokenmill.errors import ConfigError, SourceError
from tokenmill.storage.address import parse_address, require_address
from tokenmill.storage.hub import HubDataset
from tokenmill.storage.listing import glob_regex
from tokenmill.storage.names import refusal, require_safe_path
from tokenmill.storage.remote import Interruption, RemoteState, store_of


def test_web_addresses_hide_what_is_secret() -> None:
    address = require_address("HTTPS://me:pass%40word@Example.com:8443/a%20b/c.txt?sig=1&x=2#part")
    assert address.shown == "https://example.com:8443/a%20b/c.txt"
    assert address.url == "https://example.com:8443/a%20b/c.txt?sig=1&x=2"
    assert address.name == "c.txt"
    assert address.user == "me:pass%40word"
    assert require_address("http://h/a%2Fb.txt").name == "a/b.txt"
    assert require_address("http://[::1]:80/x").place == "[::1]:80"
    assert not require_address("http://h/*.txt").is_pattern


def test_hub_addresses() -> None:
    address = require_address("hf://datasets/owner/name@refs/convert/parquet/a/*.parquet")
    assert (address.path, address.is_pattern, address.fixed_folder) == ("a/*.parquet", True, "a")
    assert HubDataset.of(address).revision == "refs/convert/parquet"
    assert HubDataset.of(require_address("hf://datasets/o/n@v1.0/x")).revision == "v1.0"
    assert (
        HubDataset.of(require_address("hf://datasets/o/n@refs%2Fpr%2F1/x")).revision == "refs/pr/1"
    )
    plain = require_address("hf://datasets/o/n")
    assert (plain.path, HubDataset.of(plain).revision) == ("", "main")
    assert HubDataset("o/n", "refs/pr/1").address("x").shown == "hf://datasets/o/n@refs%2Fpr%2F1/x"


def test_buckets_and_folders() -> None:
    address = require_address("s3://bucket/a/b?c#d.txt")
    assert (address.place, address.path) == ("bucket", "a/b?c#d.txt")
    assert address.below("x y").path == "a/b?c#d.txt/x y"
    assert require_address("http://h/base/").below("x y#z").url == "http://h/base/x%20y%23z"


@pytest.mark.parametrize("text", ["data/a.txt", "C:\\data", "a:/b", "no scheme", "a-b://x"])
def test_paths_are_no_addresses(text: str) -> None:
    assert parse_address(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "ftp://h/x",
        "http://",
        "http://h:99999/x",
        "http://h/a b",
        "s3://",
        "hf://x/y/z",
        "hf://datasets/o",
    ],
)
def test_broken_addresses_are_named(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_address(text)
    with pytest.raises(ConfigError, match="no address"):
        require_address("data/a.txt")


@pytest.mark.parametrize(
    "pattern",
    ["*.txt", "a/*.txt", "**/*.txt", "a/**", "?.txt", "[ab]/x.txt", "[!a]/x.txt", "a/b/*", "*"],
)
def test_globs_match_as_they_do_here(tmp_path: Path, pattern: str) -> None:
    paths = ["x.txt", "ab.txt", "a/x.txt", "a/b/x.txt", "b/x.txt", "a/b/c/y.jsonl", "a.b/x.txt"]
    for path in paths:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    found = glob.glob(pattern, root_dir=tmp_path, recursive=True)
    here = sorted(path for path in found if os.path.isfile(tmp_path / path))
    matches = re.compile(glob_regex(pattern)).fullmatch
    assert sorted(path for path in paths if matches(path)) == here


def test_plain_names_are_fine() -> None:
    for name in (
        "a.txt",
        "train-00000-of-00004.parquet",
        "Größe.txt",
        "日本語.jsonl",
        "a b (1).txt",
    ):
        assert refusal(name) is None
        assert require_safe_path(f"data/{name}", "x") == f"data/{name}"
    with pytest.raises(SourceError, match=r"the listing names a file 'a/\.\./b'"):
        require_safe_path("a/../b", "the listing")


def test_versions_are_compared_by_the_best_evidence() -> None:
    known = RemoteState(5, '"a"', "date", "f" * 64)
    assert known.is_same_version(RemoteState(5, '"b"', "other", "f" * 64))
    assert not known.is_same_version(RemoteState(5, '"a"', "date", "0" * 64))
    assert not known.is_same_version(RemoteState(6, '"a"'))
    assert known.is_same_version(RemoteState(None, 'W/"a"'))
    assert not known.is_same_version(RemoteState(5, '"b"'))
    assert RemoteState(5, 'W/"a"').validator is None
    assert RemoteState(5, 'W/"a"', "date").validator == "date"


@pytest.mark.parametrize(("asked", "seconds"), [("7", 7.0), ("²", None), ("9" * 5000, None)])
def test_a_busy_server_says_how_long(server: Server, asked: str, seconds: float | None) -> None:
    address = require_address(server.add("a.txt", b"x"))
    headers = {"Retry-After": asked.encode().decode("latin-1")}
    server.fail("a.txt", Fault(status=429, headers=headers, head=True))
    with pytest.raises(Interruption, match="429") as raised:
        store_of(address).stat(address)
    assert raised.value.wait_seconds == seconds
