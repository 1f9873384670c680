"""Lookup: what all encodings of one tokenizer share. A Vocab in; tables by id, made when first asked.

A token is spelled here as Hugging Face spells it: by letters for its bytes, a special token as it is.
"""

import functools
import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from tokenmill import _core
from tokenmill.compat.white_space import WHITE_SPACE
from tokenmill.tokenizer.formats.byte_letters import from_letters, to_letters

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

    from tokenmill.tokenizer.vocab import Vocab

_SPACES = to_letters(b" ") + WHITE_SPACE


class Trim(NamedTuple):
    """Leave spaces at both ends of tokens out of their offsets, as ByteLevel does.

    With `add_prefix_space` the one space that a text may have been given stays: that of a token at
    character 0, and of token number `first` of its text.
    """

    add_prefix_space: bool
    first: int


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

    @functools.cached_property
    def num_tokens(self) -> int:
        """Ids without a token not counted."""
        core = self.vocab.core
        return core.size - sum(not token for token in self.vocab.tokens[core.num_merges :])

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

    def pairs(
        self,
        offsets: "_core.Array | array[int]",
        ids: list[int],
        start: int,
        stop: int,
        trims: "Sequence[Trim]",
    ) -> list[tuple[int, int]]:
        """`offsets`, two numbers for each of `ids`, as pairs for those from `start` to `stop`."""
        return self.bpe.offset_pairs(offsets, ids, start, stop, trims, self._special_spaces)

    @functools.cached_property
    def _special_spaces(self) -> dict[int, tuple[int, int]]:
        """Of the special tokens with spaces at their ends, how many. The core counts those of others."""
        found = {i: count_spaces(token) for token, i in self.vocab.special_tokens.items()}
        return {token_id: spaces for token_id, spaces in found.items() if spaces != (0, 0)}

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
