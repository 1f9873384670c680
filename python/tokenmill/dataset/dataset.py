"""Dataset: token ids on disk, opened without being read.

A folder that `tokenmill encode` wrote, one of its plain files with its manifest beside it, or a file
of another tool. What is said about sizes is held against the files before anything is mapped.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmill.dataset.manifest import Manifest, read_manifest
from tokenmill.dataset.origin import Origin
from tokenmill.errors import ConfigError
from tokenmill.storage.files import local_path
from tokenmill.tokenizer.tokenizer import Tokenizer

# numpy comes with the first file that is opened: `import tokenmill` stays quick.
if TYPE_CHECKING:
    from tokenmill.dataset.arrays import Array
    from tokenmill.dataset.shards import ShardedArray
    from tokenmill.dataset.split_view import Pairs, SplitView
    from tokenmill.dataset.windows import TorchWindows

_OTHER_NAMES = {"val": "validation", "valid": "validation", "dev": "validation"}


class Dataset:
    """Splits of documents that are token ids. `dataset["train"]` is a SplitView; `tokens`,
    `document(i)` and iteration mean the split `train`, or the only one there is."""

    def __init__(self, origin: Origin) -> None:
        """`Dataset.open` is the way in."""
        self.origin = origin
        self.splits: Mapping[str, SplitView] = _open_splits(origin)

    @staticmethod
    def open(
        path: str | os.PathLike[str],
        *,
        dtype: str | None = None,
        tokenizer: "Tokenizer | str | os.PathLike[str] | None" = None,
    ) -> "Dataset":
        """The dataset at `path`: a folder, a .npy or .bin with its manifest beside it; or without
        one a .npy, .bin, llm.c's .bin, datatrove's .ds, or the .bin, .idx or prefix of Megatron.

        `dtype` is for a .bin that nothing describes, `tokenizer` for ids whose tokenizer is not in
        the folder. FormatError for files that are cut or do not fit each other.
        """
        place = local_path(path)
        manifest = read_manifest(place)
        if manifest is not None and dtype not in (None, manifest.dtype):
            raise ConfigError(f"the manifest of `{place}` says `{manifest.dtype}`, not `{dtype}`")
        return Dataset(Origin(place, manifest, dtype, tokenizer))

    @property
    def path(self) -> Path:
        return self.origin.path

    @property
    def manifest(self) -> Manifest | None:
        """None for files of other tools."""
        return self.origin.manifest

    @property
    def mode(self) -> str:
        """`pretrain`, `sft` or `preference`."""
        return self.origin.mode

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that the ids belong to. ConfigError if there is none, or another was given:
        the message names both hashes."""
        return self.origin.tokenizer

    @property
    def has_tokenizer(self) -> bool:
        """Whether `tokenizer` has something to load."""
        return self.origin.has_tokenizer

    def __getitem__(self, split: str) -> "SplitView":
        name = _OTHER_NAMES.get(split, split)
        if name not in self.splits:
            there = ", ".join(f"`{each}`" for each in self.splits) or "none"
            raise ConfigError(f"`{self.path}` has no split `{split}`, it has {there}")
        return self.splits[name]

    @property
    def main_split(self) -> "SplitView":
        """`train`, or the only split there is."""
        if len(self.splits) == 1:
            return next(iter(self.splits.values()))
        return self["train"]

    @property
    def tokens(self) -> "Array | ShardedArray":
        """All ids of the main split: a memory map, or a view over several."""
        return self.main_split.tokens

    @property
    def mask(self) -> "Array | ShardedArray | None":
        return self.main_split.mask

    @property
    def num_tokens(self) -> int:
        return self.main_split.num_tokens

    @property
    def num_documents(self) -> int:
        return self.main_split.num_documents

    def document(self, index: int) -> "Array":
        """The ids of one document of the main split, a view of the file."""
        return self.main_split.document(index)

    def bytes_of(self, index: int) -> int | None:
        """Raw bytes of its text."""
        return self.main_split.bytes_of(index)

    def __len__(self) -> int:
        return self.num_documents

    def __iter__(self) -> "Iterator[Array]":
        return iter(self.main_split)

    @property
    def pairs(self) -> "Pairs":
        """Preference data two by two."""
        return self.main_split.pairs

    def as_torch(
        self, split: str = "train", length: int = 1024, stride: int | None = None
    ) -> "TorchWindows":
        """For `torch.utils.data.DataLoader`: runs of `length` tokens as (inputs, targets)."""
        return self[split].as_torch(length, stride)

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, self.origin.arguments

    def __repr__(self) -> str:
        splits = ", ".join(f"{name}: {len(split):,}" for name, split in self.splits.items())
        return f"Dataset({str(self.path)!r}, mode={self.mode!r}, documents={{{splits}}})"


def _reopen(path: str, dtype: str | None, tokenizer: Any) -> Dataset:
    """What unpickling calls."""
    return Dataset.open(path, dtype=dtype, tokenizer=tokenizer)


def _open_splits(origin: Origin) -> "dict[str, SplitView]":
    from tokenmill.dataset.split_view import SplitView

    manifest = origin.manifest
    if manifest is None:
        from tokenmill.dataset.foreign import open_foreign

        foreign = open_foreign(origin.path, origin.dtype)
        return {"train": SplitView(origin, "train", [foreign], foreign.dtype)}
    from tokenmill.dataset.layouts import layout_named
    from tokenmill.dataset.shards import DescribedShard

    folder = origin.folder
    eos_id = manifest.tokenizer.special_tokens.get(manifest.eos or "")
    layout = layout_named(manifest.layout)
    return {
        name: SplitView(
            origin,
            name,
            [
                DescribedShard(folder, layout, manifest.dtype, shard, eos_id)
                for shard in split.shards
            ],
            manifest.dtype,
        )
        for name, split in manifest.splits.items()
    }
