"""Bytes written as letters, as GPT-2 and Hugging Face do in JSON and in merges.txt.

A byte that is a visible Latin-1 character stands for itself; the other 68, in order, take the
letters from U+0100 on, so a space is `Ġ` and a newline `Ċ`. Every byte string has one spelling and
no two share it.
"""

import io
from codecs import charmap_decode
from collections.abc import Sequence

_VISIBLE = frozenset([*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)])
_OTHERS = [byte for byte in range(256) if byte not in _VISIBLE]
_LETTER_OF = {byte: byte if byte in _VISIBLE else 256 + _OTHERS.index(byte) for byte in range(256)}
_LETTERS = "".join(map(chr, _LETTER_OF.values()))
# Latin-1 characters that are no letters become one that is not Latin-1, and so cannot be encoded.
_BYTE_OF = {byte: 0xFFFF for byte in _OTHERS} | {letter: b for b, letter in _LETTER_OF.items()}


def to_letters(token: bytes) -> str:
    """
    >>> to_letters(b" the\\n")
    'ĠtheĊ'
    """
    # A mapping may be a string, which typeshed does not know.
    return charmap_decode(token, "strict", _LETTERS)[0]  # pyright: ignore[reportArgumentType]


def all_to_letters(tokens: Sequence[bytes]) -> list[str]:
    """Each of `tokens` in letters: one text of all of them, cut where they end. Looking at one after
    the other takes twice as long."""
    return list(map(io.StringIO(to_letters(b"".join(tokens))).read, map(len, tokens)))


def from_letters(letters: str) -> bytes:
    """The bytes that `letters` spell. ValueError naming a character that stands for no byte."""
    try:
        return letters.translate(_BYTE_OF).encode("latin-1")
    except UnicodeEncodeError as error:
        letter = letters[error.start]
        raise ValueError(f"`{letter}` (U+{ord(letter):04X}) stands for no byte") from None
