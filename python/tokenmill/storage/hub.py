"""Datasets on the Hugging Face Hub, over plain HTTP: `hf://datasets/OWNER/NAME[@REVISION]/path`.

`HF_ENDPOINT` says where the Hub is, `HF_TOKEN` who is asking; the token goes to that host alone. The
Hub states the sha256 of every large file, so every large file is checked. Its listings are somebody
else's words: whoever writes files under names from there checks them first (names.py).
"""

import json
import os
import re
import urllib.parse
from dataclasses import dataclass
from typing import Any, cast

from tokenmill.errors import ConfigError, SourceError
from tokenmill.storage.address import Address
from tokenmill.storage.http import (
    Answer,
    HttpBody,
    open_url,
    require_success,
    send,
    stat_url,
)
from tokenmill.storage.remote import Interruption, RemoteState

HUB = "https://huggingface.co"
DEFAULT_REVISION = "main"
MAX_PAGE_BYTES = 1 << 26
MAX_PAGES = 1_000


def endpoint() -> str:
    """Where the Hub is: `HF_ENDPOINT`, or the public one."""
    given = os.environ.get("HF_ENDPOINT") or HUB
    if urllib.parse.urlsplit(given).scheme not in ("http", "https"):
        raise ConfigError(f"`HF_ENDPOINT` is `{given}`, which is no web address")
    return given.rstrip("/")


def _secret() -> dict[str, str]:
    token = os.environ.get("HF_TOKEN", "").strip()
    return {"Authorization": f"Bearer {token}"} if token else {}


@dataclass(frozen=True)
class HubDataset:
    """A dataset repository at one revision."""

    repository: str
    revision: str = DEFAULT_REVISION

    @staticmethod
    def of(address: Address) -> "HubDataset":
        repository, _, revision = address.place.removeprefix("datasets/").partition("@")
        return HubDataset(repository, urllib.parse.unquote(revision) or DEFAULT_REVISION)

    def address(self, path: str = "") -> Address:
        revision = "" if self.revision == DEFAULT_REVISION else f"@{_quoted(self.revision)}"
        return Address("hf", f"datasets/{self.repository}{revision}", path)

    def url(self, path: str) -> str:
        revision, path = _quoted(self.revision), urllib.parse.quote(path)
        return f"{endpoint()}/datasets/{self.repository}/resolve/{revision}/{path}"

    def api(self, what: str, path: str = "") -> str:
        tail = f"/{urllib.parse.quote(path)}" if path else ""
        return f"{endpoint()}/api/datasets/{self.repository}/{what}/{_quoted(self.revision)}{tail}"

    def at_commit(self) -> "HubDataset":
        """The same dataset at the commit its revision names now, so that all files that are read
        belong together."""
        if re.fullmatch(r"[0-9a-f]{40}", self.revision):
            return self
        answer = send("GET", self.api("revision"), {}, secret=_secret())
        found = _json(answer, self.address().shown)
        commit = cast("dict[str, object]", found).get("sha") if isinstance(found, dict) else None
        if not isinstance(commit, str) or not re.fullmatch(r"[0-9a-f]{40}", commit):
            raise SourceError(f"the Hub names no commit of `{self.address().shown}`")
        return HubDataset(self.repository, commit)


def _quoted(revision: str) -> str:
    return urllib.parse.quote(revision, safe="")


class HubStore:
    """The Hub."""

    def stat(self, address: Address) -> RemoteState:
        url = HubDataset.of(address).url(address.path)
        return stat_url(url, address.shown, _secret(), hub=True)

    def open(
        self,
        address: Address,
        start: int = 0,
        end: int | None = None,
        validator: str | None = None,
    ) -> HttpBody:
        url = HubDataset.of(address).url(address.path)
        return open_url(url, address.shown, _secret(), start, end, validator, hub=True)

    def find(self, folder: Address, *, recursive: bool = True) -> list[tuple[Address, RemoteState]]:
        dataset = HubDataset.of(folder)
        url: str | None = dataset.api("tree", folder.path.strip("/"))
        url += f"?recursive={'true' if recursive else 'false'}&expand=false"
        found: list[tuple[Address, RemoteState]] = []
        for _ in range(MAX_PAGES):
            answer = send("GET", url, {}, secret=_secret())
            entries = _json(answer, folder.shown)
            if not isinstance(entries, list):
                raise SourceError(f"the Hub's listing of `{folder.shown}` is no list")
            found.extend(_files(folder, cast("list[Any]", entries)))
            url = _next_page(answer)
            if url is None:
                return sorted(found, key=lambda each: each[0].path)
        raise SourceError(f"the Hub's listing of `{folder.shown}` does not end")


def _files(folder: Address, entries: list[Any]) -> list[tuple[Address, RemoteState]]:
    found: list[tuple[Address, RemoteState]] = []
    for each in entries:
        entry = cast("dict[str, Any]", each) if isinstance(each, dict) else {}
        if entry.get("type") != "file":
            continue
        path, size = entry.get("path"), entry.get("size")
        if not isinstance(path, str) or not isinstance(size, int) or size < 0:
            raise SourceError(f"the Hub's listing of `{folder.shown}` has an entry without a path")
        large = entry.get("lfs")
        oid = str(cast("dict[str, Any]", large).get("oid")) if isinstance(large, dict) else ""
        sha256 = oid.removeprefix("sha256:").lower()
        if re.fullmatch(r"[0-9a-f]{64}", sha256):
            state = RemoteState(size, sha256=sha256)
        else:  # a small file: its ETag is what git calls it
            state = RemoteState(size, etag=f'"{entry["oid"]}"' if "oid" in entry else None)
        found.append((folder.at(path), state))
    return found


def _json(answer: Answer, shown: str) -> object:
    require_success(answer, shown)
    try:
        data = answer.body.read(MAX_PAGE_BYTES + 1)
    except OSError as error:
        raise Interruption(f"the answer was cut: {error}") from error
    finally:
        answer.body.close()
    if len(data) > MAX_PAGE_BYTES:
        raise SourceError(
            f"the Hub's answer about `{shown}` is larger than {MAX_PAGE_BYTES:,} bytes"
        )
    try:
        return json.loads(data)
    except ValueError as error:
        raise Interruption(f"the Hub's answer about `{shown}` is no JSON") from error


def _next_page(answer: Answer) -> str | None:
    match = re.search(r'<([^>]+)>;\s*rel="next"', answer.headers.get("Link") or "")
    if match is None:
        return None
    # The token goes along, so whatever host the link names, the page is asked of the Hub's own: a
    # mirror may pass on links of the original.
    page, hub = urllib.parse.urlsplit(match[1]), urllib.parse.urlsplit(endpoint())
    return urllib.parse.urlunsplit((hub.scheme, hub.netloc, page.path, page.query, ""))
