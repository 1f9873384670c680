"""nanoGPT's files: train.bin, val.bin and test.bin hold ids and nothing else, one file a split.

nanoGPT itself reads uint16; whoever reads uint32 has to know it, which the manifest says.
"""

from pathlib import Path

from tokenmill.dataset.layouts.layout import choose_dtype

_NAMES = {"validation": "val"}


class BinLayout:
    name = "bin"
    header_bytes = 0
    max_shards = 1
    max_shard_tokens = None
    max_document_tokens = None

    def dtype_for(self, vocab_size: int, dtype: str | None = None) -> str:
        return choose_dtype(self.name, "uint32", vocab_size, dtype)

    def token_path(self, out_name: str, split: str, shard: int, num_shards: int) -> str:
        return f"{_NAMES.get(split, split)}.bin"

    def header(self, num_tokens: int, dtype: str) -> bytes:
        return b""

    def sidecar_paths(self, token_path: str, *, masked: bool) -> dict[str, str]:
        return {}

    def sidecars(
        self, tokens: Path, documents: Path, mask: Path | None, *, dtype: str, tokenizer: str
    ) -> dict[str, Path]:
        return {}


LAYOUT = BinLayout()
