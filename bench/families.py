"""Text that is bad for encoders: one endless pretoken, or as many short ones as there are characters.

A family gives any number of bytes of valid UTF-8, the same on every machine; fewer by at most one character.
"""

import random
from collections.abc import Callable

BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
FAMILY_EMOJI = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
MARKS = "".join(map(chr, range(0x300, 0x370)))
IDEOGRAPHS = "".join(map(chr, range(0x4E00, 0x9FA6)))


def one_letter(num_bytes: int) -> str:
    return "a" * num_bytes


def spaces(num_bytes: int) -> str:
    return " " * num_bytes


def newlines(num_bytes: int) -> str:
    return "\n" * num_bytes


def digits(num_bytes: int) -> str:
    return _any_of("0123456789", num_bytes)


def base64(num_bytes: int) -> str:
    return _any_of(BASE64, num_bytes)


def cjk(num_bytes: int) -> str:
    """Ideographs in no order: no pretoken comes twice, and the pattern finds no place to cut."""
    return _any_of(IDEOGRAPHS, num_bytes // 3)


def emoji_joiners(num_bytes: int) -> str:
    repeated = FAMILY_EMOJI + "\u200d"
    return repeated * (num_bytes // len(repeated.encode()))


def combining_marks(num_bytes: int) -> str:
    return "e" + _any_of(MARKS, num_bytes // 2 - 1)


def _any_of(characters: str, number: int) -> str:
    return "".join(random.Random(len(characters)).choices(characters, k=number))


FAMILIES: dict[str, Callable[[int], str]] = {
    "one letter": one_letter,
    "spaces": spaces,
    "newlines": newlines,
    "digits": digits,
    "base64": base64,
    "CJK": cjk,
    "emoji joiners": emoji_joiners,
    "combining marks": combining_marks,
}
