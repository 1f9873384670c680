"""Which special tokens a call allows and which it forbids, in tiktoken's words and in the core's.

tiktoken looks for every forbidden string anywhere in a text, before and beside the allowed ones. The
core looks for special tokens alone, the longest where several begin. Where the two could differ, the
text is searched here.
"""

import functools
from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet
from typing import Any, Literal, NoReturn, cast

from tokenmill.errors import VocabError

Allowed = Literal["all"] | AbstractSet[str]
Disallowed = Literal["all"] | Collection[str]
NONE: frozenset[str] = frozenset()


class SpecialChoice:
    """The special tokens of one encoding."""

    def __init__(self, known: set[str]) -> None:
        self._known = known

    def choose(
        self, texts: list[str], allowed_special: Allowed, disallowed_special: Disallowed
    ) -> tuple[Allowed, Disallowed]:
        """Both choices as the core takes them. VocabError for what it would not find in `texts`."""
        allowed = self._allowed(allowed_special)
        if disallowed_special != "all":
            unwanted = disallowed_special
        elif allowed and self._can_overlap:
            unwanted = self._others(allowed)
        else:
            return allowed, "all"
        for text in texts if unwanted else ():
            _refuse_first(text, unwanted)
        return allowed, NONE

    def _allowed(self, allowed_special: Allowed) -> Allowed:
        # The plain sets first: asking whether something is any kind of set takes longer than the rest.
        if type(allowed_special) is set or type(allowed_special) is frozenset:
            chosen = self._known & allowed_special if allowed_special else NONE
            # The core has rules at hand for all of them.
            return "all" if chosen and len(chosen) == len(self._known) else chosen
        if allowed_special == "all":
            return "all"
        if not isinstance(cast(Any, allowed_special), AbstractSet):
            kind = type(allowed_special).__name__
            raise TypeError(f"`allowed_special` must be `all` or a set, found `{kind}`")
        # tiktoken takes any string, and never finds those that are no special token.
        return self._known & allowed_special if allowed_special else NONE

    @functools.cached_property
    def _can_overlap(self) -> bool:
        """Whether finding one special token can hide another that has characters of it."""
        pairs = [(a, b) for a in self._known for b in self._known if a != b]
        return any(
            a in b or any(a[-n:] == b[:n] for n in range(1, min(len(a), len(b)))) for a, b in pairs
        )

    def _others(self, allowed: Allowed) -> AbstractSet[str]:
        return NONE if allowed == "all" else self._known - allowed

    def refuse(self, texts: list[str], allowed: Allowed) -> NoReturn:
        """Raise for the special token that made the core refuse one of `texts`."""
        for text in texts:
            _refuse_first(text, self._others(allowed))
        raise AssertionError("the core found a special token where there is none")


def _refuse_first(text: str, unwanted: Iterable[str]) -> None:
    found = [(place, token) for token in unwanted if (place := text.find(token)) >= 0]
    if found:
        place, token = min(found)
        raise VocabError(
            f"the text holds the disallowed special token `{token}` at character {place}",
            f"pass `allowed_special={{{token!r}}}` to make it an id, or "
            f"`disallowed_special=(enc.special_tokens_set - {{{token!r}}})` to make it plain text, "
            "or `disallowed_special=()` for all of them",
        )
