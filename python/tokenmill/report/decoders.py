"""Three ways from ids back to bytes: a table, a dictionary, and the merges themselves.

The table is what tokenmill decodes with. The other two are what people write by hand, in the
quickest form Python and numpy allow; they are here to be measured beside it, with their sizes.
"""

import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, cast

from tokenmill.report.engines import bpe_of, vocab_of
from tokenmill.tokenizer.token_batch import TokenBatch
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.tokenizer.vocab import Vocab

if TYPE_CHECKING:
    import numpy.typing as npt


class Decoder(Protocol):
    """Ids to bytes, and how much memory knowing them takes."""

    @property
    def name(self) -> str: ...
    @property
    def num_bytes(self) -> int: ...
    def decode(self, batch: TokenBatch) -> list[bytes]: ...


class TableDecoder:
    """All tokens end to end and where each starts; in the core."""

    name = "table"

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._bpe = bpe_of(tokenizer)
        self.num_bytes = tokenizer.memory()["decoder"]

    def decode(self, batch: TokenBatch) -> list[bytes]:
        # Arrays are buffers, though numpy's types do not say so before Python 3.12.
        ids, offsets = cast("tuple[Any, Any]", (batch.ids, batch.offsets))
        return cast("list[bytes]", self._bpe.decode_batch(ids, offsets, None))


class DictionaryDecoder:
    """A Python dict, id → bytes, and a join."""

    name = "dictionary"

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._token_of = dict(tokenizer.vocab)
        self.num_bytes = sys.getsizeof(self._token_of) + sum(
            sys.getsizeof(token_id) + sys.getsizeof(token)
            for token_id, token in self._token_of.items()
        )

    def decode(self, batch: TokenBatch) -> list[bytes]:
        ids: list[int] = batch.ids.tolist()
        token = self._token_of.__getitem__
        return [b"".join(map(token, ids[a:b])) for a, b in pairwise(batch.offsets.tolist())]


class PairExpansionDecoder:
    """Each id is replaced by the two its merge joined, again and again, until only bytes are left.

    numpy does a whole document at a time. A token that no merge makes (a special token, say) is
    taken apart byte by byte, with ids of this decoder's own for the rests.
    """

    name = "pair expansion"

    def __init__(self, tokenizer: Tokenizer) -> None:
        import numpy as np

        left, right, byte = _pairs(vocab_of(tokenizer))
        # A byte is its own left part and has no right one, so that one rule serves all ids.
        self._left: npt.NDArray[np.int32] = np.array(left, np.int32)
        self._right: npt.NDArray[np.int32] = np.array(right, np.int32)
        self._byte: npt.NDArray[np.uint8] = np.array(byte, np.uint8)
        self.num_bytes = self._left.nbytes + self._right.nbytes + self._byte.nbytes

    def decode(self, batch: TokenBatch) -> list[bytes]:
        return [self._expand(ids) for ids in batch]

    def _expand(self, ids: "npt.NDArray[Any]") -> bytes:
        import numpy as np

        while True:
            right = self._right[ids]
            is_pair = right >= 0
            if not is_pair.any():
                return self._byte[ids].tobytes()
            ends = np.cumsum(is_pair + 1)
            parts = np.empty(ends[-1], np.int32)
            parts[ends - 1 - is_pair] = self._left[ids]
            parts[ends[is_pair] - 1] = right[is_pair]
            ids = parts


def _pairs(vocab: Vocab) -> tuple[list[int], list[int], list[int]]:
    """(left, right, byte) of each id: its two parts, or itself, -1 and the byte it is."""
    tokens = vocab.tokens
    left, right, byte = list(range(len(tokens))), [-1] * len(tokens), [0] * len(tokens)
    special = set(vocab.special_tokens.values())
    id_of_byte: dict[int, int] = {}
    for token_id, token in enumerate(tokens):
        if len(token) == 1:
            byte[token_id] = token[0]
            if token_id not in special:
                id_of_byte[token[0]] = token_id
    # The first merge that makes a token comes last here, and so it is the one that stays.
    for one, other, joined in reversed(vocab.merges):
        left[joined], right[joined] = one, other
    for token_id, token in enumerate(tokens):
        place = token_id
        # An id without a token spells nothing, and no text has it.
        for index in range(len(token) - 1 if right[token_id] < 0 else 0):
            left[place], right[place] = id_of_byte[token[index]], len(left)
            place = len(left)
            left.append(place)
            right.append(-1)
            byte.append(token[-1])
    return left, right, byte


def decoders_of(tokenizer: Tokenizer) -> list[Decoder]:
    return [TableDecoder(tokenizer), DictionaryDecoder(tokenizer), PairExpansionDecoder(tokenizer)]
