"""Token ids in files: .npy, raw .bin, llm.c's .bin and text in, blocks of ids out, and their bytes.

A block at a time is in memory, whatever the file's size. What a file says about itself is held
against its size before it is used; a cut file is an error, never a shorter text.
"""

import contextlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from tokenmill import _core
from tokenmill.errors import ConfigError, SourceError, VocabError
from tokenmill.storage.files import unreadable

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    IdBlock = npt.NDArray[np.integer[Any]]

BLOCK_IDS = 1 << 18
DTYPES = ("uint8", "uint16", "uint32", "uint64", "int16", "int32", "int64")
"""What ids in a .bin may be."""
_NPY_MAGIC = b"\x93NUMPY"
_LLMC_MAGIC = {20240520: "uint16", 20240801: "uint32"}
_LLMC_VERSION = 1
_LLMC_HEADER_BYTES = 1024
_TEXT_BLOCK_BYTES = 1 << 16
_MAX_DIGITS = 20


@dataclass(frozen=True)
class Ids:
    """Ids that can be read once, in order."""

    name: str
    """For messages: a path, or `stdin`."""
    dtype: str | None
    """None for text, which has no width."""
    num_ids: int | None
    """None where only reading tells."""
    blocks: "Callable[[int, int | None], Iterator[IdBlock]]"
    """The ids from one position on, and at most so many of them."""


def open_ids(path: Path, *, vocab_size: int, dtype: str | None = None) -> Ids:
    """The ids in the file at `path`, told by its first bytes and its name.

    `dtype` is for .bin files without a header; left out, it is uint16 if `vocab_size` fits, else
    uint32. SourceError for a file that is cut or holds something else.
    """
    if dtype is not None and dtype not in DTYPES:
        raise ConfigError(f"`{dtype}` is no type of ids", f"choose one of {', '.join(DTYPES)}")
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as error:
        raise unreadable(path, error) from error
    if start.startswith(_NPY_MAGIC):
        _refuse_dtype(path, dtype)
        return _open_npy(path, size)
    if path.suffix == ".npy":
        raise SourceError(
            f"`{path}` does not start as a .npy file",
            "raw ids, as OLMo keeps them, can be read after renaming them to .bin",
        )
    if path.suffix in (".bin", ".ds"):
        return _open_bin(path, size, start, vocab_size, dtype)
    _refuse_dtype(path, dtype)
    return Ids(str(path), None, None, _text_blocks(str(path), lambda: path.open("rb")))


def ids_of_text(stream: BinaryIO, name: str) -> Ids:
    """The ids that `stream` has as text: whole numbers with white space or commas between them."""
    return Ids(name, None, None, _text_blocks(name, lambda: contextlib.nullcontext(stream)))


def _refuse_dtype(path: Path, dtype: str | None) -> None:
    if dtype is not None:
        raise ConfigError(f"`--dtype` is for .bin files, and `{path}` says itself what it holds")


def _open_npy(path: Path, size: int) -> Ids:
    import numpy as np

    try:
        # Pickled objects are refused by numpy itself; the data is mapped, not read.
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    # It reads the header as Python, and raises whatever that raises, such as a TokenError.
    except Exception as error:
        raise SourceError(f"`{path}` cannot be read as .npy: {error}") from None
    if found.dtype.kind not in "iu":
        raise SourceError(f"`{path}` holds `{found.dtype}`, ids are whole numbers")
    if found.ndim > 1 and not found.flags.c_contiguous:
        raise SourceError(f"`{path}` holds its {found.ndim} dimensions column by column")
    offset = size - found.nbytes
    return Ids(str(path), found.dtype.name, found.size, _raw_blocks(path, offset, found.dtype))


def _open_bin(path: Path, size: int, start: bytes, vocab_size: int, dtype: str | None) -> Ids:
    import numpy as np

    magic, version, count = (int.from_bytes(start[at : at + 4], "little") for at in (0, 4, 8))
    if magic in _LLMC_MAGIC and version == _LLMC_VERSION and size >= _LLMC_HEADER_BYTES:
        said = _LLMC_MAGIC[magic]
        if dtype not in (None, said):
            raise ConfigError(f"`{path}` has llm.c's header for `{said}`, not `{dtype}`")
        expected = _LLMC_HEADER_BYTES + count * np.dtype(said).itemsize
        if size != expected:
            raise SourceError(
                f"`{path}` has llm.c's header for {count:,} tokens, which take {expected:,} bytes, "
                f"but is {size:,} bytes long"
            )
        kind, offset = np.dtype(said), _LLMC_HEADER_BYTES
    else:
        kind, offset = np.dtype(dtype or ("uint16" if vocab_size <= 65_536 else "uint32")), 0
        if size % kind.itemsize:
            raise SourceError(
                f"`{path}` is {size:,} bytes long, which is no multiple of the {kind.itemsize} bytes "
                f"of `{kind.name}`",
                "the file is cut, or its ids have another type: pass `--dtype`",
            )
    kind = kind.newbyteorder("<")
    count = (size - offset) // kind.itemsize
    return Ids(str(path), kind.name, count, _raw_blocks(path, offset, kind))


def _raw_blocks(
    path: Path, offset: int, dtype: "np.dtype[Any]"
) -> "Callable[[int, int | None], Iterator[IdBlock]]":
    def blocks(start: int, count: int | None) -> "Iterator[IdBlock]":
        import numpy as np

        native = dtype.newbyteorder("=")
        left = -1 if count is None else count * dtype.itemsize
        with path.open("rb", buffering=0) as file:
            file.seek(offset + start * dtype.itemsize)
            while left and (data := file.read(_at_most(BLOCK_IDS * dtype.itemsize, left))):
                if len(data) % dtype.itemsize:
                    raise SourceError(f"`{path}` changed while it was read")
                left -= len(data) if left > 0 else 0
                yield np.frombuffer(data, dtype).astype(native, copy=False)

    return blocks


def _at_most(size: int, left: int) -> int:
    return size if left < 0 else min(size, left)


def _text_blocks(
    name: str, opened: Callable[[], contextlib.AbstractContextManager[BinaryIO]]
) -> "Callable[[int, int | None], Iterator[IdBlock]]":
    def blocks(start: int, count: int | None) -> "Iterator[IdBlock]":
        import numpy as np

        end = None if count is None else start + count
        position = 0
        with opened() as stream:
            for numbers in _numbers(stream, name):
                last = None if end is None else max(end - position, 0)
                if wanted := numbers[max(start - position, 0) : last]:
                    yield np.array(wanted, dtype=np.int64)
                position += len(numbers)
                if end is not None and position >= end:
                    return
        if position < start:
            raise _too_few(name, position, start)

    return blocks


def _numbers(stream: BinaryIO, name: str) -> Iterator[list[int]]:
    """The numbers of each part of `stream` that is complete. `[1, 2, 3]`, as programs print lists, is
    understood as well."""
    rest, position = b"", 0
    while block := stream.read(_TEXT_BLOCK_BYTES):
        words = re.split(rb"[\s,\[\]]+", rest + block)
        rest = words.pop()
        if len(rest) > _MAX_DIGITS:
            raise _no_number(rest, position + len(words), name)
        numbers = _parse(words, position, name)
        position += len(numbers)
        yield numbers
    yield _parse([rest], position, name)


def _parse(words: list[bytes], position: int, name: str) -> list[int]:
    numbers: list[int] = []
    for word in filter(None, words):
        if not re.fullmatch(rb"[0-9]{1,18}", word):
            raise _no_number(word, position + len(numbers), name)
        numbers.append(int(word))
    return numbers


def _no_number(word: bytes, position: int, name: str) -> SourceError:
    shown = word[:_MAX_DIGITS].decode("utf-8", "replace")
    return SourceError(
        f"`{name}` token {position:,} is `{shown}`, which is no id",
        "ids are whole numbers with white space or commas between them; arrays end in .npy or .bin",
    )


def _too_few(name: str, found: int, start: int) -> ConfigError:
    return ConfigError(f"`{name}` has {found:,} tokens, none at `--start {start}`")


@dataclass(frozen=True)
class Decoded:
    """How much was decoded."""

    num_ids: int
    num_bytes: int


def decode_ids(
    ids: Ids,
    bpe: _core.Bpe,
    write: Callable[[bytes], object],
    *,
    start: int = 0,
    count: int | None = None,
    progress: Callable[[int, float | None], None] = lambda done, fraction: None,
) -> Decoded:
    """Hand the bytes that `ids` spell to `write`, block by block.

    `progress` gets the ids done so far, and their share of all if that is known. VocabError naming the first unknown id and its position; what came before it is written.
    """
    if ids.num_ids is not None and start > ids.num_ids:
        raise _too_few(ids.name, ids.num_ids, start)
    whole = count if ids.num_ids is None else min(ids.num_ids - start, count or ids.num_ids)
    done = num_bytes = 0
    for block in ids.blocks(start, count):
        try:
            # Before Python 3.12 types cannot say that an array is a buffer.
            data = bpe.decode_bytes(block)  # pyright: ignore[reportArgumentType]
        except VocabError as error:
            raise _unknown_id(ids, bpe, block, start + done, error) from None
        write(data)
        done += len(block)
        num_bytes += len(data)
        progress(done, done / whole if whole else None)
    return Decoded(done, num_bytes)


def _unknown_id(
    ids: Ids, bpe: _core.Bpe, block: "IdBlock", position: int, error: VocabError
) -> VocabError:
    for index, token_id in enumerate(block.tolist()):
        try:
            bpe.decode_bytes([token_id])
        except (VocabError, OverflowError):
            return VocabError(
                f"`{ids.name}` token {position + index:,} is id {token_id}, which is not in the "
                f"vocab of {bpe.vocab_size:,} ids",
                "were these ids made with another tokenizer"
                + ("?" if ids.dtype is None else f", or is `{ids.dtype}` not their type?"),
            )
    return error
