"""File names from servers that want to be written somewhere else: none is."""

import os
import string
import urllib.parse
from pathlib import Path

import pytest
from loopback import Hub, Server

from tokenmill.errors import TokenmillError
from tokenmill.pull.run import prepare_pull
from tokenmill.storage.names import refusal
from tokenmill.storage.retries import Patience

QUICK = Patience(retries=0, first_seconds=0.001)
UP = ["..", "../..", "../../..", "./..", "a/../..", "a/b/../../..", "..//..", "....//.."]
SEPARATORS = ["/", "\\", "\\\\", "//", "/./", "%2f", "%5c", "\u2215\u0000/", ":", "\x00"]
HOSTILE = sorted(
    {
        *(f"{up}{separator}evil.txt" for up in UP for separator in SEPARATORS),
        *(f"data/{up}/evil.txt" for up in UP),
        *(f"{up.replace('/', chr(92))}\\evil.txt" for up in UP),
        "/etc/cron.d/evil.txt",
        "//host/share/evil.txt",
        "\\\\host\\share\\evil.txt",
        "C:evil.txt",
        "C:\\evil.txt",
        "c:/evil.txt",
        "file:///etc/evil.txt",
        "~/evil.txt",
        "~root/evil.txt",
        "-rf",
        "--to=x",
        ".bashrc",
        ".ssh/authorized_keys",
        ".pull/record.jsonl",
        ".pull/lock",
        ".git/hooks/post-checkout",
        "pull.json/../../evil.txt",
        "evil.txt\n",
        "evil\r\n.txt",
        "evil.txt\x00.parquet",
        "evil.txt.part",
        "evil.txt.partial",
        "evil.txt.",
        "evil.txt ",
        " evil.txt",
        "evil\u202etxt.exe",
        "evil\u200b.txt",
        "evil\ufeff.txt",
        "evil\u2028.txt",
        "e" * 300 + ".txt",
        "d" * 300 + "/evil.txt",
        "a//b.txt",
        "a/",
        "a/./b.txt",
        *(f"evil{letter}.txt" for letter in '<>:"|?*' + "".join(map(chr, range(32)))),
        *(
            f"{name}{end}"
            for name in ("con", "PRN", "aux", "NUL", "COM1", "lpt9")
            for end in ("", ".txt")
        ),
        *(f"{letter}:evil.txt" for letter in string.ascii_letters),
    }
)


def everything_below(folder: Path) -> set[str]:
    return {
        os.path.relpath(os.path.join(parent, name), folder)
        for parent, _, names in os.walk(folder)
        for name in names
    }


def test_there_are_enough() -> None:
    assert len(HOSTILE) >= 200
    assert all(
        any(refusal(part) for part in name.split("/")) for name in HOSTILE if "%" not in name
    )


def test_names_in_a_listing(hub: Hub, tmp_path: Path) -> None:
    """One at a time in a listing of the Hub: refused, or written inside the folder and nowhere else."""
    outside = everything_below(tmp_path)
    for number, name in enumerate(HOSTILE):
        hub.files = {"evil/data": {name: b"evil"}}
        out = tmp_path / "a/b/c" / str(number)
        with pytest.raises(TokenmillError):
            prepare_pull("hf://datasets/evil/data", out, patience=QUICK, progress=False).run()
        assert everything_below(tmp_path) == outside, name
    assert not list(tmp_path.parent.glob("evil*"))


def test_names_in_addresses(server: Server, tmp_path: Path) -> None:
    """The same at the end of a web address, percent-encoded as a whole or as it is."""
    allowed: list[str] = []
    for number, name in enumerate(HOSTILE):
        for path in (urllib.parse.quote(name, safe=""), urllib.parse.quote(name, safe="/")):
            server.pages.clear()
            server.add(name, b"evil")
            out = tmp_path / "a/b/c" / str(number)
            try:
                prepare_pull(f"{server.url}/x/{path}", out, patience=QUICK, progress=False).run()
                allowed.append(name)
            except TokenmillError:
                pass
            inside = everything_below(out) if out.exists() else set()
            assert inside <= {"evil.txt", "pull.json", ".pull/record.jsonl", ".pull/lock"}, name
    assert everything_below(tmp_path) == {
        each for each in everything_below(tmp_path) if each.startswith("a/b/c/")
    }


def test_content_disposition_is_ignored(server: Server, tmp_path: Path) -> None:
    for header in (
        'attachment; filename="../../evil.txt"',
        "attachment; filename*=UTF-8''%2e%2e%2fevil",
    ):
        url = server.add("good.txt", b"text", extra_headers={"Content-Disposition": header})
        prepare_pull(url, tmp_path / "out", patience=QUICK, progress=False).run()
        assert everything_below(tmp_path) == {
            "out/good.txt",
            "out/pull.json",
            "out/.pull/record.jsonl",
            "out/.pull/lock",
        }


def test_a_lying_listing_ends(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages that lead to another host, entries that are none, and listings that are no lists."""
    for body, match in (
        (b"{}", "is no list"),
        (b'[{"type": "file", "path": 3, "size": 1}]', "without a path"),
        (b'[{"type": "file", "path": "x"}]', "without a path"),
        (b"not json", "no JSON"),
    ):
        monkeypatch.setattr(
            hub,
            "answer",
            lambda request, body=body: (
                (200, {}, body) if "/tree/" in request.path else (404, {}, b"")
            ),
        )
        with pytest.raises(TokenmillError) as raised:
            prepare_pull("hf://datasets/o/n/*.txt", tmp_path, patience=QUICK, progress=False)
        assert match in str(raised.value)
    link = {"Link": '<http://evil.example/api/more?cursor=1>; rel="next"'}
    monkeypatch.setattr(hub, "answer", lambda request: (200, link, b"[]"))
    monkeypatch.setattr("tokenmill.storage.hub.MAX_PAGES", 5)
    with pytest.raises(TokenmillError, match="does not end"):
        prepare_pull("hf://datasets/o/n/*.txt", tmp_path, patience=QUICK, progress=False)
    assert [each.path for each in hub.requests[-2:]] == ["/api/more?cursor=1"] * 2
