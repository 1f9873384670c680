# pyright: basic
"""The token ids that training reads: a split of a dataset, or a plain file that nothing describes.

What always holds: every id is below the vocab size, and two streams of one run are of one tokenizer.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tokenmill.dataset.dataset import Dataset
from tokenmill.dataset.split_view import SplitView
from tokenmill.errors import ConfigError, VocabError
from tokenmill.progress import Meter, ProgressChoice
from tokenmill.storage.files import local_path
from tokenmill.tokenizer.tokenizer import Tokenizer

_SCAN_ITEMS = 1 << 22


@dataclass(frozen=True)
class DataSettings:
    """Where ids come from."""

    train: str | Path
    """A dataset, or a plain file of ids."""
    validation: str | Path | None = None
    """`None` takes the split `validation` of `train`, if it has one."""
    vocab_size: int | None = None
    """For files that nothing describes."""
    dtype: str | None = None


@dataclass(frozen=True)
class TokenData:
    """One stream of ids, mapped, and what is known about it."""

    name: str
    split: SplitView
    vocab_size: int
    tokenizer: Tokenizer | None
    sha256: str
    """Of the ids, from the manifest or by reading them."""

    @property
    def tokens(self) -> Any:
        return self.split.tokens

    @property
    def num_tokens(self) -> int:
        return self.split.num_tokens

    @property
    def bytes_per_token(self) -> float | None:
        """Raw bytes of the text for each token; `None` if nobody counted."""
        num_bytes = self.split.num_bytes
        return num_bytes / self.num_tokens if num_bytes and self.num_tokens else None

    @property
    def mask(self) -> Any | None:
        return self.split.mask

    @property
    def ends(self) -> Any | None:
        """Where documents end, `None` if nobody knows."""
        return document_ends(self.split)

    @property
    def tokenizer_sha256(self) -> str | None:
        return None if self.tokenizer is None else self.tokenizer.sha256

    @property
    def encoded_with(self) -> str | None:
        """The sha256 of the tokenizer that made the ids: a plain file comes without it, but its manifest says which it was."""
        manifest = self.split.origin.manifest
        return None if manifest is None else manifest.tokenizer.sha256


def document_ends(split: SplitView) -> Any | None:
    """The end of each document of `split`, counted over all its shards."""
    if split.origin.manifest is None and not split.num_documents:
        return None
    before, parts = 0, []
    for shard in split.shards:
        parts.append(np.asarray(shard.ends, dtype=np.int64) + before)
        before += shard.num_tokens
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def open_split(
    path: str | os.PathLike[str],
    split: str,
    *,
    vocab_size: int | None = None,
    dtype: str | None = None,
    meter: Meter | None = None,
) -> TokenData:
    """The ids of one split. A file without a manifest needs `vocab_size`, and is read once to see that all ids are below it."""
    dataset = Dataset.open(path, dtype=dtype)
    view = dataset.main_split if len(dataset.splits) == 1 else dataset[split]
    name = str(path) if len(dataset.splits) == 1 else f"{path} ({view.name})"
    if dataset.manifest is None:
        if vocab_size is None:
            raise ConfigError(
                f"nothing says which vocab the ids of `{path}` are of",
                "pass `--vocab-size N`, or encode with `tokenmill encode`",
            )
        digest = _scan(view, name, vocab_size, meter)
        return TokenData(name, view, vocab_size, None, digest)
    stated = dataset.manifest.tokenizer.vocab_size
    if vocab_size is not None and vocab_size != stated:
        raise ConfigError(f"`{path}` was encoded with a vocab of {stated:,}, not {vocab_size:,}")
    digest = hashlib.sha256()
    for shard in dataset.manifest.splits[view.name].shards:
        digest.update(shard.files["tokens"].sha256.encode())
    tokenizer = dataset.tokenizer if dataset.has_tokenizer else None
    return TokenData(name, view, stated, tokenizer, digest.hexdigest())


def _scan(view: SplitView, name: str, vocab_size: int, meter: Meter | None) -> str:
    """The sha256 of the ids; VocabError at the first that is out of range."""
    digest = hashlib.sha256()
    tokens, total = view.tokens, view.num_tokens
    if meter is not None:
        meter.begin("scanning", "tokens")
    for start in range(0, total, _SCAN_ITEMS):
        part = np.ascontiguousarray(tokens[start : start + _SCAN_ITEMS])
        if len(part) and int(part.max()) >= vocab_size:
            at = start + int(np.argmax(part >= vocab_size))
            raise VocabError(
                f"token {at:,} of `{name}` is {int(tokens[at])}, but a vocab of {vocab_size:,} ends at {vocab_size - 1:,}",
                "is `--vocab-size` right, and `--dtype`?",
            )
        digest.update(part.tobytes())
        if meter is not None:
            meter.update(start + len(part), (start + len(part)) / total)
    return digest.hexdigest()


def require_one_tokenizer(train: TokenData, other: TokenData) -> None:
    """ConfigError naming both hashes if the two are not of one tokenizer."""
    if train.vocab_size != other.vocab_size or train.encoded_with != other.encoded_with:
        raise ConfigError(
            f"`{train.name}` and `{other.name}` are not of one tokenizer: "
            f"sha256 `{train.encoded_with}` with {train.vocab_size:,} tokens, "
            f"and `{other.encoded_with}` with {other.vocab_size:,}",
            "encode both with the same one",
        )


def default_validation(path: str | os.PathLike[str]) -> str | None:
    """The name of the validation split of the dataset at `path`, `None` if it has none."""
    if Path(path).suffix in (".npy", ".bin", ".ds"):
        return None
    return "validation" if "validation" in Dataset.open(path).splits else None


def as_data_settings(data: str | os.PathLike[str] | DataSettings) -> DataSettings:
    """A dataset by its path alone, or what is said about it in full."""
    return data if isinstance(data, DataSettings) else DataSettings(local_path(data))


def open_data(data: DataSettings, progress: ProgressChoice) -> tuple[TokenData, TokenData | None]:
    """What is trained on, and what is held against it, of one tokenizer."""
    meter = Meter(progress)
    try:
        options: dict[str, Any] = {
            "vocab_size": data.vocab_size,
            "dtype": data.dtype,
            "meter": meter,
        }
        train = open_split(data.train, "train", **options)
        where = data.validation if data.validation is not None else data.train
        split = default_validation(where) if data.validation is None else "validation"
        validation = None if split is None else open_split(where, split, **options)
    finally:
        meter.end()
    if validation is not None:
        require_one_tokenizer(train, validation)
    return train, validation
