"""What Python's `regex` says about a pattern: bytes in, pretokens out, gaps between matches included.

A byte that is not part of valid UTF-8 becomes a lone surrogate, which is neither letter, number nor space.
Newer releases of `regex` have newer Unicode tables, so the version is part of the oracle.
"""

from collections.abc import Sequence
from importlib.metadata import version

import numpy as np
import regex

GENERAL_CATEGORIES = [
    "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi",
    "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn",
]  # fmt: skip

ALL_CHARACTERS = "".join(map(chr, range(0x110000)))
"""Surrogates included: there they stand for invalid bytes or for nothing."""

assert version("regex") == "2025.9.18", "the oracle must have Unicode 16.0, no more and no less"


def as_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def whole_matches(pattern: "regex.Pattern[str]", text: str) -> list[bytes]:
    """All matches, for a pattern without groups."""
    return [match.encode("utf-8", "surrogateescape") for match in pattern.findall(text)]


def matches_and_gaps(pattern: "regex.Pattern[str]", text: str) -> list[bytes]:
    """All matches, and what lies between two of them as a pretoken of its own."""
    pretokens: list[str] = []
    at = 0
    for match in pattern.finditer(text):
        if match.start() > at:
            pretokens.append(text[at : match.start()])
        pretokens.append(match.group())
        at = match.end()
    pretokens.append(text[at:])
    return [as_bytes(pretoken) for pretoken in pretokens if pretoken]


def characters_of(one_character: str) -> str:
    """Every character that a regex for one character matches, in order, without surrogates."""
    runs = regex.finditer(f"(?:{one_character})+", ALL_CHARACTERS)
    return regex.sub("[\ud800-\udfff]+", "", "".join(run.group() for run in runs))


def characters_alike(questions: Sequence[str]) -> list[str]:
    """All characters, sorted into classes: those to which every one of the regexes for one character, the
    `questions` a pattern asks, gives the same answer."""
    answers = np.zeros(len(ALL_CHARACTERS), dtype=np.int64)
    for bit, question in enumerate(questions):
        for run in regex.finditer(f"(?:{question})+", ALL_CHARACTERS):
            answers[run.start() : run.end()] |= 1 << bit
    answers[0xD800:0xE000] = -1
    members = (np.flatnonzero(answers == answer) for answer in np.unique(answers) if answer >= 0)
    return ["".join(map(chr, some)) for some in members]
