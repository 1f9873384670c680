# pyright: basic
# (pyarrow has no types to be strict about)
"""Text columns of Arrow data as the plain buffers the core reads: validity, offsets, bytes.

string, large_string and their binary twins pass as they are, without a copy; dictionaries and views
are laid out plainly first. Anything else is refused by a message that says what the column holds
and where the text is.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tokenmill.errors import SourceError

PIECE_BYTES = 1 << 22
"""Larger arrays go to the core in slices of about this size, so that all its threads get some."""

CoreArray = tuple[Any, Any, Any, bool, int, int]


def is_text(kind: Any) -> bool:
    """Whether a column of this type holds one text in each row."""
    if isinstance(kind, pa.BaseExtensionType):
        return is_text(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return _is_plain(kind) or _is_view(kind)


def _is_plain(kind: pa.DataType) -> bool:
    return (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def _is_view(kind: pa.DataType) -> bool:
    return pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)


def require_text_column(schema: Any, field: str, name: str) -> int:
    """The index of the column `field`. SourceError if there is none, or two, or if it holds no
    text."""
    found = schema.get_all_field_indices(field)
    with_text = [each.name for each in schema if is_text(each.type)]
    listed = ", ".join(f"`{each}`" for each in with_text)
    hint = f"pass `--field {with_text[0]}`" if len(with_text) == 1 else None
    if not found:
        columns = ", ".join(f"`{each.name}` ({each.type})" for each in schema) or "none"
        raise SourceError(f"`{name}` has no column `{field}`; its columns are {columns}", hint)
    if len(found) > 1:
        raise SourceError(f"`{name}` has {len(found)} columns called `{field}`")
    kind = schema.field(found[0]).type
    if not is_text(kind):
        raise SourceError(
            f"column `{field}` of `{name}` holds `{kind}`, not text; columns with text: {listed or 'none'}",
            hint,
        )
    return found[0]


def core_arrays(arrays: Iterable[Any], name: str) -> Iterator[CoreArray]:
    """Text arrays as `_core.Source.arrow` takes them, in slices the threads can share."""
    for array in arrays:
        if not is_text(array.type):
            raise SourceError(f"`{name}` holds `{array.type}`, not text")
        for piece in _pieces(_plain(array)):
            validity, offsets, data = piece.buffers()
            kind = piece.type
            wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
            yield validity, offsets, b"" if data is None else data, wide, piece.offset, len(piece)


def _plain(array: Any) -> Any:
    if isinstance(array, pa.ExtensionArray):
        return _plain(array.storage)
    if isinstance(array, pa.DictionaryArray):
        # take() checks every index against the dictionary: these may come from a stranger's file.
        return pc.take(_plain(array.dictionary), array.indices)
    if _is_view(array.type):
        array.validate(full=True)
        return array.cast(
            pa.large_string() if pa.types.is_string_view(array.type) else pa.large_binary()
        )
    return array


def _pieces(array: Any) -> Iterator[Any]:
    if len(array) == 0:
        return
    rows = max(1, len(array) * PIECE_BYTES // max(array.nbytes, 1))
    for start in range(0, len(array), rows):
        yield array.slice(start, rows)
