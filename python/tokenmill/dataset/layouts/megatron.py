"""Megatron's pairs of files, which NeMo and GPT-NeoX read too: ids in .bin, where they are in .idx.

Each document is one sequence. The .idx is, little-endian and without gaps: `MMIDIDX\\0\\0`, u64
version 1, u8 code of the type of ids, u64 number of sequences, u64 number of documents + 1; then int32
lengths of sequences in tokens, int64 their places in the .bin in bytes, int64 number of sequences
before each document and at the end.
"""

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tokenmill.dataset.arrays import (
    NPY_HEADER_BYTES,
    Array,
    item_type,
    read_blocks,
    read_npy_header,
)
from tokenmill.dataset.layouts.layout import beside, choose_dtype
from tokenmill.errors import ConfigError
from tokenmill.storage.files import open_atomically

INDEX_MAGIC = b"MMIDIDX\x00\x00"
INDEX_VERSION = 1
INDEX_HEADER_BYTES = 34
CODES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint16": 8}
_NAMES = {"validation": "valid"}
_MAX_LENGTH = (1 << 31) - 1


class MegatronLayout:
    name = "megatron"
    header_bytes = 0
    max_shards = None
    max_shard_tokens = None
    max_document_tokens = _MAX_LENGTH

    def dtype_for(self, vocab_size: int, dtype: str | None = None) -> str:
        return choose_dtype(self.name, "int32", vocab_size, dtype)

    def token_path(self, out_name: str, split: str, shard: int, num_shards: int) -> str:
        number = f"_{shard:05d}" if num_shards > 1 else ""
        return f"{out_name}_{_NAMES.get(split, split)}{number}_text_document.bin"

    def header(self, num_tokens: int, dtype: str) -> bytes:
        return b""

    def sidecar_paths(self, token_path: str, *, masked: bool) -> dict[str, str]:
        return {"index": token_path.removesuffix(".bin") + ".idx"}

    def sidecars(
        self, tokens: Path, documents: Path, mask: Path | None, *, dtype: str, tokenizer: str
    ) -> dict[str, Path]:
        _, count = read_npy_header(documents)
        index = beside(tokens, self.sidecar_paths(tokens.name, masked=False)["index"])
        with open_atomically(index) as file:
            head = struct.pack("<QBQQ", INDEX_VERSION, CODES[dtype], count, count + 1)
            file.write(INDEX_MAGIC + head)
            for starts, ends in _spans(documents):
                file.write(_lengths(starts, ends).astype("<i4").tobytes())
            for starts, _ in _spans(documents):
                file.write((starts * item_type(dtype).itemsize).astype("<i8").tobytes())
            for first in range(0, count + 1, 1 << 20):
                last = min(first + (1 << 20), count + 1)
                file.write(np.arange(first, last, dtype="<i8").tobytes())
        return {"index": index}


def _spans(documents: Path) -> Iterator[tuple[Array, Array]]:
    """Where documents start and end, in tokens, block by block."""
    last = 0
    for ends in read_blocks(documents, "uint64", offset=NPY_HEADER_BYTES):
        starts = np.empty_like(ends)
        starts[0], starts[1:] = last, ends[:-1]
        last = ends[-1]
        yield starts, ends


def _lengths(starts: Array, ends: Array) -> Array:
    lengths = ends - starts
    if lengths.max() > _MAX_LENGTH:
        raise ConfigError(
            f"a document of {int(lengths.max()):,} tokens does not fit into a file of Megatron, "
            f"which counts up to {_MAX_LENGTH:,}"
        )
    return lengths


LAYOUT = MegatronLayout()
