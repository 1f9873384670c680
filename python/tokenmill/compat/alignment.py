"""Where each character of a text in Unicode form C comes from in the text as it was.

Hugging Face keeps, for each character of the normalized text, the place of one character of the
original, and its offsets follow from that. Its rule: a character that joins several has the place of
the first of them, one that was put in has that of the character before. It counts by position, so
marks that change their order take the places they stand at.
"""

import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re

_Change = tuple[str, int]
"""A character, and how many of the original it stands for beside one: -1 joins two, 1 was put in."""
_HANGUL = range(0xAC00, 0xD7A4)


def align_nfc(text: str, special_regex: "re.Pattern[str] | None") -> tuple[str, list[int]]:
    """`text` in form C, and for each of its characters the place of one character of `text`.

    Special tokens stay as they are, and what is between them is normalized alone.
    """
    characters: list[str] = []
    places: list[int] = []
    place = 0
    for run, is_special in _runs(text, special_regex):
        base = place
        changes = [(c, 0) for c in run] if is_special else _compose(_decompose(run))
        for character, change in changes:
            characters.append(character)
            if change > 0:
                places.append(max(place - 1, base))
            else:
                places.append(place)
                place += 1 - change
    return "".join(characters), places


def _runs(text: str, special_regex: "re.Pattern[str] | None") -> Iterator[tuple[str, bool]]:
    """The special tokens in `text` and what is between them, each with whether it is one."""
    start = 0
    for match in special_regex.finditer(text) if special_regex else ():
        if start < match.start():
            yield text[start : match.start()], False
        yield match.group(), True
        start = match.end()
    if start < len(text):
        yield text[start:], False


def _decompose(run: str) -> Iterator[_Change]:
    """Form D, marks in canonical order."""
    marks: list[_Change] = []
    for character in run:
        for index, part in enumerate(unicodedata.normalize("NFD", character)):
            change = (part, int(index > 0))
            if unicodedata.combining(part):
                marks.append(change)
                continue
            yield from sorted(marks, key=_class_of)
            marks.clear()
            yield change
    yield from sorted(marks, key=_class_of)


def _class_of(change: _Change) -> int:
    return unicodedata.combining(change[0])


def _compose(changes: Iterator[_Change]) -> Iterator[_Change]:
    """Form C of form D."""
    starter: _Change | None = None
    waiting: list[_Change] = []
    for character, change in changes:
        mark_class = unicodedata.combining(character)
        if starter is None:
            if mark_class:
                yield character, change
            else:
                starter = character, change
            continue
        last_class = _class_of(waiting[-1]) if waiting else -1
        joined = _joined(starter[0], character) if last_class < mark_class else None
        if joined:
            starter = joined, starter[1] + change - 1
        elif mark_class:
            waiting.append((character, change))
        else:
            yield starter
            yield from waiting
            waiting.clear()
            starter = character, change
    if starter is not None:
        yield starter
    yield from waiting


def _joined(first: str, second: str) -> str | None:
    """The one character that the two make together, if there is one."""
    joined = unicodedata.normalize("NFC", first + second)
    if len(joined) != 1:
        return None
    parts = f"{ord(first):04X} {ord(second):04X}"
    is_pair = ord(joined) in _HANGUL or unicodedata.decomposition(joined) == parts
    return joined if is_pair else None
