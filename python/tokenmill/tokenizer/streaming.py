"""Text that arrives in parts: ids as soon as they are certain, text as soon as it is complete.

However a text is cut, its ids are those of the whole, and however ids are cut, the text is that of all
of them. Memory is bounded by one part and the longest pretoken, not by the length of the text.
"""

import codecs
import operator
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tokenmill import _core
from tokenmill.errors import ConfigError, SourceError
from tokenmill.tokenizer.token_ids import core_ids

if TYPE_CHECKING:
    from tokenmill.tokenizer.token_batch import IdArray

BLOCK_SIZE = 1 << 18
"""Characters or bytes taken at once from an open file."""
FILE_CHUNK_BYTES = 1 << 22
_PACKED = (".gz", ".zst", ".bz2", ".xz", ".zip")


def iterate_ids(stream: _core.EncodeStream, chunks: Iterable[str | bytes] | bytes) -> Iterator[int]:
    """The ids of all `chunks` together, one by one."""
    for chunk in _parts(chunks):
        yield from memoryview(stream.feed(chunk)).tolist()
    yield from memoryview(stream.finish()).tolist()


def _parts(chunks: Iterable[str | bytes] | bytes) -> Iterable[str | bytes]:
    if isinstance(chunks, str | bytes):
        return (chunks,)
    # An open file would give lines: blocks are the same text in fewer parts.
    if hasattr(chunks, "read"):
        return _blocks(chunks)
    return chunks


def _blocks(file: Any) -> Iterator[str | bytes]:
    while block := file.read(BLOCK_SIZE):
        yield block


def encode_blocks(stream: _core.EncodeStream, path: Path, chunk_bytes: int) -> "Iterator[IdArray]":
    """The ids of the file at `path` in arrays, each as soon as it is certain; none is empty."""
    import numpy as np

    try:
        with path.open("rb", buffering=0) as file:
            while block := file.read(chunk_bytes):
                if len(ids := np.asarray(stream.feed(block))):
                    yield ids
    except OSError as error:
        raise SourceError(f"`{path}` cannot be read: {error.strerror}") from error
    if len(ids := np.asarray(stream.finish())):
        yield ids


def require_plain_file(path: Path, chunk_bytes: int) -> None:
    """Refuse what `encode_blocks` would read in silence as something it is not."""
    if type(chunk_bytes) is not int or chunk_bytes < 1:
        raise ConfigError(f"chunk_bytes is `{chunk_bytes!r}`, not a whole number above 0")
    if path.suffix in _PACKED:
        raise SourceError(
            f"`{path}` is packed, and `encode_file` encodes bytes as they are",
            "open it with `gzip.open` or the like and pass that to `encode_iterable`",
        )


class DecodeStream:
    """Text out of ids that arrive one by one or in parts. Made by `Tokenizer.decode_stream`.

    A token may end in the middle of a character: those bytes are held back until the rest comes. All
    that `feed` and `finish` return, joined, is what `decode` gives for all ids at once. Not for several
    threads at once.
    """

    __slots__ = ("_bpe", "_decoder")

    def __init__(self, bpe: _core.Bpe, errors: str = "replace") -> None:
        self._bpe = bpe
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors)

    def feed(self, ids: Any) -> str:
        """The text that is complete with `ids`: one id, or any number of them. An unknown id is a
        VocabError, and none of `ids` is taken then."""
        try:
            some = [operator.index(ids)]
        except TypeError:
            some = core_ids(ids)
        return self._decoder.decode(self._bpe.decode_bytes(cast("list[int]", some)))

    def finish(self) -> str:
        """What was held back, by `errors`. Feeding again starts a new text."""
        rest = self._decoder.decode(b"", True)
        self._decoder.reset()
        return rest
