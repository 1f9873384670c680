"""Ids as numpy saves them: what `numpy.load` opens as it is, and the default."""

from pathlib import Path

from tokenmill.dataset.arrays import NPY_HEADER_BYTES, npy_header
from tokenmill.dataset.layouts.layout import array_path, choose_dtype


class NpyLayout:
    name = "npy"
    header_bytes = NPY_HEADER_BYTES
    max_shards = None
    max_shard_tokens = None
    max_document_tokens = None

    def dtype_for(self, vocab_size: int, dtype: str | None = None) -> str:
        return choose_dtype(self.name, "uint32", vocab_size, dtype)

    def token_path(self, out_name: str, split: str, shard: int, num_shards: int) -> str:
        return array_path("tokens", split, shard)

    def header(self, num_tokens: int, dtype: str) -> bytes:
        return npy_header(dtype, num_tokens)

    def sidecar_paths(self, token_path: str, *, masked: bool) -> dict[str, str]:
        return {}

    def sidecars(
        self, tokens: Path, documents: Path, mask: Path | None, *, dtype: str, tokenizer: str
    ) -> dict[str, Path]:
        return {}


LAYOUT = NpyLayout()
