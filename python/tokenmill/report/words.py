"""What a word is, and which words a tokenizer keeps whole.

A word is a run of characters without white space, as `str.split` finds it. Scripts written without
spaces have no such runs: there each character is a word, with the marks on it and the punctuation
around it. So `l'homme, 2024!` is two words and `日本語。` three.

A word is kept whole if it becomes one token: with the space before it, if one stands there, and
without punctuation at its edges. A word of punctuation alone is taken as it is.
"""

import re
import unicodedata
from collections import Counter

from tokenmill.tokenizer.tokenizer import Tokenizer

UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x0F00, 0x0FFF),  # Tibetan
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x3005, 0x3007),  # 々 〆 〇
    (0x3040, 0x30FF),  # Hiragana, Katakana
    (0x3100, 0x312F),  # Bopomofo
    (0x31A0, 0x31BF),  # Bopomofo Extended
    (0x31F0, 0x31FF),  # Katakana Phonetic Extensions
    (0x3400, 0x4DBF),  # Han, Extension A
    (0x4E00, 0x9FFF),  # Han
    (0xA000, 0xA4CF),  # Yi
    (0xA9E0, 0xA9FF),  # Myanmar Extended-B
    (0xAA60, 0xAA7F),  # Myanmar Extended-A
    (0xF900, 0xFAFF),  # Han, compatibility forms
    (0xFF66, 0xFF9F),  # Katakana, half width
    (0x1AFF0, 0x1B16F),  # Kana, rare ones
    (0x20000, 0x3FFFF),  # Han, all other extensions
)
"""Blocks of the scripts that are written without spaces between words."""

_LARGE_BLOCK = 0x800
_EDGE_CATEGORIES = "PSZC"


def _class_of(ranges: list[tuple[int, int]]) -> str:
    return "".join(f"{chr(start)}-{chr(end)}" for start, end in ranges)


def _marks() -> str:
    """Characters of those blocks that belong to the one before them. The large blocks have none."""
    codes = (
        code
        for start, end in UNSPACED
        if end - start < _LARGE_BLOCK
        for code in range(start, end + 1)
    )
    marks = (chr(code) for code in codes if unicodedata.category(chr(code)).startswith("M"))
    return "".join(re.escape(mark) for mark in marks)


_CHARACTER = _class_of(list(UNSPACED))
_HAS_UNSPACED = re.compile(f"[{_CHARACTER}]")
_SPACED_WORD = re.compile(r" ?\S+")
_WORD = re.compile(
    rf" ?[^\w\s{_CHARACTER}]*+[{_CHARACTER}][{_marks()}]*+[^\w\s{_CHARACTER}]*+"
    rf"| ?[^\s{_CHARACTER}]+"
)


def find_words(text: str) -> list[str]:
    """The words of `text` in order, each with the one space before it if there is one.

    >>> find_words("Hello,  world: 日本語。")
    ['Hello,', ' world:', ' 日', '本', '語。']
    """
    has_unspaced = not text.isascii() and _HAS_UNSPACED.search(text) is not None
    return (_WORD if has_unspaced else _SPACED_WORD).findall(text)


def bare_word(word: str) -> str:
    """`word` without punctuation at its edges. Its space goes with what stood between them.

    >>> bare_word(" world,"), bare_word(' "Hello'), bare_word(" --")
    (' world', 'Hello', ' --')
    """
    run = word.removeprefix(" ")
    if run.isalnum():
        return word
    start, end = 0, len(run)
    while start < end and unicodedata.category(run[start])[0] in _EDGE_CATEGORIES:
        start += 1
    while end > start and unicodedata.category(run[end - 1])[0] in _EDGE_CATEGORIES:
        end -= 1
    if start == end:
        return word
    return run[start:end] if start else word[: len(word) - len(run) + end]


def count_kept_whole(tokenizer: Tokenizer, words: Counter[str], threads: int) -> int:
    """How many of `words`, repeats included, the tokenizer makes one token."""
    if not words:
        return 0
    bare: Counter[str] = Counter()
    for word, count in words.items():
        bare[bare_word(word)] += count
    batch = tokenizer.encode_batch(list(bare), disallowed_special=(), threads=threads)
    is_whole = (batch.lengths == 1).tolist()
    return sum(count for count, whole in zip(bare.values(), is_whole, strict=True) if whole)
