"""Whether a custom pattern covers a text. tiktoken leaves out what no match covers; we must not guess.

A pretoken does not say whether a match made it or stands between two of them. So the text is split
again by a pattern that glues each character no match begins at to the match behind it: where something
is left out, the pieces differ. Only of the last character that cannot tell, and few characters end
texts: what is found out about one is kept.
"""

import re
from collections.abc import Collection

from tokenmill import _core

_LOOKS_BEHIND = re.compile(r"\(\?<[=!]|\\[bBAG]|\^")
_CHARACTER = r"[\s\S]"


class Coverage:
    """One pattern."""

    def __init__(self, pattern: str) -> None:
        self._splitter = _core.Splitter(pattern)
        self._glueing = _core.Splitter(f"(?:{pattern})|{_CHARACTER}(?:{pattern})?")
        # What a match asks of the text before it is lost when its last character is looked at alone.
        self._looks_behind = _LOOKS_BEHIND.search(pattern) is not None
        self._covered_alone: dict[bytes, bool] = {}

    def covers(self, text: str | bytes, special_tokens: Collection[str]) -> bool:
        """Whether matches cover all of `text` but these special tokens."""
        data = text.encode() if isinstance(text, str) else text
        segments = [data]
        if special_tokens:
            longest_first = sorted((t.encode() for t in special_tokens), key=len, reverse=True)
            segments = re.split(b"|".join(map(re.escape, longest_first)), data)
        return all(self._covers(segment) for segment in segments if segment)

    def _covers(self, data: bytes) -> bool:
        if self._looks_behind:
            return self._count_unmatched(data) == 0
        pretokens = self._splitter.split(data)
        if pretokens != self._glueing.split(data):
            return False
        last = pretokens[-1]
        if len(last.decode()) > 1:
            return True
        if last not in self._covered_alone:
            self._covered_alone[last] = self._count_unmatched(last) == 0
        return self._covered_alone[last]

    def _count_unmatched(self, data: bytes) -> int:
        # Exact, but starts a thread, which takes longer than most texts do.
        counter = _core.Counter(self._splitter, 1)
        source = _core.Source.strings(iter([data]), name="text")
        counter.count(_core.Reader(invalid_utf8="keep"), iter([source]))
        return counter.report["unmatched"]
