"""Bytes written as letters, as GPT-2 and Hugging Face do in JSON and in merges.txt.

A byte that is a visible Latin-1 character stands for itself; the other 68, in order, take the
letters from U+0100 on, so a space is `Ġ` and a newline `Ċ`. Every byte string has one spelling and
no two share it.
"""

_VISIBLE = frozenset([*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)])
_OTHERS = [byte for byte in range(256) if byte not in _VISIBLE]
_LETTER_OF = {byte: byte if byte in _VISIBLE else 256 + _OTHERS.index(byte) for byte in range(256)}
# Latin-1 characters that are no letters become one that is not Latin-1, and so cannot be encoded.
_BYTE_OF = {byte: 0xFFFF for byte in _OTHERS} | {letter: b for b, letter in _LETTER_OF.items()}


def to_letters(token: bytes) -> str:
    """
    >>> to_letters(b" the\\n")
    'ĠtheĊ'
    """
    return token.decode("latin-1").translate(_LETTER_OF)


def from_letters(letters: str) -> bytes:
    """The bytes that `letters` spell. ValueError naming a character that stands for no byte."""
    try:
        return letters.translate(_BYTE_OF).encode("latin-1")
    except UnicodeEncodeError as error:
        letter = letters[error.start]
        raise ValueError(f"`{letter}` (U+{ord(letter):04X}) stands for no byte") from None
