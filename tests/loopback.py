"""Web servers on this machine for the tests: a plain one with every fault a download can meet, and a Hub.

A fault is asked for by the test and used up by one request each. What was asked and how many bytes went
out is recorded, so that tests can tell what was fetched twice.
"""

import base64
import contextlib
import hashlib
import http.server
import json
import re
import threading
import time
import urllib.parse
from collections.abc import Generator
from dataclasses import dataclass, field
from http import HTTPStatus

BLOCK = 1 << 14


@dataclass
class Fault:
    """What the next GET of a path (or HEAD, if `head`) meets instead of its due."""

    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None
    """The connection ends after this many bytes of the body."""
    flip_at: int | None = None
    """This byte of the file is changed, whatever range is asked for."""
    ignore_range: bool = False
    replace_by: bytes | None = None
    """From this request on the file has another content, and another ETag."""
    head: bool = False


@dataclass
class Page:
    """One file on a server."""

    content: bytes
    has_etag: bool = True
    has_date: bool = False
    has_length: bool = True
    ignores_range: bool = False
    ignores_if_range: bool = False
    no_head: bool = False
    sha256_header: str | None = None
    """The name of the header that states the sha256."""
    extra_headers: dict[str, str] = field(default_factory=dict)
    redirect: str | None = None
    login: str | None = None
    """The Authorization header without which the answer is 401."""

    @property
    def etag(self) -> str:
        return f'"{hashlib.md5(self.content).hexdigest()}"'

    def headers(self) -> dict[str, str]:
        found = dict(self.extra_headers)
        if self.has_etag:
            found["ETag"] = self.etag
        if self.has_date:
            found["Last-Modified"] = "Mon, 16 Nov 2026 05:00:00 GMT"
        if self.sha256_header is not None:
            digest = base64.b64encode(hashlib.sha256(self.content).digest()).decode()
            plain = self.sha256_header.startswith("x-amz")
            found[self.sha256_header] = digest if plain else f"sha-256=:{digest}:"
        return found


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""


class Server:
    """A web server on a port of its own."""

    def __init__(self) -> None:
        self.pages: dict[str, Page] = {}
        self.faults: dict[str, list[Fault]] = {}
        self.requests: list[Request] = []
        self.bytes_sent: dict[str, int] = {}
        self.bytes_a_second: float | None = None
        self.lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"owner": self})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        # A client that is killed is no news.
        self._server.handle_error = lambda request, client_address: None
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def add(self, path: str, content: bytes, **more: object) -> str:
        """Put a file at `path`; its address."""
        self.pages[f"/{path}"] = Page(content, **more)  # pyright: ignore[reportArgumentType]
        return f"{self.url}/{urllib.parse.quote(path)}"

    def fail(self, path: str, *faults: Fault) -> None:
        self.faults.setdefault(f"/{path}", []).extend(faults)

    def asked(self, method: str, path: str | None = None) -> list[Request]:
        return [
            each
            for each in self.requests
            if each.method == method and path in (None, each.path.removeprefix("/"))
        ]

    def take_fault(self, path: str, is_head: bool) -> Fault:
        with self.lock:
            for index, fault in enumerate(self.faults.get(path, [])):
                if fault.head == is_head:
                    return self.faults[path].pop(index)
        return Fault()

    def answer(self, request: Request) -> tuple[int, dict[str, str], bytes] | None:
        """For servers that are more than files; `None` leaves it to the pages."""
        return None

    def sent(self, path: str, num_bytes: int) -> None:
        with self.lock:
            self.bytes_sent[path] = self.bytes_sent.get(path, 0) + num_bytes

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    owner: Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.respond()

    def do_GET(self) -> None:
        self.respond()

    def respond(self) -> None:
        self.close_connection = True
        # To a proxy clients send whole addresses.
        self.path = re.sub(r"^http://[^/]+", "", self.path)
        path = urllib.parse.unquote(self.path.partition("?")[0])
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, self.path if "?" in self.path else path, headers)
        with self.owner.lock:
            self.owner.requests.append(request)
        made = self.owner.answer(request)
        if made is not None:
            self.send(*made)
            return
        fault = self.owner.take_fault(path, self.command == "HEAD")
        page = self.owner.pages.get(path)
        if fault.replace_by is not None and page is not None:
            page.content = fault.replace_by
        if fault.status is not None:
            self.send(fault.status, fault.headers, b"")
        elif page is None:
            self.send(404, {}, b"")
        elif page.redirect is not None:
            self.send(302, {**page.extra_headers, "Location": page.redirect}, b"")
        elif page.login is not None and headers.get("authorization") != page.login:
            self.send(401, {}, b"")
        elif page.no_head and self.command == "HEAD":
            self.send(405, {}, b"")
        else:
            self.send_page(path, page, fault, headers)

    def send_page(self, path: str, page: Page, fault: Fault, headers: dict[str, str]) -> None:
        content = page.content
        if fault.flip_at is not None:
            changed = bytearray(content)
            changed[fault.flip_at] ^= 1
            content = bytes(changed)
        status, start, end = 200, 0, len(content)
        fields = page.headers()
        if headers.get("if-match") not in (None, fields.get("ETag")):
            self.send(412, {}, b"")
            return
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", headers.get("range", ""))
        valid = headers.get("if-range") in (None, fields.get("ETag"), fields.get("Last-Modified"))
        if (
            wanted
            and not (page.ignores_range or fault.ignore_range)
            and (valid or page.ignores_if_range)
        ):
            start = int(wanted[1])
            end = min(end, int(wanted[2]) + 1) if wanted[2] else end
            if start >= len(content):
                self.send(416, {**fields, "Content-Range": f"bytes */{len(content)}"}, b"")
                return
            status = 206
            fields["Content-Range"] = f"bytes {start}-{end - 1}/{len(content)}"
        if page.has_length:
            fields["Content-Length"] = str(end - start)
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.send_body(path, content[start:end], fault.cut_after)

    def send_body(self, path: str, body: bytes, cut_after: int | None) -> None:
        body = body[:cut_after]
        speed = self.owner.bytes_a_second
        for offset in range(0, len(body), BLOCK):
            block = body[offset : offset + BLOCK]
            # Counted before: a client that has all of it may ask at once how much was sent.
            self.owner.sent(path, len(block))
            self.wfile.write(block)
            if speed is not None:
                time.sleep(len(block) / speed)

    def send(self, status: int, fields: dict[str, str], body: bytes) -> None:
        self.send_response(status, HTTPStatus(status).phrase if status < 520 else "Odd")
        for name, value in {**fields, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE_BYTES = 64
"""Files from this size on are kept elsewhere, as the Hub keeps its large ones."""


class Hub(Server):
    """A Hub with a second host for large files, as the real one has."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, dict[str, bytes]] = {}
        """Dataset → path → content."""
        self.storage = Server()
        self.page_entries = 1000
        self.has_api = True
        self.token: str | None = None

    def add_dataset(self, name: str, files: dict[str, bytes]) -> None:
        self.files.setdefault(name, {}).update(files)
        for path, content in files.items():
            if len(content) >= LARGE_BYTES:
                self.storage.add(f"{name}/{path}", content)

    def answer(self, request: Request) -> tuple[int, dict[str, str], bytes] | None:
        if self.token and request.headers.get("authorization") != f"Bearer {self.token}":
            return 401, {}, b""
        path, _, query = request.path.partition("?")
        if match := re.fullmatch(r"/api/datasets/([^/]+/[^/]+)/revision/([^/]+)", path):
            if not self.has_api or match[1] not in self.files:
                return 404, {}, b""
            return 200, {}, json.dumps({"id": match[1], "sha": COMMIT}).encode()
        if match := re.fullmatch(r"/api/datasets/([^/]+/[^/]+)/tree/([^/]+)(?:/(.*))?", path):
            if not self.has_api or match[1] not in self.files:
                return 404, {}, b""
            return self._tree(match[1], match[3] or "", path, query)
        if match := re.fullmatch(r"/datasets/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            content = self.files.get(match[1], {}).get(match[3])
            if content is None or match[2] not in ("main", COMMIT):
                return 404, {}, b""
            return self._file(match[1], match[3], content)
        return None

    def _tree(
        self, name: str, prefix: str, path: str, query: str
    ) -> tuple[int, dict[str, str], bytes]:
        options = urllib.parse.parse_qs(query)
        recursive = options.get("recursive") == ["true"]
        inside = f"{prefix}/" if prefix else ""
        entries: list[dict[str, object]] = []
        for each, content in sorted(self.files[name].items()):
            if not each.startswith(inside) or ("/" in each[len(inside) :] and not recursive):
                continue
            entry: dict[str, object] = {
                "type": "file",
                "path": each,
                "size": len(content),
                "oid": _blob(content),
            }
            if len(content) >= LARGE_BYTES:
                digest = hashlib.sha256(content).hexdigest()
                entry["lfs"] = {"oid": digest, "size": len(content), "pointerSize": 134}
            entries.append(entry)
        start = int(options.get("cursor", ["0"])[0])
        end = start + self.page_entries
        headers: dict[str, str] = {}
        if end < len(entries):
            following = f"{self.url}{path}?recursive={str(recursive).lower()}&cursor={end}"
            headers["Link"] = f'<{following}>; rel="next"'
        return 200, headers, json.dumps(entries[start:end]).encode()

    def _file(self, name: str, path: str, content: bytes) -> tuple[int, dict[str, str], bytes]:
        headers = {"X-Repo-Commit": COMMIT}
        if len(content) >= LARGE_BYTES:
            digest = hashlib.sha256(content).hexdigest()
            headers |= {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(content))}
            headers["Location"] = (
                f"{self.storage.url}/{urllib.parse.quote(f'{name}/{path}')}?signature=x"
            )
            return 302, headers, b""
        return 200, {**headers, "ETag": f'"{_blob(content)}"'}, content

    def close(self) -> None:
        self.storage.close()
        super().close()


def _blob(content: bytes) -> str:
    """What git calls a file of this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class CloudStorage(Server):
    """Google Cloud Storage, as far as obstore asks it: objects and listings of a bucket."""

    def answer(self, request: Request) -> tuple[int, dict[str, str], bytes] | None:
        path, _, query = request.path.partition("?")
        options = urllib.parse.parse_qs(query)
        if "list-type" not in options:
            return None
        bucket = path.strip("/")
        prefix = options.get("prefix", [""])[0]
        keys = [key.removeprefix(f"/{bucket}/") for key in sorted(self.pages)]
        entries = "".join(
            f"<Contents><Key>{key}</Key><Size>{len(self.pages[f'/{bucket}/{key}'].content)}</Size>"
            f"<LastModified>2026-11-16T05:00:00.000Z</LastModified>"
            f"<ETag>{self.pages[f'/{bucket}/{key}'].etag}</ETag></Contents>"
            for key in keys
            if key.startswith(prefix)
        )
        return 200, {}, f"<ListBucketResult>{entries}</ListBucketResult>".encode()


@contextlib.contextmanager
def serving(kind: type[Server] = Server) -> Generator[Server]:
    server = kind()
    try:
        yield server
    finally:
        server.close()
