"""datatrove's files, which nanotron reads too: ids in .ds, and three small formats beside them.

`.ds.index` is u64 document ends, `.ds.loss` one byte for each token (1 = trained on), `.ds.metadata`
three lines of text: name of the tokenizer, `|` and bytes per id; number of tokens; the same for people.
"""

import math
from pathlib import Path

from tokenmill.dataset.arrays import NPY_HEADER_BYTES, item_type, read_blocks
from tokenmill.dataset.layouts.layout import beside, choose_dtype
from tokenmill.storage.files import open_atomically, write_atomically

_PREFIXES = ("", "k", "M", "G", "T", "P", "E")


class DatatroveLayout:
    name = "datatrove"
    header_bytes = 0
    max_shards = None
    max_shard_tokens = None
    max_document_tokens = None

    def dtype_for(self, vocab_size: int, dtype: str | None = None) -> str:
        return choose_dtype(self.name, "uint32", vocab_size, dtype)

    def token_path(self, out_name: str, split: str, shard: int, num_shards: int) -> str:
        return f"{split}/{shard:05d}_tokens.ds"

    def header(self, num_tokens: int, dtype: str) -> bytes:
        return b""

    def sidecar_paths(self, token_path: str, *, masked: bool) -> dict[str, str]:
        kinds = ("index", "metadata", "loss") if masked else ("index", "metadata")
        return {kind: f"{token_path}.{kind}" for kind in kinds}

    def sidecars(
        self, tokens: Path, documents: Path, mask: Path | None, *, dtype: str, tokenizer: str
    ) -> dict[str, Path]:
        names = self.sidecar_paths(tokens.name, masked=mask is not None)
        paths = {kind: beside(tokens, name) for kind, name in names.items()}
        _copy_items(documents, "uint64", paths["index"])
        if mask is not None:
            _copy_items(mask, "uint8", paths["loss"])
        item_bytes = item_type(dtype).itemsize
        num_tokens = tokens.stat().st_size // item_bytes
        lines = (f"{tokenizer}|{item_bytes}", str(num_tokens), _rounded(num_tokens))
        write_atomically(paths["metadata"], "\n".join(lines).encode())
        return paths


def _copy_items(array: Path, dtype: str, out: Path) -> None:
    """What is behind the header of a .npy file."""
    with open_atomically(out) as file:
        for block in read_blocks(array, dtype, offset=NPY_HEADER_BYTES):
            file.write(block.tobytes())


def _rounded(num_tokens: int) -> str:
    """Three digits and a prefix, as datatrove's metadata has them: `1.23 MT`."""
    exponent = math.floor(math.log10(num_tokens)) if num_tokens else 0
    thousands, digits = divmod(exponent, 3)
    return f"{num_tokens / 1000**thousands:.{2 - digits}f} {_PREFIXES[thousands]}T"


LAYOUT = DatatroveLayout()
