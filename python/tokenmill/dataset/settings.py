"""How documents become a dataset: one frozen record of every choice, with the defaults everybody
else refers to."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict

from tokenmill.dataset.manifest import LAYOUT_NAMES, MODES
from tokenmill.errors import ConfigError, VocabError
from tokenmill.sources.choices import require_one_of, require_whole_number

if TYPE_CHECKING:
    from tokenmill.dataset.layouts import Layout
    from tokenmill.tokenizer.tokenizer import Tokenizer

MAX_SEED = (1 << 64) - 1
LLMC_SHARD_TOKENS = 100_000_000
"""What llm.c's own scripts put into a file."""


class EncodeKeywords(TypedDict, total=False):
    """The keywords `tm.encode_dataset` hands to EncodeSettings; that class explains them."""

    layout: str
    mode: str
    profile: str | os.PathLike[str]
    chat_template: str | os.PathLike[str] | None
    shape: str | None
    max_tokens: int | None
    too_long: str
    eos: str | None
    bos: str | None
    allow_special: Sequence[str] | Literal["all"]
    val_fraction: float | None
    seed: int
    shard_tokens: int | None
    shuffle_documents: int | None
    dtype: str | None


class Ends(NamedTuple):
    """The ids around each document, `None` for none."""

    bos: int | None
    eos: int | None


@dataclass(frozen=True)
class EncodeSettings:
    """Everything that decides the bytes of a dataset, besides tokenizer and text."""

    layout: str = "npy"
    """Format of the token files: `npy`, `bin`, `llmc`, `megatron` or `datatrove`."""
    mode: str = "pretrain"
    """`pretrain`: documents are text; `sft`: rows with a conversation each; `preference`: rows with a
    chosen and a rejected one, which become two documents."""
    profile: str | os.PathLike[str] = "chat"
    """How conversations are rendered, by name or as a TOML file; for `sft` and `preference`."""
    chat_template: str | os.PathLike[str] | None = None
    """A chat template of others in place of a profile: a Jinja file, or `tokenizer` for the one on
    board. It runs in a sandbox."""
    shape: str | None = None
    """How rows hold a conversation; `None` finds out by the keys of each."""
    max_tokens: int | None = None
    """Longest conversation; `None` sets no limit."""
    too_long: str = "drop"
    """What happens to a longer one: `drop`, `keep-start`, `keep-end` or `error`."""
    eos: str | None = "<|endoftext|>"
    """Special token after every document."""
    bos: str | None = None
    """Special token before every document."""
    allow_special: Sequence[str] | Literal["all"] = ()
    """Special tokens that become ids where the text spells them; the others are text."""
    val_fraction: float | None = None
    """Share of the documents of `train` that go to `validation`, chosen by the hash of their text."""
    seed: int = 0
    """Of that choice."""
    shard_tokens: int | None = None
    """A shard ends with the document that brings it to this many tokens; `None` makes one shard."""
    shuffle_documents: int | None = None
    """Seed of a random order of the documents; `None` keeps that of the text."""
    dtype: str | None = None
    """`uint16` or `uint32`; `None` takes the narrower one if the vocab fits."""

    def __post_init__(self) -> None:
        require_one_of("format", self.layout, LAYOUT_NAMES)
        require_one_of("mode", self.mode, MODES)
        self._require_mode()
        if self.val_fraction is not None and not 0 < self.val_fraction < 1:
            raise ConfigError(f"val fraction {self.val_fraction} is not between 0 and 1")
        if self.shard_tokens is not None:
            require_whole_number("shard tokens", self.shard_tokens, 1)
        if self.shard_tokens is not None and self.format.max_shards == 1:
            raise ConfigError(
                f"`--format {self.layout}` keeps a split in one file, so `--shard-tokens` does not apply",
                "choose another format, or leave the split whole",
            )
        for name in ("seed", "shuffle_documents"):
            if getattr(self, name) is not None:
                require_whole_number(name.replace("_", " "), getattr(self, name), 0, MAX_SEED)

    def _require_mode(self) -> None:
        """ConfigError for a choice that the mode does not have."""
        ours = {"max_tokens": None, "shape": None, "too_long": "drop", "profile": "chat"}
        ours["chat_template"] = None
        if self.chat_template is not None and self.profile != EncodeSettings.profile:
            raise ConfigError(
                "`--profile` and `--chat-template` both say how conversations are rendered",
                "pass one of them",
            )
        texts = {"bos": None, "allow_special": (), "eos": EncodeSettings.eos}
        for name, default in (ours if self.mode == "pretrain" else texts).items():
            given = getattr(self, name)
            if given != default and not (name == "eos" and given is None):
                other = (
                    "with `--mode sft` and `--mode preference`"
                    if self.mode == "pretrain"
                    else "in text"
                )
                raise ConfigError(
                    f"`--{name.replace('_', '-')}` has a meaning only {other}, not in `--mode {self.mode}`"
                )

    @property
    def has_rows(self) -> bool:
        """Whether documents are rows with conversations, and not text."""
        return self.mode != "pretrain"

    @property
    def format(self) -> "Layout":
        from tokenmill.dataset.layouts import layout_named

        return layout_named(self.layout)

    @property
    def tokens_per_shard(self) -> int | None:
        """After how many tokens a shard is closed."""
        if self.shard_tokens is None and self.layout == "llmc":
            return LLMC_SHARD_TOKENS
        most = self.format.max_shard_tokens
        if most is not None and self.shard_tokens is not None and self.shard_tokens > most:
            raise ConfigError(
                f"`--shard-tokens {self.shard_tokens}` is more than the {most:,} tokens that a file "
                f"of `--format {self.layout}` can hold"
            )
        return self.shard_tokens

    def ends_in(self, tokenizer: "Tokenizer") -> Ends:
        """The ids of bos and eos. VocabError if the tokenizer lacks one."""
        if self.has_rows:  # the profile says what stands where
            return Ends(None, None)
        return Ends(self._id_in(tokenizer, "bos"), self._id_in(tokenizer, "eos"))

    def _id_in(self, tokenizer: "Tokenizer", name: str) -> int | None:
        token: str | None = getattr(self, name)
        if token is None:
            return None
        known = tokenizer.special_tokens
        if token not in known:
            listed = ", ".join(f"`{each}`" for each in list(known)[:8]) or "none"
            where = "after" if name == "eos" else "before"
            raise VocabError(
                f"the tokenizer has no special token `{token}` to put {where} each document; "
                f"it has {listed}",
                f"pass `--{name} NAME` with one of them, or `--{name} none` for no token there",
            )
        return known[token]

    def as_settings(self) -> dict[str, object]:
        """What a manifest records beside layout, dtype, bos and eos, in JSON's types."""
        allowed = self.allow_special
        held_out = self.val_fraction is not None
        rows = {
            "shape": self.shape,
            "max_tokens": self.max_tokens,
            "too_long": self.too_long if self.max_tokens is not None else None,
        }
        return {
            **(rows if self.has_rows else {}),
            "allow_special": allowed if isinstance(allowed, str) else sorted(allowed),
            "val_fraction": self.val_fraction,
            "seed": self.seed if held_out else None,
            "shard_tokens": self.tokens_per_shard,
            "shuffle_documents": self.shuffle_documents,
        }
