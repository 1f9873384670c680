"""Addresses of text that is not on this machine: `http(s)://`, `hf://`, `s3://`, `gs://`.

An address is taken apart here and nowhere else. What is shown to people and written into manifests
is `shown`: without the user, the password and the query, where passwords and signatures live.
"""

import glob
import posixpath
import re
import urllib.parse
from dataclasses import dataclass

from tokenmill.errors import ConfigError

SCHEMES = ("http", "https", "hf", "s3", "gs")
_CONTROL = re.compile(r"[\x00-\x20\x7f]")


@dataclass(frozen=True)
class Address:
    """Where one object, one folder of objects, or all matches of a glob are."""

    scheme: str
    place: str
    """Host and port, bucket, or for `hf` what follows `hf://` as far as the dataset's name."""
    path: str
    """What follows, without a slash in front; percent-encoded for `http(s)`, plain for the others.
    """
    query: str = ""
    user: str = ""
    """`user:password` of `http(s)`, if somebody wrote them into the address."""

    @property
    def shown(self) -> str:
        """The address as people may see it."""
        return f"{self.scheme}://{self.place}" + (f"/{self.path}" if self.path else "")

    @property
    def url(self) -> str:
        """What goes over the wire, for `http(s)`."""
        quoted = urllib.parse.quote(self.path, safe="/%:=&~+!$,;'@()*[]")
        return f"{self.scheme}://{self.place}/{quoted}" + (f"?{self.query}" if self.query else "")

    @property
    def name(self) -> str:
        """The last part of the path, as a file would be called."""
        last = posixpath.basename(self.path.rstrip("/"))
        return urllib.parse.unquote(last) if self.is_http else last

    @property
    def is_http(self) -> bool:
        return self.scheme in ("http", "https")

    @property
    def is_pattern(self) -> bool:
        """Whether the path is a glob. In a web address `?` starts the query and `*` is a character
        like any other."""
        return not self.is_http and glob.has_magic(self.path)

    @property
    def fixed_folder(self) -> str:
        """The part of a glob's path before its first wildcard, as a folder."""
        folder = self.path
        while glob.has_magic(folder):
            folder = posixpath.dirname(folder)
        return folder

    def at(self, path: str) -> "Address":
        """Another path of the same place."""
        return Address(self.scheme, self.place, path, self.query, self.user)

    def below(self, path: str) -> "Address":
        """The address of `path`, a plain relative path, inside the folder this one names."""
        inside = urllib.parse.quote(path) if self.is_http else path
        return self.at(f"{self.path.rstrip('/')}/{inside}".lstrip("/"))


def parse_address(text: str) -> Address | None:
    """The address `text` is; `None` if it is a path on this machine."""
    scheme, found, rest = text.partition("://")
    if not found or not scheme.isalnum():
        return None
    scheme = scheme.lower()
    if scheme not in SCHEMES:
        known = ", ".join(f"`{each}://`" for each in SCHEMES)
        raise ConfigError(f"`{text}` is a `{scheme}` address; there are {known} and local paths")
    if _CONTROL.search(rest) and scheme in ("http", "https"):
        raise ConfigError(f"`{scheme}` address {text!r} holds a space or a control character")
    if scheme == "hf":
        return _hub_address(text, rest)
    if scheme in ("s3", "gs"):
        return _bucket_address(text, scheme, rest)
    return _web_address(text)


def require_address(text: str) -> Address:
    """The address `text` is; ConfigError if it is none."""
    address = parse_address(text)
    if address is None:
        known = ", ".join(f"`{each}://`" for each in SCHEMES)
        raise ConfigError(f"`{text}` is no address: one starts with {known}")
    return address


def _web_address(text: str) -> Address:
    try:
        parts = urllib.parse.urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"`{text}` is no web address: {error}") from error
    if not host:
        raise ConfigError(f"`{text}` names no host")
    host = f"[{host}]" if ":" in host else host
    user = parts.netloc.rpartition("@")[0]
    place = host if port is None else f"{host}:{port}"
    return Address(parts.scheme.lower(), place, parts.path.lstrip("/"), parts.query, user)


def _bucket_address(text: str, scheme: str, rest: str) -> Address:
    bucket, _, key = rest.partition("/")
    if not bucket:
        raise ConfigError(
            f"`{text}` names no bucket", f"write it like `{scheme}://bucket/folder/*`"
        )
    return Address(scheme, bucket, key.lstrip("/"))


_HUB = re.compile(
    r"(?P<place>datasets/[\w.-]+/[\w.-]+(?:@(?:refs/(?:convert|pr)/[\w.-]+|[^/]+))?)"
    r"(?:/(?P<path>.*))?"
)


def _hub_address(text: str, rest: str) -> Address:
    match = _HUB.fullmatch(rest)
    if match is None:
        raise ConfigError(
            f"`{text}` is no address of a dataset on the Hugging Face Hub",
            "write it like `hf://datasets/OWNER/NAME/train/*.parquet`, with `@REVISION` after NAME",
        )
    return Address("hf", match["place"], match["path"] or "")
