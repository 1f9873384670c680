"""Where a text may still go on: the ids that stay, and how the rest may begin, by tiktoken's rules.

`encode_with_unstable` of tiktoken is approximate on purpose (it guesses where the pattern would cut
text that is not there yet), and code that uses it relies on its guesses. So these are its rules, one
after another, and the tests hold them against the original.
"""

import functools
from bisect import bisect_left, bisect_right
from operator import itemgetter

from tokenmill import _core
from tokenmill.compat.white_space import WHITE_SPACE

_WHOLE_TEXT = r"[\s\S]+"
_SPACES = frozenset(b" \n\t")


class Pieces:
    """What the rules ask of an encoding: its tokens, and ids of bytes with and without the pattern."""

    def __init__(self, bpe: _core.Bpe, splitter: _core.Splitter, vocab: _core.Vocab) -> None:
        self.bpe = bpe
        self._splitter = splitter
        self._vocab = vocab
        self.special_ids = frozenset(vocab.special_tokens.values())

    @functools.cached_property
    def tokens(self) -> list[bytes]:
        """By id, special tokens included."""
        return self._vocab.tokens()

    @functools.cached_property
    def lengths(self) -> list[int]:
        """Of each token, in bytes."""
        return list(map(len, self.tokens))

    @functools.cached_property
    def sorted_tokens(self) -> list[bytes]:
        """Without the special tokens."""
        tokens = enumerate(self.tokens)
        return sorted(token for i, token in tokens if token and i not in self.special_ids)

    @functools.cached_property
    def _whole(self) -> _core.Bpe:
        vocab = self._vocab
        if vocab.ignore_merges:
            # Merges alone: a whole pretoken that is a token is looked up by who means that.
            vocab = _core.Vocab(vocab.tokens(), vocab.merges(), vocab.special_tokens)
        return _core.Bpe(vocab, _core.Splitter(_WHOLE_TEXT))

    def merge(self, piece: bytes) -> list[int]:
        """The ids of `piece` by merges alone, the pattern aside."""
        return self._whole.encode(piece, (), ())

    def encode_piece(self, piece: bytes) -> list[int]:
        """The ids of `piece` as if it were one pretoken."""
        token_id = self._vocab.token_id(piece) if piece else None
        return self.merge(piece) if token_id is None else [token_id]

    def starting_with(self, prefix: bytes) -> list[bytes]:
        """The tokens that start with `prefix`, sorted."""
        tokens = self.sorted_tokens
        first = bisect_left(tokens, prefix)
        return tokens[
            first : bisect_right(tokens, prefix, first, key=itemgetter(slice(len(prefix))))
        ]

    def num_unstable(self, ids: list[int]) -> int:
        """How many of the last ids what follows may change: those of the last pretoken.

        None after a special token. Spaces before spaces count too, as a pattern may join them.
        """
        start = 0
        if not self.special_ids.isdisjoint(ids):
            start = len(ids)
            while start and ids[start - 1] not in self.special_ids:
                start -= 1
        ordinary = self.bpe.decode_bytes(ids[start:])
        if not ordinary:
            return 0
        left, count = len(self._splitter.split(ordinary)[-1]), 0
        while left > 0:
            count += 1
            left -= len(self.tokens[ids[-count]])
        if self._is_space(ids[-count]):
            while count < len(ids) and self._is_space(ids[-count - 1]):
                count += 1
        return count

    def _is_space(self, token_id: int) -> bool:
        return token_id not in self.special_ids and _SPACES.issuperset(self.tokens[token_id])


def stable_and_completions(pieces: Pieces, ids: list[int]) -> tuple[list[int], list[list[int]]]:
    """`ids` without the unstable ones, and, sorted, the ids that their bytes may come to start."""
    stable = ids[: len(ids) - pieces.num_unstable(ids)]
    unstable = b"".join(pieces.tokens[token_id] for token_id in ids[len(stable) :])
    if not unstable:
        return stable, []
    completions = {tuple(pieces.encode_piece(token)) for token in pieces.starting_with(unstable)}
    completions |= _straddling(pieces, unstable)
    # Another character after white space may cut it off: `\n\n` and then `\n`, `\n0`.
    last = _last_character(unstable)
    if last and last in WHITE_SPACE and len(last.encode()) < len(unstable):
        border = len(unstable) - len(last.encode())
        completions.add(
            (*pieces.merge(unstable[:border]), *pieces.merge(unstable[border:])),
        )
    return stable, sorted(map(list, completions))


def _straddling(pieces: Pieces, unstable: bytes) -> set[tuple[int, ...]]:
    """The ids of `unstable` when a token begins inside it and ends behind it, for all such tokens."""
    possible = {
        unstable[:start] + token
        for start in range(1, len(unstable))
        for token in pieces.starting_with(unstable[start:])
    }
    texts: list[bytes] = []
    encoded: list[list[int]] = []
    for text in possible:
        if _is_utf8(text):
            texts.append(text)
        else:
            encoded.append(pieces.merge(text))
    encoded += pieces.bpe.encode_lists(texts, (), ())
    return {_covering(pieces, ids, len(unstable)) for ids in encoded}


def _covering(pieces: Pieces, ids: list[int], num_bytes: int) -> tuple[int, ...]:
    """The first of `ids`, as many as it takes for `num_bytes` bytes."""
    lengths = pieces.lengths
    for count, token_id in enumerate(ids, 1):
        num_bytes -= lengths[token_id]
        if num_bytes <= 0:
            return tuple(ids[:count])
    return tuple(ids)


def encode_broken_utf8(pieces: Pieces, data: bytes) -> list[int]:
    """The ids of `data`, where the pretoken before the first broken byte goes on to the end."""
    try:
        data.decode()
        return pieces.bpe.encode(data, (), ())
    except UnicodeDecodeError as error:
        valid = error.start
    ids = pieces.bpe.encode(data[:valid], (), ())
    stable = ids[: len(ids) - pieces.num_unstable(ids)]
    rest = b"".join(pieces.tokens[token_id] for token_id in ids[len(stable) :]) + data[valid:]
    return stable + pieces.encode_piece(rest)


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _last_character(data: bytes) -> str:
    """The last character of `data`, or nothing if it does not end with a whole one."""
    for length in range(1, min(4, len(data)) + 1):
        if _is_utf8(data[-length:]):
            return data[-length:].decode()
    return ""
