# pyright: basic
# (pyarrow has no types to be strict about)
"""Texts for `encode_batch`, however people hold them: lists, Arrow data, columns, iterables.

Lists pass as they are. Arrow arrays, and columns that offer themselves as such (polars, pandas), pass
as buffers: string, large_string and their binary twins without a copy, views and dictionaries laid out
plainly first. Anything else is pulled in batches, so the texts of a generator need not fit in memory.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Literal

from tokenmill import _core
from tokenmill.errors import ConfigError, TokenmillError
from tokenmill.tokenizer.token_batch import TokenBatch

BATCH_TEXTS = 1 << 14
BATCH_CHARS = 1 << 24
"""An iterable is pulled until a batch has this many texts or characters."""
SLICE_TEXTS = 1 << 10
"""What can be sliced is pulled by so many texts, whose sizes are not known before."""

CoreArray = tuple[Any, Any, Any, bool, int, int]


def encode_texts(
    bpe: _core.Bpe,
    texts: Any,
    allowed_special: Literal["all"] | Collection[str],
    disallowed_special: Literal["all"] | Collection[str],
    threads: int,
) -> TokenBatch:
    """The ids of all `texts`."""
    how = allowed_special, disallowed_special, threads
    if isinstance(texts, list | tuple):
        return _batch(*bpe.encode_batch(texts, *how))
    if hasattr(texts, "__arrow_c_stream__") or hasattr(texts, "__arrow_c_array__"):
        return _batch(*bpe.encode_arrow(_core_arrays(texts), *how))
    parts: list[TokenBatch] = []
    num_texts = 0
    for texts_of_part in _pulled(texts):
        try:
            parts.append(_batch(*bpe.encode_batch(texts_of_part, *how)))
        except (TokenmillError, TypeError):
            _raise_by_position(bpe, texts_of_part, num_texts, *how[:2])
            raise
        num_texts += len(texts_of_part)
    return _joined(parts) if parts else _batch(*bpe.encode_batch([], *how))


def _batch(ids: _core.Array, offsets: _core.Array) -> TokenBatch:
    import numpy as np

    return TokenBatch(np.asarray(ids), np.frombuffer(memoryview(offsets), np.int64))


def _joined(parts: list[TokenBatch]) -> TokenBatch:
    import numpy as np

    if len(parts) == 1:
        return parts[0]
    lengths = np.concatenate([part.lengths for part in parts])
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return TokenBatch(np.concatenate([part.ids for part in parts]), offsets)


def _raise_by_position(
    bpe: _core.Bpe, texts: list[Any], num_before: int, allowed: Any, disallowed: Any
) -> None:
    """Find the text the core refused, and say where it stands among all that were pulled."""
    for position, text in enumerate(texts, num_before):
        try:
            bpe.count(text, allowed, disallowed)
        except TokenmillError as error:
            raise type(error)(f"text {position}: {error.message}", error.hint) from None
        except TypeError as error:
            raise TypeError(f"text {position}: {error}") from None


def _pulled(texts: Any) -> Iterator[list[Any]]:
    if isinstance(texts, str | bytes | bytearray | Mapping):
        raise ConfigError(
            f"texts are one {type(texts).__name__}, not several texts",
            "pass a list, or one column of a table",
        )
    if getattr(texts, "ndim", 1) != 1:
        raise ConfigError(f"texts are an array of {texts.ndim} dimensions, not one")
    # Arrays and Hugging Face columns give one text at a time many times slower than a slice of them.
    if hasattr(texts, "tolist"):
        return _slices(texts, lambda part: part.tolist())
    if type(texts).__module__.partition(".")[0] == "datasets" and hasattr(texts, "column_name"):
        return _slices(texts, list)
    return _filled(texts)


def _slices(texts: Any, as_list: Any) -> Iterator[list[Any]]:
    for start in range(0, len(texts), SLICE_TEXTS):
        yield as_list(texts[start : start + SLICE_TEXTS])


def _filled(texts: Iterable[Any]) -> Iterator[list[Any]]:
    batch: list[Any] = []
    num_chars = 0
    for text in texts:
        batch.append(text)
        num_chars += len(text) if isinstance(text, str | bytes) else 0
        if num_chars >= BATCH_CHARS or len(batch) >= BATCH_TEXTS:
            yield batch
            batch, num_chars = [], 0
    if batch:
        yield batch


def _core_arrays(column: Any) -> list[CoreArray]:
    """The chunks of a column as `_core.Bpe.encode_arrow` takes them."""
    import pyarrow as pa

    if hasattr(column, "__arrow_c_stream__"):
        chunks = pa.chunked_array(column).chunks
    else:
        chunks = [pa.array(column)]
    arrays: list[CoreArray] = []
    for chunk in map(_plain, chunks):
        validity, offsets, data = chunk.buffers()
        wide = pa.types.is_large_string(chunk.type) or pa.types.is_large_binary(chunk.type)
        if len(chunk):
            text = b"" if data is None else data
            arrays.append((validity, offsets, text, wide, chunk.offset, len(chunk)))
    return arrays


def _plain(array: Any) -> Any:
    """`array` as string, large_string or their binary twins. ConfigError if it holds no text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, types = array.type, pa.types
    if isinstance(array, pa.ExtensionArray):
        return _plain(array.storage)
    if types.is_dictionary(kind):
        # take() checks every index against the dictionary: these may come from a stranger's file.
        return pc.take(_plain(array.dictionary), array.indices)
    if types.is_string_view(kind) or types.is_binary_view(kind):
        array.validate(full=True)
        return array.cast(pa.large_string() if types.is_string_view(kind) else pa.large_binary())
    plain = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    if any(is_kind(kind) for is_kind in plain):
        return array
    if types.is_struct(kind):
        columns = ", ".join(f"`{field.name}` ({field.type})" for field in kind)
        raise ConfigError(
            f"texts are a table, not a column; its columns are {columns}", "pass one of them"
        )
    raise ConfigError(f"texts are a column of `{kind}`, not of text")


def list_array(batch: TokenBatch) -> Any:
    """The ids of each text as an Arrow list, over the memory of `batch`."""
    import pyarrow as pa

    return pa.LargeListArray.from_arrays(pa.array(batch.offsets), pa.array(batch.ids))
