"""File names that come from somebody else's server: checked before anything is written under them.

A name is one part of a path and stays in its folder on every system, or it is refused; nothing is
repaired, since a repaired name could be that of another file.
"""

import re
import unicodedata

from tokenmill.errors import SourceError

MAX_NAME_BYTES = 200
"""255 is what file systems take; `.part.json` and a dot must still fit."""

_FORBIDDEN = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*]')
_RESERVED = re.compile(
    r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$)(?:\..*)?", re.I
)


def refusal(name: str) -> str | None:
    """Why no file may be called `name`; `None` if it may."""
    if name in ("", ".", ".."):
        return "is no file name"
    if _FORBIDDEN.search(name):
        return "holds a character that file names cannot have everywhere"
    if any(unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") for letter in name):
        return "holds an invisible character"
    if name.startswith((".", "~", "-")) or name != name.strip() or name.endswith("."):
        return "starts or ends in a character that hides it or changes its meaning"
    if _RESERVED.fullmatch(name):
        return "is the name of a device"
    if name.endswith((".part", ".partial")):
        return "is what files are called while they are written"
    if len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        return f"is longer than {MAX_NAME_BYTES} bytes"
    return None


def require_safe_path(path: str, where: str) -> str:
    """`path`, a relative path with slashes, if each of its parts is a safe name. SourceError naming
    `where` it came from otherwise."""
    for part in path.split("/"):
        reason = refusal(part)
        if reason is not None:
            raise SourceError(
                f"{where} names a file {path!r}, which is not written: {part!r} {reason}"
            )
    return path


def require_distinct(paths: dict[str, str]) -> None:
    """SourceError if two of `paths` (path → where it came from) are one file on some system."""
    seen: dict[str, str] = {}
    for path, where in paths.items():
        folded = unicodedata.normalize("NFC", path).casefold()
        if folded in seen:
            first = seen[folded]
            raise SourceError(
                f"`{paths[first]}` and `{where}` would both be written to `{path}`",
                "pull them into two folders",
            )
        seen[folded] = path
