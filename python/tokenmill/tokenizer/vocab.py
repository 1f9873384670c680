"""Vocab: tokens, merges, special tokens and the split pattern as plain values, checked once.

What comes from outside passes through `vocab_from_bytes` or `vocab_from_ids`, what training made
keeps the same rules by construction: ids run from 0 without holes, each spells other bytes than every
other, each of the 256 bytes is a token, and each merge joins two tokens that exist by then.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from tokenmill.errors import FormatError, VocabError

Merge = tuple[int, int, int]
"""(left id, right id, joined id)"""


@dataclass(frozen=True)
class Vocab:
    """Tokens by id, a special token as its UTF-8 spelling, and merges in rank order.

    Build one with `vocab_from_bytes` or `vocab_from_ids`, which check it. `pattern` is a name or a
    regex.
    """

    tokens: tuple[bytes, ...]
    merges: tuple[Merge, ...]
    special_tokens: dict[str, int]
    pattern: str

    def merges_as_bytes(self) -> list[tuple[bytes, bytes]]:
        """Each merge as the bytes of its two parts, in rank order."""
        return [(self.tokens[left], self.tokens[right]) for left, right, _ in self.merges]


@dataclass(frozen=True)
class Origin:
    """Where a vocab comes from, for messages: the error class, and names for its parts."""

    error: type[VocabError] | type[FormatError] = VocabError
    tokens: str = "the vocab"
    special_tokens: str = ""
    """Put before a message about special tokens."""
    merge: Callable[[int], str] = lambda index: f"merge {index}"


def show(token: bytes) -> str:
    """`token` as it stands in a message: as text where it is UTF-8, else as a bytes literal."""
    try:
        text = token.decode()
    except UnicodeDecodeError:
        return f"`{token!r}`"
    return f"`{text}`" if text.isprintable() else f"`{token!r}`"


def vocab_from_ids(
    tokens: Sequence[bytes],
    merges: Sequence[Merge],
    special_tokens: Mapping[str, int],
    pattern: str,
) -> Vocab:
    """A checked Vocab from tokens by id and merges by ids."""
    named = set(chain.from_iterable(merges))
    if named and not 0 <= min(named) <= max(named) < len(tokens):
        index, unknown = next(
            (index, token_id)
            for index, merge in enumerate(merges)
            for token_id in merge
            if not 0 <= token_id < len(tokens)
        )
        raise VocabError(
            f"merge {index} names id {unknown}, but ids run from 0 to {len(tokens) - 1}"
        )
    origin = Origin()
    token_of = dict(enumerate(tokens))
    specials = _place_special_tokens(token_of, special_tokens, origin)
    _check_tokens(token_of, set(specials.values()), origin)
    _check_merges(tokens, merges, set(specials.values()), origin)
    return Vocab(tuple(token_of.values()), tuple(merges), specials, pattern)


def vocab_from_bytes(
    vocab: Mapping[int, bytes],
    merges: Sequence[tuple[bytes, bytes]],
    special_tokens: Sequence[str] | Mapping[str, int],
    pattern: str,
    origin: Origin | None = None,
) -> Vocab:
    """A checked Vocab from id → bytes and merges by bytes, in any id layout.

    Special tokens given by name alone keep the id whose bytes they spell, or follow the highest id.
    """
    origin = origin or Origin()
    token_of = dict(vocab)
    specials = _place_special_tokens(token_of, special_tokens, origin)
    id_of = _check_tokens(token_of, set(specials.values()), origin)
    tokens = tuple(token_of[token_id] for token_id in range(len(token_of)))
    by_ids = [_merge_by_ids(index, merge, id_of, origin) for index, merge in enumerate(merges)]
    _check_merges(tokens, by_ids, set(specials.values()), origin)
    return Vocab(tokens, tuple(by_ids), specials, pattern)


def _place_special_tokens(
    token_of: dict[int, bytes],
    special_tokens: Sequence[str] | Mapping[str, int],
    origin: Origin,
) -> dict[str, int]:
    """Special token → id in id order. Adds those that `token_of` lacks to it."""
    if isinstance(special_tokens, str):
        raise origin.error(
            f"special tokens are the one string `{special_tokens}`", "pass a list of strings"
        )
    placed: dict[str, int] = {}
    id_of = {spelling: token_id for token_id, spelling in token_of.items()}
    for token in special_tokens:
        if not token:
            raise origin.error(f"{origin.special_tokens}a special token is the empty string")
        if token in placed:
            raise origin.error(f"{origin.special_tokens}special token `{token}` is given twice")
        spelling = _utf8(token, origin)
        if isinstance(special_tokens, Mapping):
            token_id = special_tokens[token]
        elif spelling in id_of:
            token_id = id_of[spelling]
        else:
            token_id = max(token_of, default=-1) + 1
        if token_of.setdefault(token_id, spelling) != spelling:
            raise origin.error(
                f"{origin.special_tokens}special token `{token}` has id {token_id}, "
                f"which spells {show(token_of[token_id])}"
            )
        placed[token] = token_id
    if len(set(placed.values())) != len(placed):
        raise origin.error(f"{origin.special_tokens}two special tokens have the same id")
    return dict(sorted(placed.items(), key=lambda item: item[1]))


def _utf8(token: str, origin: Origin) -> bytes:
    try:
        return token.encode()
    except UnicodeEncodeError:
        raise origin.error(
            f"{origin.special_tokens}special token {token!r} holds half of a surrogate pair"
        ) from None


def _check_tokens(
    token_of: Mapping[int, bytes], special_ids: set[int], origin: Origin
) -> dict[bytes, int]:
    """Token → id, once ids run from 0 without holes, spell different bytes, and have every byte."""
    for token_id, token in token_of.items():
        if type(token_id) is not int or token_id < 0:
            raise origin.error(f"{origin.tokens} has id {token_id!r}, ids are whole numbers from 0")
        if type(token) is not bytes or not token:
            raise origin.error(f"{origin.tokens} id {token_id} is {token!r}, not one or more bytes")
    id_of: dict[bytes, int] = {}
    for token_id in range(len(token_of)):
        token = token_of.get(token_id)
        if token is None:
            raise origin.error(
                f"{origin.tokens} has {len(token_of)} tokens up to id {max(token_of)}, "
                f"but no id {token_id}",
                "ids must run from 0 without holes",
            )
        if id_of.setdefault(token, token_id) != token_id:
            raise origin.error(
                f"{origin.tokens} ids {id_of[token]} and {token_id} both spell {show(token)}"
            )
    ids = [id_of.get(bytes([byte])) for byte in range(256)]
    missing = [byte for byte, found in enumerate(ids) if found is None or found in special_ids]
    if missing:
        raise origin.error(
            f"{origin.tokens} has no token for byte 0x{missing[0]:02x}"
            + (f" and {len(missing) - 1} more" if len(missing) > 1 else ""),
            "a byte-level vocab holds each of the 256 bytes as an ordinary token",
        )
    return id_of


def _merge_by_ids(
    index: int, merge: tuple[bytes, bytes], id_of: Mapping[bytes, int], origin: Origin
) -> Merge:
    left, right = merge
    try:
        return id_of[left], id_of[right], id_of[left + right]
    except KeyError as error:
        unknown = error.args[0]
        joins = _joins(index, left, right, origin)
        if unknown == left + right:
            raise origin.error(f"{joins}, but {show(unknown)} is not in the vocab") from None
        raise _not_yet_a_token(joins, unknown, origin) from None


def _not_yet_a_token(joins: str, part: bytes, origin: Origin) -> VocabError | FormatError:
    return origin.error(
        f"{joins}, but {show(part)} is not a token at that point",
        "merges must stay in the order they were learned; was the file sorted?",
    )


def _check_merges(
    tokens: Sequence[bytes], merges: Sequence[Merge], special_ids: set[int], origin: Origin
) -> None:
    """Check that each merge joins bytes or earlier results to what they spell, once each."""
    made = bytearray(len(token) == 1 for token in tokens)
    for token_id in special_ids:
        made[token_id] = False
    # A large vocab has 200,000 of them: the loop only looks, `_what_is_wrong` finds the words.
    for index, (left, right, joined) in enumerate(merges):
        spelled = tokens[left] + tokens[right] == tokens[joined]
        if not (spelled and made[left] and made[right]) or joined in special_ids:
            raise _what_is_wrong(index, merges[index], tokens, made, origin)
        made[joined] = True
    # Whole numbers, because a set of as many tuples takes twice the time.
    if len({left << 32 | right for left, right, _ in merges}) < len(merges):
        first: dict[tuple[int, int], int] = {}
        for index, (left, right, _) in enumerate(merges):
            if first.setdefault((left, right), index) != index:
                raise origin.error(
                    f"{_joins(index, tokens[left], tokens[right], origin)}, "
                    f"as {origin.merge(first[left, right])} does already"
                )


def _joins(index: int, left: bytes, right: bytes, origin: Origin) -> str:
    return f"{origin.merge(index)} joins {show(left)} and {show(right)}"


def _what_is_wrong(
    index: int, merge: Merge, tokens: Sequence[bytes], made: bytearray, origin: Origin
) -> VocabError | FormatError:
    left, right, joined = merge
    joins = _joins(index, tokens[left], tokens[right], origin)
    if not (made[left] and made[right]):
        return _not_yet_a_token(joins, tokens[right if made[left] else left], origin)
    if tokens[left] + tokens[right] != tokens[joined]:
        return origin.error(f"{joins} into id {joined}, which spells {show(tokens[joined])}")
    return origin.error(f"{joins}, but {show(tokens[joined])} is a special token")
