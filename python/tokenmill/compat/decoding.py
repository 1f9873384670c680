"""Ids to text as `tokenizers` does it: unknown ids are left out, special tokens if that is asked for.

Bytes are the core's business, except where the original surprises: it reads a token that was added as
letters for bytes if it can, so that an added `é` decodes to the byte 0xE9.
"""

import functools
from collections.abc import Sequence
from typing import Any, cast

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
        if skip_special_tokens and not self._special_ids.isdisjoint(numbers):
            numbers = [number for number in numbers if number not in self._special_ids]
        if not self._byte_level:
            return " ".join(
                cast(str, self._lookup.letters[number]) for number in self._known(numbers)
            )
        if self._surprising and not self._surprising.keys().isdisjoint(numbers):
            return self._decode_one_by_one(numbers)
        try:
            return self._lookup.bpe.decode(numbers)
        except VocabError:
            return self._lookup.bpe.decode(self._known(numbers))

    def _known(self, numbers: Sequence[int]) -> list[int]:
        """Without ids that no token has. OverflowError for numbers that are no id anywhere."""
        for number in numbers:
            if not 0 <= number <= _MAX_ID:
                raise OverflowError(f"token id {number} is not between 0 and {_MAX_ID}")
        token = self._lookup.vocab.core.token
        return [number for number in numbers if token(number) is not None]

    @functools.cached_property
    def _surprising(self) -> dict[int, bytes]:
        """Special tokens that letters for bytes can spell, and that spell other bytes as such."""
        found: dict[int, bytes] = {}
        for token, token_id in self._lookup.vocab.special_tokens.items():
            try:
                data = from_letters(token)
            except ValueError:
                continue
            if data != token.encode():
                found[token_id] = data
        return found

    def _decode_one_by_one(self, numbers: Sequence[int]) -> str:
        token = self._lookup.vocab.core.token
        data = [self._surprising.get(number) or token(number) for number in self._known(numbers)]
        return b"".join(cast(list[bytes], data)).decode("utf-8", "replace")


def _listed(ids: Any) -> Sequence[int]:
    """`ids` as plain numbers. TypeError for what is no sequence."""
    if isinstance(ids, list | tuple):
        return cast(Sequence[int], ids)
    if hasattr(ids, "tolist"):
        return ids.tolist()
    if isinstance(ids, str) or not isinstance(ids, Sequence):
        raise TypeError(f"token ids must be a list of whole numbers, found `{type(ids).__name__}`")
    return list(cast(Sequence[int], ids))
