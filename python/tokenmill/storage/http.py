"""Objects on web servers: HEAD for what they are, GET with Range and If-Range for their bytes.

Redirects are followed here and not by urllib: a password or token goes to the host it was meant for
and to no other, a redirect leads nowhere but to http(s), and never from https to http. What a server
states about a file's content (`X-Linked-Etag`, `x-amz-checksum-sha256`, `Repr-Digest`) is taken from
whichever hop states it.
"""

import base64
import binascii
import contextlib
import http.client
import re
import socket
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, replace
from email.message import Message
from typing import Any

from tokenmill import _core
from tokenmill.errors import ConfigError, SourceError
from tokenmill.storage.address import Address
from tokenmill.storage.remote import Changed, Interruption, OutOfRange, RemoteState
from tokenmill.storage.retries import asked_seconds

TIMEOUT_SECONDS = 30.0
MAX_REDIRECTS = 8
_BUSY = {408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524}
_REDIRECTS = {301, 302, 303, 307, 308}
_NO_HEAD = {400, 403, 405, 501}
_HEX = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Answer:
    """A response whose body was not read yet."""

    status: int
    headers: Message
    body: Any
    stated_sha256: str | None
    """By any hop on the way here."""
    linked_size: int | None
    commit: str | None
    """Of the repository, as the Hub states it."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_NoRedirects)


def send(
    method: str,
    url: str,
    headers: Mapping[str, str],
    *,
    secret: Mapping[str, str] | None = None,
    stay_on_host: bool = False,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> Answer:
    """The answer at the end of all redirects. `secret` headers go to the first host only; with
    `stay_on_host` the redirect that would leave it is the answer."""
    first = _origin(url)
    stated = linked_size = commit = None
    for _ in range(MAX_REDIRECTS + 1):
        own = dict(secret or {}) if _origin(url) == first else {}
        status, fields, body = _send_once(method, url, {**headers, **own}, timeout_seconds)
        stated = stated or _stated_sha256(fields)
        linked_size = _number(fields.get("X-Linked-Size")) if linked_size is None else linked_size
        commit = commit or fields.get("X-Repo-Commit")
        target = fields.get("Location")
        if status not in _REDIRECTS or target is None:
            return Answer(status, fields, body, stated, linked_size, commit)
        following = urllib.parse.urljoin(url, target)
        if stay_on_host and _origin(following) != first:
            return Answer(status, fields, body, stated, linked_size, commit)
        body.close()
        _require_web(url, following)
        url = following
    raise SourceError(f"`{_shown(url)}` is redirected more than {MAX_REDIRECTS} times")


def _send_once(
    method: str, url: str, headers: Mapping[str, str], timeout_seconds: float
) -> tuple[int, Message, Any]:
    request = urllib.request.Request(url, method=method)
    request.add_header("User-Agent", f"tokenmill/{_core.__version__}")
    request.add_header("Accept-Encoding", "identity")
    for name, value in headers.items():
        request.add_unredirected_header(name, value)
    try:
        response = _opener().open(request, timeout=timeout_seconds)
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error
    except urllib.error.URLError as error:
        raise _unreachable(url, error.reason) from error
    except http.client.InvalidURL as error:
        raise ConfigError(f"`{_shown(url)}` is no web address: {error}") from error
    except (OSError, http.client.HTTPException) as error:
        raise _unreachable(url, error) from error
    return response.status, response.headers, response


def _unreachable(url: str, reason: object) -> Exception:
    host = urllib.parse.urlsplit(url).hostname
    if isinstance(reason, ssl.SSLCertVerificationError):
        return SourceError(f"`{host}` cannot be trusted: {reason.verify_message}")
    if isinstance(reason, socket.gaierror):
        return Interruption(f"the name `{host}` cannot be looked up")
    if isinstance(reason, TimeoutError):
        return Interruption(f"`{host}` does not answer")
    return Interruption(f"`{host}` cannot be reached: {reason or type(reason).__name__}")


def _require_web(before: str, after: str) -> None:
    old, new = urllib.parse.urlsplit(before), urllib.parse.urlsplit(after)
    if new.scheme not in ("http", "https") or not new.hostname:
        raise SourceError(
            f"`{_shown(before)}` is redirected to `{_shown(after)}`, which is no web address"
        )
    if (old.scheme, new.scheme) == ("https", "http"):
        raise SourceError(f"`{_shown(before)}` is redirected from https to `{_shown(after)}`")


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urllib.parse.urlsplit(url)
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname, parts.port or default


def _shown(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit(
        (parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")
    )


def require_success(answer: Answer, shown: str) -> None:
    """Raise what an answer other than 200 and 206 means."""
    status = answer.status
    if status in (200, 206):
        return
    answer.body.close()
    if status in _BUSY:
        wait = asked_seconds(answer.headers.get("Retry-After"))
        raise Interruption(f"the server answers {status} ({_reason(status)})", wait)
    if status == 412:
        raise Changed(shown)
    if status == 416:
        raise OutOfRange(_number(str(answer.headers.get("Content-Range")).rpartition("/")[2]))
    if status in (404, 410):
        raise SourceError(
            f"`{shown}` does not exist: the server answers {status} ({_reason(status)})"
        )
    hint = "does it need a login?" if status in (401, 403) else None
    if shown.startswith("hf://") and status in (401, 403):
        hint = "set `HF_TOKEN`; a gated dataset also asks for consent on its page"
    raise SourceError(
        f"`{shown}` is refused: the server answers {status} ({_reason(status)})", hint
    )


def _reason(status: int) -> str:
    return http.client.responses.get(status, "no standard status")


class HttpBody:
    """The body of an answer."""

    def __init__(self, answer: Answer, shown: str, start: int) -> None:
        self._body = answer.body
        self._shown = shown
        fields = answer.headers
        self._left = _number(fields.get("Content-Length"))
        self.start, size = 0, self._left
        if answer.status == 206:
            self.start, self._left, size = _content_range(fields, shown, self._left)
            if self.start != start:
                self.close()
                raise Interruption(f"asked for byte {start:,}, the server sends {self.start:,}")
        self.state = RemoteState(
            size, fields.get("ETag"), fields.get("Last-Modified"), answer.stated_sha256
        )

    def read(self, size: int, /) -> bytes:
        try:
            # `read1` hands over what is there: a process that is killed has then lost next to nothing.
            block: bytes = self._body.read1(size if self._left is None else min(size, self._left))
        except (OSError, http.client.HTTPException) as error:
            reason = (
                "the connection was cut" if not isinstance(error, TimeoutError) else "no bytes came"
            )
            raise Interruption(reason) from error
        if self._left is not None:
            if not block and self._left > 0:
                raise Interruption(f"the connection was cut {self._left:,} bytes before the end")
            self._left -= len(block)
        return block

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._body.close()


def _content_range(fields: Message, shown: str, length: int | None) -> tuple[int, int, int | None]:
    match = re.fullmatch(
        r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18}|\*)",
        str(fields.get("Content-Range")).strip(),
    )
    if match is None:
        raise SourceError(f"`{shown}`: the server sends a part without saying which")
    first, last = int(match[1]), int(match[2])
    if length is not None and length != last - first + 1:
        raise Interruption("the server sends another number of bytes than it says")
    return first, last - first + 1, _number(match[3])


class HttpStore:
    """Any web server."""

    def stat(self, address: Address) -> RemoteState:
        return stat_url(address.url, address.shown, _secret(address))

    def open(
        self,
        address: Address,
        start: int = 0,
        end: int | None = None,
        validator: str | None = None,
    ) -> HttpBody:
        return open_url(address.url, address.shown, _secret(address), start, end, validator)

    def find(self, folder: Address) -> list[tuple[Address, RemoteState]]:
        raise ConfigError(
            f"`{folder.shown}` cannot be listed: web servers have no common way to ask for that",
            "name the files one by one, or in a text file with one address on each line",
        )


def stat_url(url: str, shown: str, secret: Mapping[str, str], *, hub: bool = False) -> RemoteState:
    """What the server says about the object at `url`. The Hub answers for what it redirects to."""
    answer = send("HEAD", url, {}, secret=secret, stay_on_host=hub)
    answer.body.close()
    if hub and answer.status in _REDIRECTS:
        return RemoteState(answer.linked_size, None, None, answer.stated_sha256)
    if answer.status in _NO_HEAD:
        return _stat_by_get(url, shown, secret)
    require_success(answer, shown)
    fields = answer.headers
    sha256 = answer.stated_sha256 or (_sha256_etag(fields) if hub else None)
    size = (
        _number(fields.get("Content-Length")) if answer.linked_size is None else answer.linked_size
    )
    return RemoteState(size, fields.get("ETag"), fields.get("Last-Modified"), sha256)


def _stat_by_get(url: str, shown: str, secret: Mapping[str, str]) -> RemoteState:
    """For servers that refuse HEAD, as signed addresses do: ask for one byte and look at the rest."""
    try:
        body = open_url(url, shown, secret, 0, 1, None)
    except OutOfRange as empty:
        return RemoteState(empty.size or 0)
    body.close()
    return body.state


def open_url(
    url: str,
    shown: str,
    secret: Mapping[str, str],
    start: int,
    end: int | None,
    validator: str | None,
    *,
    hub: bool = False,
) -> HttpBody:
    headers: dict[str, str] = {}
    if start > 0 or end is not None:
        headers["Range"] = f"bytes={start}-{'' if end is None else end - 1}"
        if validator is not None:
            headers["If-Range"] = validator
    answer = send("GET", url, headers, secret=secret)
    require_success(answer, shown)
    body = HttpBody(answer, shown, start)
    if hub and body.state.sha256 is None:
        body.state = replace(body.state, sha256=_sha256_etag(answer.headers))
    return body


def _secret(address: Address) -> dict[str, str]:
    if not address.user:
        return {}
    plain = urllib.parse.unquote(address.user).encode()
    return {"Authorization": f"Basic {base64.b64encode(plain).decode()}"}


def _stated_sha256(fields: Message) -> str | None:
    linked = (fields.get("X-Linked-Etag") or "").strip('"').lower()
    if _HEX.fullmatch(linked):
        return linked
    encoded = fields.get("x-amz-checksum-sha256")
    for name in ("Repr-Digest", "Digest"):
        found = re.search(
            r"sha-256=:?([A-Za-z0-9+/=]{44}):?", fields.get(name) or "", re.IGNORECASE
        )
        encoded = encoded or (found[1] if found else None)
    try:
        raw = base64.b64decode(encoded or "", validate=True)
    except binascii.Error:  # the checksum of a multi-part upload, which is none of the content
        return None
    return raw.hex() if len(raw) == 32 else None


def _sha256_etag(fields: Message) -> str | None:
    """The Hub's own ETag of a large file is its sha256; that of a small one is another hash."""
    etag = (fields.get("ETag") or "").removeprefix("W/").strip('"').lower()
    return etag if _HEX.fullmatch(etag) else None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"\s*[0-9]{1,18}\s*", text) else None
