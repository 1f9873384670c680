"""Engine: one library with one vocab, as the clock sees it. Ours is here, the others are in peers.py.

What is timed is `encode` and `decode`, each the quickest public call its library has for a list of
documents. What only compares answers or brings ids into the form a library wants lies outside.
Special tokens in a text are text to every engine.
"""

import importlib
from collections.abc import Sequence
from typing import Any, Protocol

from tokenmill import _core
from tokenmill.report.sampling import Text
from tokenmill.tokenizer.token_batch import TokenBatch
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.tokenizer.vocab import Vocab


class Engine(Protocol):
    """A library that encodes and decodes lists of documents."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    def encode(self, texts: list[Any]) -> Any:
        """Timed. The ids of each text, in whatever form the library gives them."""
        ...

    def to_lists(self, encoded: Any) -> list[list[int]]:
        """What `encode` gave, as plain lists."""
        ...

    def for_decode(self, batch: TokenBatch) -> Any:
        """Ids in the form `decode` takes."""
        ...

    def decode(self, ids: Any) -> Sequence[Text]:
        """Timed. The text of each row of ids."""
        ...


def vocab_of(tokenizer: Tokenizer) -> Vocab:
    return tokenizer._vocab  # pyright: ignore[reportPrivateUsage]


def bpe_of(tokenizer: Tokenizer) -> _core.Bpe:
    return tokenizer._bpe  # pyright: ignore[reportPrivateUsage]


class TokenmillEngine:
    """tokenmill itself, with nothing in its cache: a new tokenizer on the given one's vocab."""

    name = "tokenmill"
    version = _core.__version__

    def __init__(self, tokenizer: Tokenizer, threads: int) -> None:
        importlib.import_module("numpy")  # loading it is no part of the first round
        self.tokenizer = Tokenizer(vocab_of(tokenizer))
        self._threads = threads

    def encode(self, texts: list[Any]) -> TokenBatch:
        return self.tokenizer.encode_batch(texts, disallowed_special=(), threads=self._threads)

    def to_lists(self, encoded: TokenBatch) -> list[list[int]]:
        return encoded.to_lists()

    def for_decode(self, batch: TokenBatch) -> TokenBatch:
        return batch

    def decode(self, ids: TokenBatch) -> list[str]:
        return self.tokenizer.decode_batch(ids)
