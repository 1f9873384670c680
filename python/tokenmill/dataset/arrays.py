"""Arrays in files: the header of .npy as numpy writes it, and mapping a file after its size is known.

A mapped file that is shorter than was promised kills the process with SIGBUS when the missing part
is touched. So the size is compared with what it must be before anything is mapped, here and nowhere
else.
"""

import functools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from tokenmill.errors import FormatError
from tokenmill.storage.files import unreadable

Array = npt.NDArray[Any]

NPY_HEADER_BYTES = 128
BLOCK_ITEMS = 1 << 20
_NPY_MAGIC = b"\x93NUMPY\x01\x00"
_NPY_DICT = re.compile(
    rb"\{'descr': '([<|][iu][1248])', 'fortran_order': False, 'shape': \((\d{1,20}),\), \} *\n"
)


@functools.cache
def item_type(dtype: str) -> np.dtype[Any]:
    """`dtype` as it lies on disk: little-endian."""
    # By way of its name, so that it is plain `uint16` where that is little-endian.
    return np.dtype(np.dtype(dtype).newbyteorder("<").str)


def npy_header(dtype: str, length: int) -> bytes:
    """The 128 bytes that numpy's own `save` puts before a 1-D array of `length` items."""
    shape = f"({length},)"
    entries = f"{{'descr': '{item_type(dtype).str}', 'fortran_order': False, 'shape': {shape}, }}"
    text = entries.encode().ljust(NPY_HEADER_BYTES - 11) + b"\n"
    return _NPY_MAGIC + len(text).to_bytes(2, "little") + text


def read_npy_header(path: Path) -> tuple[str, int]:
    """(dtype, length) of a .npy file with a header as `npy_header` makes them; FormatError else."""
    start = _read_start(path, NPY_HEADER_BYTES)
    found = _NPY_DICT.fullmatch(start[10:])
    if found is None or start != npy_header(found[1].decode(), int(found[2])):
        raise FormatError(
            f"`{path}` does not start with numpy's header of a one-dimensional array of whole "
            f"numbers, 128 bytes long"
        )
    return np.dtype(found[1].decode()).name, int(found[2])


def map_npy(path: Path, dtype: str, length: int) -> Array:
    """The `length` items of the .npy file `path`, mapped. FormatError if it is another array."""
    return map_items(path, dtype, length, header=npy_header(dtype, length))


def map_items(path: Path, dtype: str, length: int, *, header: bytes = b"") -> Array:
    """`length` items behind `header`, mapped for reading. FormatError naming what is expected and
    found if the file has another size or starts in another way."""
    kind = item_type(dtype)
    require_size(path, len(header) + length * kind.itemsize, f"{length:,} items of `{dtype}`")
    if _read_start(path, len(header)) != header:
        raise FormatError(
            f"`{path}` does not start with the header of {length:,} items of `{dtype}`",
            "the file was changed or is another one",
        )
    if length == 0:  # an empty map is refused by the operating system
        return np.empty(0, kind)
    return np.memmap(path, kind, "r", offset=len(header), shape=(length,))


def has_size(path: str, expected: int) -> bool:
    """Whether there is a file of `expected` bytes: `require_size` says what is wrong if not."""
    try:
        return os.stat(path).st_size == expected
    except OSError:
        return False


def require_size(path: Path, expected: int, holds: str) -> None:
    """FormatError if the file is not `expected` bytes long, as its `holds` take."""
    try:
        size = os.stat(path).st_size
    except OSError as error:
        raise unreadable(path, error) from error
    if size != expected:
        what = "cut" if size < expected else "longer than it should be"
        raise FormatError(
            f"`{path}` is {what}: {holds} take {expected:,} bytes with the header, found {size:,}"
        )


def read_blocks(path: Path, dtype: str, *, offset: int = 0) -> Iterator[Array]:
    """The items from byte `offset` on, a block at a time. Read, not mapped, so that the pages of a
    long file do not count as memory of this process."""
    kind = item_type(dtype)
    try:
        with path.open("rb", buffering=0) as file:
            file.seek(offset)
            while data := _read_whole(file, BLOCK_ITEMS * kind.itemsize):
                if len(data) % kind.itemsize:
                    raise FormatError(f"`{path}` ends in the middle of an item of `{dtype}`")
                yield np.frombuffer(data, kind)
    except OSError as error:
        raise unreadable(path, error) from error


def _read_whole(file: BinaryIO, size: int) -> bytes:
    """`size` bytes, fewer only at the end of the file."""
    data = file.read(size)
    while 0 < len(data) < size and (more := file.read(size - len(data))):
        data += more
    return data


def _read_start(path: Path, size: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError as error:
        raise unreadable(path, error) from error
