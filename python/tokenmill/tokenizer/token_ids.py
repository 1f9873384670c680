"""Token ids as people hold them (lists, arrays, tensors, generators), as the core reads them.

The core takes whole numbers in any iterable and in arrays of any integer type, and refuses the rest:
floats, masks, rows of rows. An id that is not in the vocab it names. Here is what it does not know of.
"""

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    CoreIds = Buffer | Sequence[int]


def core_ids(ids: Any) -> "CoreIds":
    """`ids` as `_core.Bpe.decode` takes them. Arrays pass without a copy."""
    if isinstance(ids, list):
        return cast("list[int]", ids)
    # Bytes are an array of numbers too, but whoever passes them means text.
    if isinstance(ids, bytes | bytearray):
        raise TypeError("expected token ids, found bytes")
    if not hasattr(ids, "tolist"):
        return ids
    # A tensor would be read number by number, and an array whose bytes are the other way round as
    # if they were not.
    is_plain_array = hasattr(ids, "__array_interface__") and ids.dtype.isnative
    return ids if is_plain_array else ids.tolist()
