"""Vocab: tokens, merges, special tokens and how text is split, checked once by the core.

What comes from outside passes through `vocab_from_bytes`, `vocab_from_ids` or a reader of `formats`.
What always holds: ids run from 0 and none below an ordinary token is free, ordinary tokens spell
different bytes, each of the 256 bytes is one, and each merge joins two of them to the one they
spell.
"""

import hashlib
import re
import struct
import sys
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from tokenmill import _core
from tokenmill.errors import FormatError, VocabError

if TYPE_CHECKING:
    from tokenmill.tokenizer.proof import Proof

Merge = tuple[int, int, int]
"""(left id, right id, joined id)"""


@dataclass(frozen=True)
class Extras:
    """What Hugging Face files say beside the vocab. None of it changes an id of ordinary text."""

    post_processor: Any = None
    """The JSON value of tokenizer.json: what Hugging Face puts around a text. `encode` never does."""
    chat_template: str | None = None
    """A Jinja template. Kept and written back, never rendered here."""
    not_special: frozenset[str] = frozenset()
    """Special tokens that Hugging Face calls added but not special, so that decoding keeps them."""
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Roles such as `eos_token`, and settings, of tokenizer_config.json."""


@dataclass(frozen=True)
class Vocab:
    """Tokens by id, merges in rank order, special tokens, pattern and normalizer.

    `core` holds the first three; they are copied into Python when first looked at. Build one with
    `vocab_from_bytes` or `vocab_from_ids`, or read a file.
    """

    core: _core.Vocab
    pattern: str
    """A name or a regex."""
    normalizer: Literal["nfc"] | None = None
    extras: Extras = field(default=Extras(), hash=False)

    @cached_property
    def tokens(self) -> tuple[bytes, ...]:
        """By id, a special token as its UTF-8 spelling, b"" for an id without a token."""
        return tuple(self.core.tokens())

    @cached_property
    def merges(self) -> tuple[Merge, ...]:
        return tuple(self.core.merges())

    @cached_property
    def special_tokens(self) -> dict[str, int]:
        """In id order."""
        return self.core.special_tokens

    @cached_property
    def ids_without_token(self) -> tuple[int, ...]:
        if all(self.tokens):
            return ()
        return tuple(token_id for token_id, token in enumerate(self.tokens) if not token)

    @property
    def ignore_merges(self) -> bool:
        """Whether a pretoken that is a token becomes its id even where merges do not lead there."""
        return self.core.ignore_merges

    def merges_as_bytes(self) -> list[tuple[bytes, bytes]]:
        """Each merge as the bytes of its two parts, in rank order."""
        return [(self.tokens[left], self.tokens[right]) for left, right, _ in self.merges]

    @cached_property
    def sha256(self) -> str:
        """Of everything that decides ids, whatever file it came from (docs/formats.md)."""
        parts = (
            b"tokenmill tokenizer 1",
            _core.Splitter(self.pattern).regex.encode(),
            (self.normalizer or "").encode(),
            bytes([self.ignore_merges]),
            _uint32(map(len, self.tokens)),
            b"".join(self.tokens),
            _uint32(chain.from_iterable(self.merges)),
            _uint32(self.special_tokens.values()),
        )
        digest = hashlib.sha256()
        for part in parts:
            # With its length before it, no part can be read as the end of the one before.
            digest.update(struct.pack("<Q", len(part)))
            digest.update(part)
        return digest.hexdigest()

    @cached_property
    def proof(self) -> "Proof":
        """What follows from the tokens and merges: which tokens nothing makes, and whether tiktoken,
        which knows no merges, gives the same ids. Found when first asked for."""
        from tokenmill.tokenizer.proof import prove

        return prove(self)


def _uint32(numbers: Iterable[int]) -> bytes:
    """Little-endian, four bytes each."""
    # `I` is four bytes on every platform that CPython runs on.
    packed = array("I", numbers)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()


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
    tokens: Sequence[bytes] | Mapping[int, bytes],
    merges: Sequence[Merge],
    special_tokens: Sequence[str] | Mapping[str, int],
    pattern: str,
    origin: Origin | None = None,
    *,
    ignore_merges: bool = False,
) -> Vocab:
    """A checked Vocab from tokens by id, b"" for an id without a token, and merges by ids."""
    origin = origin or Origin()
    if merges and min(map(min, merges)) < 0:
        index = next(index for index, merge in enumerate(merges) if min(merge) < 0)
        raise origin.error(
            f"{origin.merge(index)} names id {min(merges[index])}, but ids run from 0 to "
            f"{len(tokens) - 1}"
        )
    token_of = dict(tokens if isinstance(tokens, Mapping) else enumerate(tokens))
    specials = _place_special_tokens(token_of, special_tokens, origin)
    return _checked(token_of, merges, specials, pattern, origin, ignore_merges=ignore_merges)


def vocab_from_bytes(
    vocab: Mapping[int, bytes],
    merges: Sequence[tuple[bytes, bytes]],
    special_tokens: Sequence[str] | Mapping[str, int],
    pattern: str,
    origin: Origin | None = None,
    *,
    ignore_merges: bool = False,
) -> Vocab:
    """A checked Vocab from id → bytes and merges by bytes, in any id layout.

    Special tokens given by name alone keep the id whose bytes they spell, or follow the highest id.
    """
    origin = origin or Origin()
    token_of = dict(vocab)
    for token_id, token in token_of.items():
        if not token:
            raise origin.error(f"{origin.tokens} id {token_id} is {token!r}, not one or more bytes")
    specials = _place_special_tokens(token_of, special_tokens, origin)
    special_ids = set(specials.values())
    id_of = {token: i for i, token in token_of.items() if i not in special_ids}
    by_ids = [
        _merge_by_ids(index, merge, id_of, specials, origin) for index, merge in enumerate(merges)
    ]
    return _checked(token_of, by_ids, specials, pattern, origin, ignore_merges=ignore_merges)


def _checked(
    token_of: Mapping[int, bytes],
    merges: Sequence[Merge],
    special_tokens: Mapping[str, int],
    pattern: str,
    origin: Origin,
    *,
    ignore_merges: bool,
) -> Vocab:
    tokens = _by_id(token_of, origin)
    try:
        core = _core.Vocab(tokens, merges, special_tokens, ignore_merges=ignore_merges)
    except VocabError as error:
        raise _in_words_of(origin, error) from None
    check_merge_order(core, origin)
    return Vocab(core, pattern)


def _in_words_of(origin: Origin, error: VocabError) -> VocabError | FormatError:
    """The core's error about values it was given, naming the places they came from."""

    def merge(match: re.Match[str]) -> str:
        return match[1] + origin.merge(int(match[2])) + match[3]

    message = re.sub(r"^()merge (\d+)( )", merge, error.message)
    message = re.sub(r"(, as )merge (\d+)( does already)$", merge, message)
    if message.startswith("the vocab "):
        message = origin.tokens + message.removeprefix("the vocab")
    elif message.startswith("special token "):
        message = origin.special_tokens + message
    return origin.error(message, error.hint)


def check_merge_order(core: _core.Vocab, origin: Origin) -> None:
    """Refuse merges that somebody sorted: a token made of parts that only later merges make."""
    index = core.unordered_merge()
    if index is None:
        return
    left, right, _ = core.merges()[index]
    made = {core.token_id(bytes([byte])) for byte in range(256)}
    made.update(joined for _, _, joined in core.merges()[:index])
    part = core.token(right if left in made else left) or b""
    raise origin.error(
        f"{_joins(index, core.token(left) or b'', core.token(right) or b'', origin)}, "
        f"but {show(part)} is not a token at that point",
        "merges must stay in the order they were learned; was the file sorted?",
    )


def _place_special_tokens(
    token_of: dict[int, bytes],
    special_tokens: Sequence[str] | Mapping[str, int],
    origin: Origin,
) -> dict[str, int]:
    """Special token → id. Adds those that `token_of` lacks to it."""
    if isinstance(special_tokens, str):
        raise origin.error(
            f"special tokens are the one string `{special_tokens}`", "pass a list of strings"
        )
    placed: dict[str, int] = {}
    id_of = {spelling: token_id for token_id, spelling in token_of.items()}
    next_id: int | None = None
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
            token_id = max(token_of, default=-1) + 1 if next_id is None else next_id
            next_id = token_id + 1
        if (token_of.get(token_id) or spelling) != spelling:
            raise origin.error(
                f"{origin.special_tokens}special token `{token}` has id {token_id}, "
                f"which spells {show(token_of[token_id])}"
            )
        token_of[token_id] = spelling
        placed[token] = token_id
    if len(set(placed.values())) != len(placed):
        raise origin.error(f"{origin.special_tokens}two special tokens have the same id")
    return placed


def _utf8(token: str, origin: Origin) -> bytes:
    try:
        return token.encode()
    except UnicodeEncodeError:
        raise origin.error(
            f"{origin.special_tokens}special token {token!r} holds half of a surrogate pair"
        ) from None


def _by_id(token_of: Mapping[int, bytes], origin: Origin) -> list[bytes]:
    """Tokens by id, b"" for ids that have none."""
    for token_id, token in token_of.items():
        if type(token_id) is not int or token_id < 0:
            raise origin.error(f"{origin.tokens} has id {token_id!r}, ids are whole numbers from 0")
        if type(token) is not bytes:
            raise origin.error(f"{origin.tokens} id {token_id} is {token!r}, not one or more bytes")
    last = max(token_of, default=-1)
    # A few ids may be free between special tokens; a table for billions of them helps nobody.
    if last >= 2 * len(token_of) + 65_536:
        free = next(i for i in range(last) if i not in token_of)
        raise origin.error(
            f"{origin.tokens} has {len(token_of)} tokens up to id {last}, but no id {free}",
            "ids must run from 0 without holes",
        )
    return [token_of.get(token_id, b"") for token_id in range(last + 1)]


def _merge_by_ids(
    index: int,
    merge: tuple[bytes, bytes],
    id_of: Mapping[bytes, int],
    special_tokens: Mapping[str, int],
    origin: Origin,
) -> Merge:
    left, right = merge
    try:
        return id_of[left], id_of[right], id_of[left + right]
    except KeyError as error:
        unknown = error.args[0]
        special = unknown.decode("utf-8", "replace") in special_tokens
        raise origin.error(
            f"{_joins(index, left, right, origin)}, but {show(unknown)} is "
            + ("a special token" if special else "not in the vocab")
        ) from None


def _joins(index: int, left: bytes, right: bytes, origin: Origin) -> str:
    return f"{origin.merge(index)} joins {show(left)} and {show(right)}"
