"""llm.c's files, which modded-nanogpt reads too: 256 int32 of header, then ids.

The header is a magic number that tells the type of ids, version 1, the number of ids, and zeros.
"""

import struct
from pathlib import Path

from tokenmill.dataset.layouts.layout import choose_dtype
from tokenmill.errors import ConfigError

MAGIC = {"uint16": 20240520, "uint32": 20240801}
VERSION = 1
_NAMES = {"validation": "val"}


class LlmcLayout:
    name = "llmc"
    header_bytes = 1024
    max_shards = None
    # The count is a signed 32-bit number.
    max_shard_tokens = (1 << 31) - 1
    max_document_tokens = None

    def dtype_for(self, vocab_size: int, dtype: str | None = None) -> str:
        return choose_dtype(self.name, "uint32", vocab_size, dtype)

    def token_path(self, out_name: str, split: str, shard: int, num_shards: int) -> str:
        return f"{out_name}_{_NAMES.get(split, split)}_{shard:06d}.bin"

    def header(self, num_tokens: int, dtype: str) -> bytes:
        if num_tokens > self.max_shard_tokens:
            raise ConfigError(
                f"a file of llm.c holds {self.max_shard_tokens:,} tokens at most, not {num_tokens:,}",
                "write more shards of fewer tokens",
            )
        return struct.pack("<3i", MAGIC[dtype], VERSION, num_tokens).ljust(self.header_bytes, b"\0")

    def sidecar_paths(self, token_path: str, *, masked: bool) -> dict[str, str]:
        return {}

    def sidecars(
        self, tokens: Path, documents: Path, mask: Path | None, *, dtype: str, tokenizer: str
    ) -> dict[str, Path]:
        return {}


LAYOUT = LlmcLayout()
