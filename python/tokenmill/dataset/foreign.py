"""Token files that no manifest of ours describes: what they say about themselves, held against their
sizes, and where documents end if they say that."""

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tokenmill.dataset.arrays import Array, item_type, map_items, require_size
from tokenmill.dataset.layouts import llmc, megatron
from tokenmill.dataset.manifest import manifest_path
from tokenmill.errors import ConfigError, FormatError
from tokenmill.storage.files import unreadable
from tokenmill.tokenizer.token_files import DTYPES

_LLMC_DTYPES = {magic: dtype for dtype, magic in llmc.MAGIC.items()}
_MEGATRON_DTYPES = {code: dtype for dtype, code in megatron.CODES.items()}


@dataclass(frozen=True)
class ForeignShard:
    """One file, or one pair of files, of another tool."""

    path: Path
    dtype: str
    tokens: Array
    known_ends: Array | None = None
    mask: Array | None = None
    num_bytes: Array | None = None

    @property
    def num_tokens(self) -> int:
        return len(self.tokens)

    @property
    def num_documents(self) -> int:
        return 0 if self.known_ends is None else len(self.known_ends)

    @property
    def ends(self) -> Array:
        if self.known_ends is None:
            raise FormatError(f"nothing says where the documents of `{self.path}` end")
        return self.known_ends


def is_split_folder(path: Path) -> bool:
    """Whether `path` holds the shards of a split."""
    return path.is_dir() and any(path.glob("tokens-*.npy"))


def open_foreign(path: Path, dtype: str | None) -> ForeignShard:
    """The file at `path`, told by its name and its first bytes."""
    if path.suffix in ("", ".idx") or path.with_suffix(".idx").is_file():
        prefix = path.with_suffix("") if path.suffix in (".idx", ".bin") else path
        if prefix.with_name(prefix.name + ".idx").is_file():
            _refuse_dtype(path, dtype)
            return _open_megatron(prefix)
    if path.is_dir():
        if manifest_path(path.parent).is_file() and is_split_folder(path):
            raise FormatError(
                f"`{path}` is a split of the dataset `{path.parent}`",
                f"name the dataset; where a split is wanted, pass `--split {path.name}`",
            )
        raise FormatError(
            f"`{path}` is no dataset: it has no `manifest.json`",
            "name a .npy, .bin or .ds file in it, or wait until `tokenmill encode` is done",
        )
    start = _first_bytes(path, 16)
    if start.startswith(b"\x93NUMPY"):
        _refuse_dtype(path, dtype)
        return _open_npy(path)
    if path.suffix == ".ds":
        return _open_datatrove(path, dtype)
    if path.suffix == ".bin":
        return _open_bin(path, start, dtype)
    raise FormatError(
        f"`{path}` is no token file that can be opened by itself",
        "those are .npy, .bin, .ds, and Megatron's .bin with .idx",
    )


def _refuse_dtype(path: Path, dtype: str | None) -> None:
    if dtype is not None:
        raise ConfigError(f"`{path}` says itself what its ids are, `{dtype}` may not be given")


def _first_bytes(path: Path, count: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(count)
    except OSError as error:
        raise unreadable(path, error) from error


def _open_npy(path: Path) -> ForeignShard:
    try:
        # numpy itself refuses pickled objects, and files that are shorter than their header says.
        tokens = np.load(path, mmap_mode="r", allow_pickle=False)
    # It reads the header as Python, and raises whatever that raises.
    except Exception as error:
        raise FormatError(f"`{path}` cannot be read as .npy: {error}") from None
    if tokens.dtype.kind not in "iu" or tokens.ndim != 1:
        raise FormatError(
            f"`{path}` holds {tokens.ndim} dimensions of `{tokens.dtype}`, ids are one of whole "
            "numbers"
        )
    return ForeignShard(path, tokens.dtype.name, tokens)


def _open_bin(path: Path, start: bytes, dtype: str | None) -> ForeignShard:
    magic, version, count = struct.unpack("<3i", start[:12].ljust(12, b"\0"))
    if magic in _LLMC_DTYPES and version == llmc.VERSION and count >= 0:
        _refuse_dtype(path, dtype)
        said = _LLMC_DTYPES[magic]
        header = _first_bytes(path, llmc.LAYOUT.header_bytes)
        return ForeignShard(path, said, map_items(path, said, count, header=header))
    return _open_raw(path, dtype)


def _open_raw(path: Path, dtype: str | None) -> ForeignShard:
    if dtype is None:
        raise ConfigError(
            f"nothing says what type the ids of `{path}` have",
            "pass `--dtype` (`dtype=`): nanoGPT writes uint16",
        )
    if dtype not in DTYPES:
        raise ConfigError(f"`{dtype}` is no type of ids", f"choose one of {', '.join(DTYPES)}")
    size, width = _size(path), item_type(dtype).itemsize
    if size % width:
        raise FormatError(
            f"`{path}` is {size:,} bytes long, which is no multiple of the {width} of `{dtype}`",
            "the file is cut, or its ids have another type",
        )
    return ForeignShard(path, dtype, map_items(path, dtype, size // width))


def _open_datatrove(path: Path, dtype: str | None) -> ForeignShard:
    metadata, index, loss = (
        path.with_name(f"{path.name}.{k}") for k in ("metadata", "index", "loss")
    )
    if dtype is None and metadata.is_file():
        width = _first_bytes(metadata, 4096).split(b"\n")[0].rpartition(b"|")[2]
        dtype = {b"2": "uint16", b"4": "uint32"}.get(width)
        if dtype is None:
            raise FormatError(f"`{metadata}` does not end its first line in `|2` or `|4`")
    found = _open_raw(path, dtype)
    ends = mask = None
    if index.is_file():
        size = _size(index)
        require_size(index, size - size % 8, "whole 64-bit document ends")
        ends = map_items(index, "uint64", size // 8)
        if len(ends) and int(ends[-1]) != found.num_tokens:
            raise FormatError(
                f"`{index}` ends at token {int(ends[-1]):,}, `{path}` has {found.num_tokens:,}"
            )
    if loss.is_file():
        mask = map_items(loss, "uint8", found.num_tokens)
    return ForeignShard(path, found.dtype, found.tokens, ends, mask)


def _open_megatron(prefix: Path) -> ForeignShard:
    index, path = (prefix.with_name(prefix.name + suffix) for suffix in (".idx", ".bin"))
    head = _first_bytes(index, megatron.INDEX_HEADER_BYTES)
    if len(head) < megatron.INDEX_HEADER_BYTES or not head.startswith(megatron.INDEX_MAGIC):
        raise FormatError(f"`{index}` does not start as Megatron's index does")
    version, code, count, borders = struct.unpack("<QBQQ", head[len(megatron.INDEX_MAGIC) :])
    dtype = _MEGATRON_DTYPES.get(code)
    if version != megatron.INDEX_VERSION or dtype is None:
        raise FormatError(f"`{index}` has version {version} and type code {code}, not known here")
    require_size(index, len(head) + 12 * count + 8 * borders, f"{count:,} sequences")
    data = np.memmap(index, np.uint8, "r")[len(head) :]
    lengths = data[: 4 * count].view("<i4")
    pointers = data[4 * count : 12 * count].view("<i8")
    documents = data[12 * count :].view("<i8")
    ends = np.cumsum(lengths, dtype=np.int64)
    width = item_type(dtype).itemsize
    if (lengths < 0).any() or (pointers != (ends - lengths) * width).any():
        raise FormatError(f"`{index}` has sequences that do not follow each other in the .bin")
    if not borders or documents[0] != 0 or documents[-1] != count or (np.diff(documents) < 1).any():
        raise FormatError(f"`{index}` has documents that do not follow each other")
    tokens = map_items(path, dtype, int(ends[-1]) if count else 0)
    return ForeignShard(path, dtype, tokens, ends[documents[1:] - 1].astype(np.uint64))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise unreadable(path, error) from error
