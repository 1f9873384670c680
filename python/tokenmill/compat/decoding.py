"""Ids to text as `tokenizers` does it: unknown ids are left out, special tokens if that is asked for.

Bytes are the core's business, except where the original surprises: it reads a token that was added as
letters for bytes if it can, so that an added `é` decodes to the byte 0xE9.
"""

import contextlib
import functools
from collections.abc import Sequence
from typing import Any, cast

from tokenmill import _core
from tokenmill.compat.lookup import Lookup
from tokenmill.errors import VocabError
from tokenmill.tokenizer.formats.byte_letters import from_letters

_MAX_ID = 2**32 - 1


class Decoder:
    """`special_ids` are those that `skip_special_tokens` leaves out. Without `byte_level` the tokens
    are shown as they are spelled, with spaces between them."""

    def __init__(self, lookup: Lookup, special_ids: frozenset[int], *, byte_level: bool) -> None:
        self._lookup = lookup
        self._special_ids = special_ids
        self._byte_level = byte_level

    def decode(self, ids: Any, skip_special_tokens: bool) -> str:
        numbers = _listed(ids)
        if not self._byte_level:
            return self._spelled(numbers, skip_special_tokens)
        try:
            return self._tokens(skip_special_tokens).decode(numbers)
        except VocabError:
            _checked(numbers)
            raise

    def decode_each(self, batch: Any, skip_special_tokens: bool) -> list[str]:
        rows = [_listed(ids) for ids in batch]
        if not self._byte_level:
            return [self._spelled(numbers, skip_special_tokens) for numbers in rows]
        try:
            return self._tokens(skip_special_tokens).decode_each(rows)
        except VocabError:
            for numbers in rows:
                _checked(numbers)
            raise

    def _tokens(self, skip_special_tokens: bool) -> _core.LenientDecoder:
        return self._without_special if skip_special_tokens else self._with_special

    @functools.cached_property
    def _with_special(self) -> _core.LenientDecoder:
        return _core.LenientDecoder(self._bytes_by_id())

    @functools.cached_property
    def _without_special(self) -> _core.LenientDecoder:
        tokens = self._bytes_by_id()
        for token_id in self._special_ids:
            tokens[token_id] = b""
        return _core.LenientDecoder(tokens)

    def _bytes_by_id(self) -> list[bytes]:
        tokens = self._lookup.vocab.core.tokens()
        for token, token_id in self._lookup.vocab.special_tokens.items():
            with contextlib.suppress(ValueError):
                tokens[token_id] = from_letters(token)
        return tokens

    def _spelled(self, numbers: Sequence[int], skip_special_tokens: bool) -> str:
        letters = self._lookup.letters
        left_out = self._special_ids if skip_special_tokens else frozenset[int]()
        known = [
            letters[number] if number < len(letters) else None
            for number in _checked(numbers)
            if number not in left_out
        ]
        return " ".join(token for token in known if token is not None)


def _checked(numbers: Sequence[int]) -> Sequence[int]:
    """OverflowError for numbers that are no id anywhere."""
    for number in numbers:
        if not 0 <= number <= _MAX_ID:
            raise OverflowError(f"token id {number} is not between 0 and {_MAX_ID}")
    return numbers


def _listed(ids: Any) -> Sequence[int]:
    """`ids` as plain numbers. TypeError for what is no sequence."""
    if isinstance(ids, list | tuple):
        return cast(Sequence[int], ids)
    if hasattr(ids, "tolist"):
        return ids.tolist()
    if isinstance(ids, str) or not isinstance(ids, Sequence):
        raise TypeError(f"token ids must be a list of whole numbers, found `{type(ids).__name__}`")
    return list(cast(Sequence[int], ids))
