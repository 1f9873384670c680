"""Layout: what a format of token files says about names, item types, headers and further files.

A writer asks `dtype_for` before it starts, leaves `header_bytes` free at the start of the file at
`token_path`, and when the shard is complete puts `header` there and calls `sidecars`. A reader calls
`open_tokens`. Where documents end, how many bytes they had and what is trained on stays in .npy files
beside the tokens (`array_path`), the same for all layouts.
"""

from pathlib import Path
from typing import Protocol

from tokenmill.dataset.arrays import Array, map_items
from tokenmill.errors import ConfigError

SPLITS = ("train", "validation", "test")
ARRAYS = {"documents": "uint64", "bytes": "uint64", "mask": "uint8"}
"""The .npy files beside the tokens, and the type of their items."""


class Layout(Protocol):
    """One format of token files."""

    @property
    def name(self) -> str: ...

    @property
    def header_bytes(self) -> int:
        """What to leave free before the first id."""
        ...

    @property
    def max_shards(self) -> int | None:
        """Of one split; None for any number."""
        ...

    @property
    def max_shard_tokens(self) -> int | None:
        """What one file can hold; None if only the disk says."""
        ...

    @property
    def max_document_tokens(self) -> int | None:
        """What the format can say about the length of one document."""
        ...

    def dtype_for(self, vocab_size: int, dtype: str | None = None) -> str:
        """`dtype` if it is given, else the narrowest that holds every id. ConfigError if the vocab
        does not fit or the format has no such type."""
        ...

    def token_path(self, out_name: str, split: str, shard: int, num_shards: int) -> str:
        """Where in the dataset folder the ids of a shard are, with `/` between the parts.
        `out_name` is the name of the folder, for formats that repeat it."""
        ...

    def header(self, num_tokens: int, dtype: str) -> bytes:
        """`header_bytes` bytes."""
        ...

    def sidecar_paths(self, token_path: str, *, masked: bool) -> dict[str, str]:
        """kind → path of the further files that the format wants."""
        ...

    def sidecars(
        self, tokens: Path, documents: Path, mask: Path | None, *, dtype: str, tokenizer: str
    ) -> dict[str, Path]:
        """Write the further files of a finished shard, and name them by kind.

        `documents` and `mask` are the finished .npy files. `tokenizer` is a name for those who look
        into a file that has room for one. Memory does not grow with the shard.
        """
        ...


def array_path(kind: str, split: str, shard: int) -> str:
    """Where in the dataset folder the `documents`, `bytes` or `mask` of a shard are."""
    return f"{split}/{kind}-{shard:05d}.npy"


def open_tokens(layout: Layout, path: Path, num_tokens: int, dtype: str) -> Array:
    """The ids of a shard, mapped; FormatError if the file has another size or header."""
    return map_items(path, dtype, num_tokens, header=layout.header(num_tokens, dtype))


_LARGEST_VOCAB = {"uint16": 1 << 16, "uint32": 1 << 32, "int32": 1 << 31}


def choose_dtype(layout: str, wide: str, vocab_size: int, dtype: str | None) -> str:
    """uint16 or `wide`, for formats that have these two."""
    if dtype is None:
        dtype = "uint16" if vocab_size <= _LARGEST_VOCAB["uint16"] else wide
    elif dtype not in ("uint16", wide):
        raise ConfigError(f"`{layout}` files hold `uint16` or `{wide}`, not `{dtype}`")
    if vocab_size > _LARGEST_VOCAB[dtype]:
        hint = f"`{wide}` holds it" if vocab_size <= _LARGEST_VOCAB[wide] else None
        raise ConfigError(
            f"a vocab of {vocab_size:,} ids does not fit into `{dtype}`, which holds "
            f"{_LARGEST_VOCAB[dtype]:,} of them in `{layout}` files",
            hint,
        )
    return dtype


def beside(tokens: Path, name: str) -> Path:
    """The file that `sidecar_paths` calls `name`, next to `tokens`."""
    return tokens.with_name(name.rpartition("/")[2])
