"""One split pattern, spelled for the regex engine of Hugging Face.

tokenmill and tiktoken run a regex in one engine, Hugging Face runs it in Oniguruma, where a few
things are written differently. What has an exact equivalent is rewritten; what has none is named in
a note, which ends up in the manifest.
"""

import re
from typing import NamedTuple

# One piece of a regex: an escape, a group opening, a repetition, or one character.
_PIECE = re.compile(
    r"(?P<escape>\\(?:[pPxuUkg]\{[^}]*\}|[\s\S]))"
    r"|(?P<flags>\(\?(?P<on>[a-zA-Z]*)(?:-(?P<off>[a-zA-Z]+))?(?P<end>[:)]))"
    r"|(?P<open>\((?:\?(?:[>=!|]|<[=!]|P?<\w+>))?)"
    r"|(?P<repeat>\{\d*,?\d*\}|[*+?])"
    r"|(?P<other>[\s\S])"
)
# To Oniguruma `$` and `^` are the ends of a line; these say "nothing after" and "nothing before".
_ANCHORS = {"$": r"(?![\s\S])", "^": r"(?<![\s\S])"}
# That a dot takes newlines is flag `s` to us and `m` to Oniguruma; its `^` and `$` need no flag.
_FLAGS = {"i": "i", "x": "x", "s": "m", "m": ""}
_NOTES = {
    r"\w": r"`\w` covers a few characters more in one engine than in the other",
    r"\b": r"`\b` follows `\w`, which covers a few characters more in one engine than in the other",
}


class Spelling(NamedTuple):
    """A regex for another engine, and what could still make the two split differently."""

    regex: str
    notes: list[str]


class _Rewriter:
    """Writes piece by piece into `out`."""

    def __init__(self) -> None:
        self.out = ""
        self.notes: list[str] = []
        self.start = 0
        """Where the atom begins in `out` that a repetition would apply to."""
        self.groups: list[tuple[int, bool]] = []
        """For each open group where it begins in `out`, and what `line_ends` was before it."""
        self.line_ends = False
        """Whether `^` and `$` mean the ends of a line here."""
        self.has_flags = False
        """Whether any flag but `i` was seen."""

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def atom(self, text: str) -> None:
        self.start = len(self.out)
        self.out += text if self.line_ends else _ANCHORS.get(text, text)
        if text in _NOTES:
            self.note(_NOTES[text])

    def repeat(self, text: str, *, possessive: bool) -> None:
        if text.startswith("{") and possessive:
            # Oniguruma reads this + as another repetition: `\p{N}{1,3}+` would take any number.
            self.out = f"{self.out[: self.start]}(?>{self.out[self.start :]}{text})"
        else:
            self.out += text + ("+" if possessive else "")

    def open(self, text: str) -> None:
        self.groups.append((len(self.out), self.line_ends))
        self.out += text

    def close(self) -> None:
        self.start, self.line_ends = self.groups.pop() if self.groups else (len(self.out), False)
        self.out += ")"

    def flags(self, on: str, off: str, *, opens: bool) -> None:
        """`(?on-off:` if it opens a group, else `(?on-off)`, good until the group it is in ends."""
        before = self.line_ends
        self.has_flags |= not {"i"}.issuperset(on + off)
        self.line_ends = "m" in on or (before and "m" not in off)
        for flag in (on + off).strip("".join(_FLAGS)):
            self.note(f"flag `{flag}` is unknown to Hugging Face")
        kept_on, kept_off = ("".join(_FLAGS.get(f, f) for f in part) for part in (on, off))
        kept = kept_on + (f"-{kept_off}" if kept_off else "")
        if opens:
            self.groups.append((len(self.out), before))
            self.out += f"(?{kept}:"
        elif kept:
            self.out += f"(?{kept})"


def oniguruma_spelling(regex: str) -> Spelling:
    r"""`regex` as Hugging Face must write it to split as we do.

    >>> oniguruma_spelling(r"\p{N}{1,3}+|\s++$").regex
    '(?>\\p{N}{1,3})|\\s++(?![\\s\\S])'
    """
    rewriter = _rewrite(regex)
    return Spelling(rewriter.out, rewriter.notes)


def means_the_same_to_both(regex: str) -> bool:
    """Whether a regex that Hugging Face runs may be taken over as it is."""
    rewriter = _rewrite(regex)
    return rewriter.out == regex and not rewriter.has_flags


def _rewrite(regex: str) -> _Rewriter:
    rewriter = _Rewriter()
    at = 0
    while at < len(regex):
        if regex[at] == "[":
            end = _class_end(regex, at)
            rewriter.atom(regex[at:end])
            at = end
            continue
        piece = _PIECE.match(regex, at)
        assert piece is not None, "the last alternative matches any character"
        at = piece.end()
        text = piece.group()
        if piece["flags"]:
            rewriter.flags(piece["on"], piece["off"] or "", opens=piece["end"] == ":")
        elif piece["open"]:
            rewriter.open(text)
        elif piece["repeat"]:
            possessive = regex[at : at + 1] == "+"
            at += possessive
            rewriter.repeat(text, possessive=possessive)
        elif text == ")":
            rewriter.close()
        else:
            rewriter.atom(text)
    return rewriter


def _class_end(regex: str, start: int) -> int:
    """Where the class that opens at `start` ends. Classes nest; a `]` at the very start is itself."""
    depth = 0
    at = start
    while at < len(regex):
        if regex[at] == "\\":
            at += 1
        elif regex[at] == "[":
            depth += 1
            at += regex[at + 1 : at + 2] == "^"
            at += regex[at + 1 : at + 2] == "]"
        elif regex[at] == "]":
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1
    return len(regex)
