"""Origin: where a dataset is, what its manifest says, and the tokenizer its ids belong to.

A dataset and its splits share one, so that splits need not know their dataset: what is not in a
circle is let go of at once, and with it the maps of its files.
"""

import os
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenmill.dataset.manifest import TOKENIZER_FOLDER, Manifest
from tokenmill.errors import ConfigError
from tokenmill.tokenizer.tokenizer import Tokenizer


class Origin:
    """What there is to know about a dataset without its splits."""

    def __init__(
        self,
        path: Path,
        manifest: Manifest | None,
        dtype: str | None = None,
        tokenizer: "Tokenizer | str | os.PathLike[str] | None" = None,
    ) -> None:
        """`manifest` is None for files of other tools; `dtype` and `tokenizer` as in
        `Dataset.open`."""
        self.path, self.manifest = path, manifest
        self.dtype, self._given_tokenizer = dtype, tokenizer

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What opens the same again."""
        return str(self.path), self.dtype, self._given_tokenizer

    @property
    def folder(self) -> Path:
        """What paths of the manifest are relative to."""
        return self.path if self.path.is_dir() else self.path.parent

    @property
    def mode(self) -> str:
        """`pretrain`, `sft` or `preference`."""
        return "pretrain" if self.manifest is None else self.manifest.mode

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that the ids belong to. ConfigError if there is none, or another was given:
        the message names both hashes."""
        given = self._given_tokenizer
        found = given if isinstance(given, Tokenizer) else Tokenizer.load(self._tokenizer_path())
        if self.manifest is not None:
            require_same_tokenizer(self.manifest, found, str(self.path))
        return found

    @property
    def has_tokenizer(self) -> bool:
        """Whether `tokenizer` has something to load."""
        inside = self.manifest is not None and bool(self.manifest.tokenizer.files)
        return self._given_tokenizer is not None or inside

    def _tokenizer_path(self) -> str | os.PathLike[str]:
        given = self._given_tokenizer
        if given is not None and not isinstance(given, Tokenizer):
            return given
        if not self.has_tokenizer:
            raise ConfigError(
                f"`{self.path}` comes without its tokenizer",
                "pass `--tokenizer DIR` (`tokenizer=`)",
            )
        return self.folder / TOKENIZER_FOLDER


def require_same_tokenizer(manifest: Manifest, tokenizer: Tokenizer, name: str) -> None:
    """ConfigError naming both hashes if the ids of `name` are not of `tokenizer`."""
    if tokenizer.sha256 != manifest.tokenizer.sha256:
        raise ConfigError(
            f"`{name}` was encoded with the tokenizer of sha256 `{manifest.tokenizer.sha256}`, "
            f"this one has `{tokenizer.sha256}`",
            "ids mean something else in another tokenizer: use the one of the dataset",
        )
