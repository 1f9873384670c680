"""Codec: text to token ids and back, in every shape people need it. Tokenizer is one with a vocab.

Methods here are thin: they say what a call means, check what the core does not, and hand over. Ids
come as a list for one short text, else as numpy arrays that nothing copies.
"""

import os
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, AnyStr, Literal, cast

from tokenmill import _core
from tokenmill.errors import ConfigError
from tokenmill.storage.files import local_path
from tokenmill.tokenizer import streaming, text_columns, token_borders
from tokenmill.tokenizer.streaming import DecodeStream
from tokenmill.tokenizer.threads import num_threads
from tokenmill.tokenizer.token_batch import TokenBatch
from tokenmill.tokenizer.token_ids import core_ids

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tokenmill.tokenizer.token_batch import IdArray

WhichSpecial = Literal["all"] | Collection[str]
_NONE: frozenset[str] = frozenset()


class Codec:
    """Encodes and decodes with one `_core.Bpe`.

    Methods that take text take `str`, or `bytes` that need not be UTF-8. Special tokens named in
    `allowed_special` become their ids (`"all"` allows all). One named in `disallowed_special` raises
    a VocabError when the text has it; `"all"`, the default, means all that are not allowed. What is
    neither is ordinary text. `threads` never changes an id, and None stands for all cores.
    """

    __slots__ = ("_bpe",)

    _bpe: _core.Bpe

    def encode(
        self,
        text: str | bytes,
        *,
        allowed_special: WhichSpecial = _NONE,
        disallowed_special: WhichSpecial = "all",
        dropout: float | None = None,
        seed: int | None = None,
    ) -> list[int]:
        """The ids of `text`.

        With `dropout`, BPE-dropout: each possible merge is left out with that probability, so that
        a model sees the same text in many ways. It needs a `seed`; the same seed, the same ids.
        """
        if dropout is None and seed is None:
            return self._bpe.encode(text, allowed_special, disallowed_special)
        dropout, seed = _checked_dropout(dropout, seed)
        return memoryview(
            self._bpe.encode_with_dropout(text, allowed_special, disallowed_special, dropout, seed)
        ).tolist()

    def encode_ordinary(self, text: str | bytes) -> list[int]:
        """The ids of `text`, where special tokens are text like any other."""
        return self._bpe.encode(text, _NONE, _NONE)

    def encode_to_numpy(
        self,
        text: str | bytes,
        *,
        allowed_special: WhichSpecial = _NONE,
        disallowed_special: WhichSpecial = "all",
        threads: int | None = 1,
    ) -> "IdArray":
        """The ids of `text` as uint16 if every id of the vocab fits, else uint32.

        A long text is shared among `threads`, None for all cores.
        """
        import numpy as np

        threads = num_threads(threads)
        return np.asarray(
            self._bpe.encode_to_array(text, allowed_special, disallowed_special, threads)
        )

    def encode_batch(
        self,
        texts: Any,
        *,
        allowed_special: WhichSpecial = _NONE,
        disallowed_special: WhichSpecial = "all",
        threads: int | None = None,
    ) -> TokenBatch:
        """The ids of each of `texts`, on all cores unless `threads` says otherwise.

        `texts` is a list of texts, any other iterable of them, or a column: a pyarrow, polars, pandas
        or numpy array, a column of a Hugging Face dataset, anything that lends itself as Arrow data.
        What is no text, a null among them, is an error naming its position.
        """
        threads = num_threads(threads)
        return text_columns.encode_texts(
            self._bpe, texts, allowed_special, disallowed_special, threads
        )

    def encode_iterable(
        self,
        chunks: Iterable[str | bytes] | bytes,
        *,
        allowed_special: WhichSpecial = _NONE,
        disallowed_special: WhichSpecial = "all",
    ) -> Iterator[int]:
        """The ids of the text that `chunks` are parts of, one by one as they become certain.

        However the text is cut, inside a word, a special token or a character's bytes, the ids are
        those of the whole. `chunks` may be a file open for reading, in text or binary mode.
        """
        stream = self._bpe.stream(allowed_special, disallowed_special)
        return streaming.iterate_ids(stream, chunks)

    def encode_file(
        self,
        path: str | os.PathLike[str],
        *,
        allowed_special: WhichSpecial = _NONE,
        disallowed_special: WhichSpecial = "all",
        chunk_bytes: int = streaming.FILE_CHUNK_BYTES,
        threads: int | None = None,
    ) -> "Iterator[IdArray]":
        """The ids of a file as one text, in arrays that follow each other as it is read.

        Its bytes are taken as they are. Neither `chunk_bytes`, which bounds what is read at a time,
        nor `threads` changes an id.
        """
        file = local_path(path)
        streaming.require_plain_file(file, chunk_bytes)
        stream = self._bpe.stream(allowed_special, disallowed_special, num_threads(threads))
        return streaming.encode_blocks(stream, file, chunk_bytes)

    def encode_with_offsets(
        self,
        text: str | bytes,
        *,
        unit: Literal["chars", "bytes"] = "chars",
        allowed_special: WhichSpecial = _NONE,
        disallowed_special: WhichSpecial = "all",
    ) -> "tuple[IdArray, npt.NDArray[np.int64]]":
        """The ids of `text`, and an array with a row (start, end) for each: where it stands.

        In characters, a token that is a part of one has the whole of it. With a normalizer the places
        are those of the normalized text, which is what `decode` gives.
        """
        return token_borders.ids_with_offsets(
            self._bpe, text, unit, allowed_special, disallowed_special
        )

    def count_tokens(
        self,
        text: str | bytes,
        *,
        allowed_special: WhichSpecial = _NONE,
        disallowed_special: WhichSpecial = "all",
        threads: int | None = 1,
    ) -> int:
        """The number of ids of `text`, without making a list of them."""
        return self._bpe.count(text, allowed_special, disallowed_special, num_threads(threads))

    def truncate(
        self,
        text: AnyStr,
        max_tokens: int,
        *,
        allowed_special: WhichSpecial = _NONE,
        disallowed_special: WhichSpecial = "all",
    ) -> AnyStr:
        """The text of the first `max_tokens` ids of `text`; what comes after is not looked at.

        A `str` whose last token ends inside a character loses tokens until none does.
        """
        return token_borders.text_of_first(
            self._bpe, text, max_tokens, allowed_special, disallowed_special
        )

    def split(
        self,
        text: AnyStr,
        max_tokens: int,
        *,
        allowed_special: WhichSpecial = _NONE,
        disallowed_special: WhichSpecial = "all",
    ) -> list[AnyStr]:
        """`text` in pieces, each the text of at most `max_tokens` of its ids, cut between tokens.

        A `str` is cut between characters only: a piece has more tokens where no character ends
        within `max_tokens`, and no more than it takes to end one.
        """
        return token_borders.pieces(
            self._bpe, text, max_tokens, allowed_special, disallowed_special
        )

    def decode(self, ids: Any, errors: str = "replace") -> str:
        """The text of `ids`. What is not UTF-8, such as half a character, goes by `errors`.

        `ids` are a list, an array of any integer type, a tensor or an iterable.
        """
        return self._bpe.decode(core_ids(ids), errors)

    def decode_bytes(self, ids: Any) -> bytes:
        """The exact bytes of `ids`. An unknown id is a VocabError."""
        return self._bpe.decode_bytes(core_ids(ids))

    def decode_batch(self, batch: TokenBatch | Iterable[Any], errors: str = "replace") -> list[str]:
        """The text of each row of ids."""
        if isinstance(batch, TokenBatch):
            # Before Python 3.12 types cannot say that an array is a buffer.
            ids, offsets = cast(Any, batch.ids), cast(Any, batch.offsets)
            return cast(list[str], self._bpe.decode_batch(ids, offsets, errors))
        return [self._bpe.decode(core_ids(ids), errors) for ids in batch]

    def decode_stream(self, errors: str = "replace") -> DecodeStream:
        """For ids that arrive one by one: gives text as soon as its characters are complete."""
        return DecodeStream(self._bpe, errors)


def _checked_dropout(dropout: float | None, seed: int | None) -> tuple[float, int]:
    if dropout is None:
        raise ConfigError(f"seed `{seed}` is given without a dropout", "pass `dropout=0.1`")
    if seed is None:
        raise ConfigError(
            f"dropout `{dropout}` is given without a seed",
            "pass `seed=`, another one for each text and epoch: the same seed gives the same ids",
        )
    # Written so that what is not a number fails too.
    if not 0.0 <= dropout <= 1.0:
        raise ConfigError(f"dropout is {dropout}, not between 0 and 1")
    if type(seed) is not int or not 0 <= seed < 2**64:
        raise ConfigError(f"seed is `{seed!r}`, not a whole number from 0 to 2**64 - 1")
    return dropout, seed
