"""One split pattern, spelled for the regex engines of Hugging Face and tiktoken, and read from both.

A pattern of ours means what Python's `regex` says it means. Hugging Face runs Oniguruma and tiktoken
runs Rust's fancy-regex, where a few things are written differently. What has an exact equivalent is
rewritten; what has none is named in a note, which ends up in the manifest, or refused.
"""

import re
from dataclasses import dataclass, field
from typing import NamedTuple

# One piece of a regex: an escape, a group opening, a repetition, or one character.
_PIECE = re.compile(
    r"(?P<escape>\\(?:[pPxuUkg]\{[^}]*\}|[\s\S]))"
    r"|(?P<flags>\(\?(?P<on>[a-zA-Z]*)(?:-(?P<off>[a-zA-Z]+))?(?P<end>[:)]))"
    r"|(?P<open>\((?:\?(?:[>=!|]|<[=!]|P?<\w+>))?)"
    r"|(?P<repeat>\{\d*,?\d*\}|[*+?])"
    r"|(?P<other>[\s\S])"
)
_PIECE_OF_SET = re.compile(r"\\(?:[pPxuU]\{[^}]*\}|[\s\S])|\[:\w+:\]|&&|~~|[\s\S]")
_NOTES = {
    r"\w": r"`\w` covers a few characters more in one engine than in the other",
    r"\b": r"`\b` follows `\w`, which covers a few characters more in one engine than in the other",
}
# What the core makes of these classes, which other engines give other characters.
_POSIX = {
    "alpha": r"\p{Alphabetic}",
    "digit": "0-9",
    "xdigit": "0-9A-Fa-f",
    "lower": r"\p{Lowercase}",
    "upper": r"\p{Uppercase}",
    "space": r"\s",
}


@dataclass(frozen=True)
class _Engine:
    """How another engine writes what we write."""

    atoms: dict[str, str]
    """Outside of sets and where `^` and `$` are the ends of the text."""
    line_ends: dict[str, str]
    """The two where they are the ends of a line."""
    flags: dict[str, str]
    counts_possessively: bool
    """Whether `{1,3}+` is one repetition, not two."""
    notes: dict[str, str] = field(default_factory=dict[str, str])
    unknown: frozenset[str] = frozenset()
    """Atoms that have no equivalent."""


_ONIGURUMA = _Engine(
    atoms={
        # Python's `$` also matches before a line break that ends the text, its `\Z` does not.
        "$": r"(?=\n?(?![\s\S]))",
        "^": r"(?<![\s\S])",
        r"\Z": r"(?![\s\S])",
        r"\h": r"[\t\p{Zs}]",
        r"\<": "<",
        r"\>": ">",
    },
    # Its own `^` does not match behind a line break that ends the text.
    line_ends={"$": r"(?![^\n])", "^": r"(?<![^\n])"},
    # That a dot takes newlines is flag `s` to us and `m` to Oniguruma.
    flags={"i": "i", "x": "x", "s": "m", "m": ""},
    counts_possessively=False,
    notes=_NOTES,
)
_FANCY_REGEX = _Engine(
    atoms={"$": r"(?=\n?\z)", r"\Z": r"\z", r"\h": r"[\t\p{Zs}]", r"\<": "<", r"\>": ">"},
    line_ends={},
    flags={flag: flag for flag in "imsx"},
    counts_possessively=True,
)


class Spelling(NamedTuple):
    """A regex for another engine, and what could still make the two split differently."""

    regex: str
    notes: list[str]


class _Rewriter:
    """Writes piece by piece into `out`."""

    def __init__(self, engine: _Engine) -> None:
        self.engine = engine
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
        self.has_unknown = False

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def atom(self, text: str) -> None:
        self.start = len(self.out)
        written = self.engine.atoms.get(text, text)
        if self.line_ends and text in "^$":
            written = self.engine.line_ends.get(text, text)
        self.out += written
        self.has_unknown |= text in self.engine.unknown
        if text in self.engine.notes:
            self.note(self.engine.notes[text])

    def repeat(self, text: str, *, possessive: bool) -> None:
        if text.startswith("{") and possessive and not self.engine.counts_possessively:
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
        known = self.engine.flags
        for flag in (on + off).strip("".join(known)):
            self.note(f"flag `{flag}` is unknown to Hugging Face")
        kept_on, kept_off = ("".join(known.get(f, f) for f in part) for part in (on, off))
        kept = kept_on + (f"-{kept_off}" if kept_off else "")
        if opens:
            self.groups.append((len(self.out), before))
            self.out += f"(?{kept}:"
        elif kept:
            self.out += f"(?{kept})"

    def set(self, regex: str, start: int) -> int:
        """The set that opens at `start`, where `[`, `&&` and `~~` are plain characters to us and mean
        something to other engines. Gives the place behind it."""
        at = start + 1
        out = "["
        if regex[at : at + 1] == "^":
            out, at = "[^", at + 1
        if regex[at : at + 1] == "]":
            out, at = out + r"\]", at + 1
        while at < len(regex) and regex[at] != "]":
            piece = _PIECE_OF_SET.match(regex, at)
            assert piece is not None, "the last alternative matches any character"
            at = piece.end()
            out += self._in_set(piece.group())
        self.start = len(self.out)
        self.out += out + regex[at : at + 1]
        return at + 1

    def _in_set(self, text: str) -> str:
        if text.startswith("[:"):
            return _POSIX.get(text[2:-2], text)
        if text == r"\h":
            return r"\t\p{Zs}"
        return {"[": r"\[", "&&": r"\&\&", "~~": r"\~\~"}.get(text, text)


def oniguruma_spelling(regex: str) -> Spelling:
    r"""`regex` as Hugging Face must write it to split as we do.

    >>> oniguruma_spelling(r"\p{N}{1,3}+|\s++\Z").regex
    '(?>\\p{N}{1,3})|\\s++(?![\\s\\S])'
    """
    rewriter = _rewrite(regex, _ONIGURUMA)
    return Spelling(rewriter.out, rewriter.notes)


def tiktoken_spelling(regex: str) -> str:
    """`regex` as tiktoken must write it to split as we do."""
    return _rewrite(regex, _FANCY_REGEX).out


def from_oniguruma(regex: str) -> str | None:
    r"""A regex that Hugging Face runs, as we write it; None if it means something else to us.

    >>> from_oniguruma(r"[\p{L}&&[^\p{Han}]]+")
    '(?:(?![\\p{Han}])[\\p{L}])+'
    """
    plain = _without_intersections(regex)
    rewriter = _rewrite(plain, _ONIGURUMA)
    return plain if rewriter.out == plain and not rewriter.has_flags else None


def from_tiktoken(regex: str) -> str | None:
    r"""A regex that tiktoken runs, as we write it; None if it has no equivalent.

    >>> from_tiktoken(r"\s++$|\S")
    '\\s++\\Z|\\S'
    """
    plain = _without_intersections(regex)
    rewriter = _rewrite(plain, _READ_FANCY_REGEX)
    same_sets = _rewrite(plain, _NOTHING).out == plain
    return rewriter.out if same_sets and not rewriter.has_unknown else None


# From fancy-regex to us: its `$` is the very end, its `\Z` comes before any number of line breaks,
# its `\h` is a hexadecimal digit, its `\<` and `\>` are the borders of a word.
_READ_FANCY_REGEX = _Engine(
    atoms={
        "$": r"\Z",
        r"\z": r"\Z",
        r"\Z": r"(?=\n*\Z)",
        r"\h": "[0-9A-Fa-f]",
    },
    line_ends={},
    flags={flag: flag for flag in "imsx"},
    counts_possessively=True,
    unknown=frozenset({r"\<", r"\>"}),
)
# Changes only sets that engines read differently.
_NOTHING = _Engine(
    atoms={}, line_ends={}, flags={flag: flag for flag in "imsx"}, counts_possessively=True
)
_INTERSECTION = re.compile(
    r"(?<!\\)\[(?P<kept>\^?(?:\\[pP]\{\w+\}|\\[^pPQE]|[^\[\]\\&^])+)"
    r"&&\[(?P<not>\^?)(?P<other>(?:\\[pP]\{\w+\}|\\[^pPQE]|[^\[\]\\&^])+)\]\]"
)


def _without_intersections(regex: str) -> str:
    """`[a&&[^b]]`, which both engines know and `regex` does not, as a look ahead and a set."""
    return _INTERSECTION.sub(
        lambda m: f"(?:(?{'!' if m['not'] else '='}[{m['other']}])[{m['kept']}])", regex
    )


def _rewrite(regex: str, engine: _Engine) -> _Rewriter:
    rewriter = _Rewriter(engine)
    at = 0
    while at < len(regex):
        if regex[at] == "[":
            at = rewriter.set(regex, at)
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
