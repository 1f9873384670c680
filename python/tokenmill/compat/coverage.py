"""Whether a custom pattern covers a text. tiktoken leaves out what no match covers; we must not guess."""

import functools
from collections.abc import Iterable

from tokenmill import _core


class Coverage:
    """One pattern."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    def covers(self, text: str | bytes, special_tokens: Iterable[str]) -> bool:
        """Whether matches cover all of `text` but these special tokens."""
        return _splitter(self._pattern, frozenset(special_tokens)).covers(text)


@functools.lru_cache(maxsize=16)
def _splitter(pattern: str, special_tokens: frozenset[str]) -> _core.Splitter:
    return _core.Splitter(pattern, sorted(special_tokens))
