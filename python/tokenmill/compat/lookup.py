"""Lookup: what all encodings of one tokenizer share. A Vocab in; tables by id, made when first asked.

A token is spelled here as Hugging Face spells it: by letters for its bytes, a special token as it is.
"""

import functools
import re
from typing import TYPE_CHECKING, Literal

from tokenmill import _core
from tokenmill.compat.white_space import WHITE_SPACE
from tokenmill.tokenizer.formats.byte_letters import from_letters, to_letters

if TYPE_CHECKING:
    from tokenmill.tokenizer.vocab import Vocab

_SPACES = to_letters(b" ") + WHITE_SPACE


class Lookup:
    """A vocab, its `_core.Bpe`, and which special tokens become ids."""

    def __init__(
        self, vocab: "Vocab", bpe: _core.Bpe, allowed: frozenset[str] | Literal["all"]
    ) -> None:
        self.vocab = vocab
        self.bpe = bpe
        self.allowed = allowed

    @functools.cached_property
    def letters(self) -> list[str | None]:
        """By id; None for an id without a token."""
        letters = [to_letters(token) or None for token in self.vocab.tokens]
        for token, token_id in self.vocab.special_tokens.items():
            letters[token_id] = token
        return letters

    def token_id(self, token: str) -> int | None:
        """The id of a token given by its letters, or of a special token."""
        special = self.vocab.special_tokens.get(token)
        if special is not None:
            return special
        try:
            return self.vocab.core.token_id(from_letters(token))
        except ValueError:
            return None

    @functools.cached_property
    def special_ids(self) -> frozenset[int]:
        return frozenset(self.vocab.special_tokens.values())

    @functools.cached_property
    def spaces(self) -> tuple[list[int], dict[int, tuple[int, int]]]:
        """By id: 1 for a token with one space in front and none behind, else 0. And those that have
        other spaces at their ends, with the number of them."""
        one_in_front, others = [0] * len(self.letters), dict[int, tuple[int, int]]()
        for token_id, token in enumerate(self.letters):
            found = count_spaces(token) if token else (0, 0)
            if found == (1, 0):
                one_in_front[token_id] = 1
            elif found != (0, 0):
                others[token_id] = found
        return one_in_front, others

    @functools.cached_property
    def splitter(self) -> _core.Splitter:
        """Without special tokens."""
        return _core.Splitter(self.vocab.pattern)

    @functools.cached_property
    def special_regex(self) -> "re.Pattern[str] | None":
        """Finds the special tokens that become ids, the longest where several begin."""
        known = self.vocab.special_tokens
        wanted = known if self.allowed == "all" else known.keys() & self.allowed
        longest_first = sorted(wanted, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None


def count_spaces(token: str) -> tuple[int, int]:
    """How many spaces `token` begins and ends with: letters of the byte, or white space of a special
    token."""
    return len(token) - len(token.lstrip(_SPACES)), len(token) - len(token.rstrip(_SPACES))
