"""What `encode` and `encode_batch` of `tokenizers` take, told apart: texts, words, and pairs of either.

Types are checked as there: whatever is no text is a TypeError.
"""

from collections.abc import Sequence
from typing import Any, cast

from tokenmill.compat.surrogates import utf8

Pair = tuple[Any, Any]
"""Two sequences, the second None if there is one only."""


def core_text(text: Any) -> str | bytes:
    """A text as the core takes it. TypeError for what is not `str`, or holds half a surrogate pair."""
    try:
        return utf8(text)
    except UnicodeEncodeError:
        raise TypeError("text must be `str` without halves of surrogate pairs") from None


def checked_words(words: Any) -> Sequence[str]:
    """A text that comes in words."""
    if not _is_words(words):
        kind = type(words).__name__
        raise TypeError(f"with `is_pretokenized` a text is a list of `str`, found `{kind}`")
    return words


def split_pairs(batch: Any, is_pretokenized: bool) -> list[Pair]:
    """Each input of a batch as a pair."""
    if isinstance(batch, str | bytes) or not isinstance(batch, Sequence):
        raise TypeError(f"a batch is a list of inputs, found `{type(batch).__name__}`")
    return [_as_pair(one, is_pretokenized) for one in cast(Sequence[Any], batch)]


def _as_pair(one: Any, is_pretokenized: bool) -> Pair:
    is_sequence = _is_words if is_pretokenized else _is_text
    if is_sequence(one):
        return one, None
    if isinstance(one, list | tuple) and len(cast(Sequence[Any], one)) == 2:
        first, second = cast(Sequence[Any], one)
        if is_sequence(first) and is_sequence(second):
            return first, second
    kind = "a list of `str`" if is_pretokenized else "`str`"
    raise TypeError(f"an input must be {kind} or a pair of them, found {_show(one)}")


def _is_text(one: Any) -> bool:
    return isinstance(one, str)


def _is_words(one: Any) -> bool:
    return isinstance(one, list | tuple) and all(map(_is_text, cast(Sequence[Any], one)))


def _show(one: Any) -> str:
    kind = type(one).__name__
    if isinstance(one, list | tuple):
        kinds = ", ".join(type(item).__name__ for item in cast(Sequence[Any], one)[:3])
        return f"`{kind}` of `{kinds}`"
    return f"`{kind}`"
