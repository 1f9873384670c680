"""Tokenizer: text to token ids and back. What people hold in their hands; `_core` does the work.

A tokenizer never changes once made, so threads share it freely, and so do processes: it pickles, and
works after a fork. Special tokens in a text are never turned into ids unless the caller says so,
because text from strangers may contain them.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

from tokenmill import _core
from tokenmill.errors import ConfigError, VocabError
from tokenmill.storage.files import local_path
from tokenmill.tokenizer import artifact
from tokenmill.tokenizer.codec import Codec
from tokenmill.tokenizer.vocab import Extras, Merge, Vocab, show, vocab_from_bytes, vocab_from_ids

if TYPE_CHECKING:
    from pathlib import Path


class Tokenizer(Codec):
    """A vocab with its split pattern: encodes and decodes as `Codec` says, and never changes.

    Made by `train`, `load`, `from_vocab`, `from_ids` or `from_ranks`. Two are equal when they give
    every text the same ids by the same tokens and merges.

    >>> bytes_only = {byte: bytes([byte]) for byte in range(256)}
    >>> vocab = bytes_only | {256: b"th", 257: b"the", 258: b"<|end|>"}
    >>> tokenizer = Tokenizer.from_vocab(vocab, [(b"t", b"h"), (b"th", b"e")], ["<|end|>"], "gpt2")
    >>> tokenizer.encode("the")
    [257]
    >>> tokenizer.encode("the<|end|>", allowed_special="all")
    [257, 258]
    """

    __slots__ = ("__weakref__", "_regex", "_vocab", "training")

    _vocab: Vocab
    _regex: str
    # Any, because the report belongs to training, which no module of this folder imports.
    training: Any
    """The TrainingReport of the training that made this tokenizer, None if it was loaded."""

    def __init__(self, vocab: Vocab) -> None:
        """From a checked Vocab; `from_vocab` and its sisters take plain values."""
        splitter = _core.Splitter(vocab.pattern)
        bpe = _core.Bpe(vocab.core, splitter, nfc=vocab.normalizer == "nfc")
        pattern = splitter.name or splitter.regex
        # The same object where it can be: what was found out about it stays with it.
        named = vocab if vocab.pattern == pattern else replace(vocab, pattern=pattern)
        self._set(named, bpe, splitter.regex)

    def _set(self, vocab: Vocab, bpe: _core.Bpe, regex: str, training: object = None) -> None:
        parts = {"_vocab": vocab, "_bpe": bpe, "_regex": regex, "training": training}
        for name, part in parts.items():
            object.__setattr__(self, name, part)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Tokenizer never changes: `{name}` cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a Tokenizer never changes: `{name}` cannot be deleted")

    @staticmethod
    def from_vocab(
        vocab: Mapping[int, bytes],
        merges: Sequence[tuple[bytes, bytes]],
        special_tokens: Sequence[str] | Mapping[str, int] = (),
        pattern: str = "gpt4",
    ) -> "Tokenizer":
        """From id → bytes and merges by bytes, in any id layout without holes.

        Special tokens that the vocab lacks follow its highest id.
        """
        return Tokenizer(vocab_from_bytes(vocab, merges, special_tokens, pattern))

    @staticmethod
    def from_ids(
        tokens: Sequence[bytes],
        merges: Sequence[Merge],
        special_tokens: Mapping[str, int],
        pattern: str,
    ) -> "Tokenizer":
        """From tokens by id and merges as (left id, right id, joined id) in rank order."""
        return Tokenizer(vocab_from_ids(tokens, merges, special_tokens, pattern))

    @staticmethod
    def from_ranks(
        ranks: Mapping[bytes, int], special_tokens: Mapping[str, int], pattern: str
    ) -> "Tokenizer":
        """From tokens with their ranks, which are their ids, as tiktoken keeps them.

        Special tokens may have any ids above the last rank.
        """
        from tokenmill.tokenizer.formats.live_objects import vocab_from_ranks

        return Tokenizer(vocab_from_ranks(ranks, special_tokens, pattern))

    @staticmethod
    def load(
        source: str | os.PathLike[str] | object,
        *,
        pattern: str | None = None,
        special_tokens: Sequence[str] | Mapping[str, int] | None = None,
    ) -> "Tokenizer":
        """From a tokenizer folder, one of its files, or an object of another library.

        The path of a folder, a tokenizer.json, a .tiktoken file or a vocab.json with its merges.txt;
        or a `tiktoken.Encoding` or `tokenizers.Tokenizer`. `pattern` and `special_tokens` are for
        files that do not say them, and a ConfigError for all others. FormatError naming an
        unsupported part.
        """
        if isinstance(source, str | os.PathLike):
            path = local_path(cast("str | os.PathLike[str]", source))
            return Tokenizer(
                artifact.read_tokenizer(path, pattern=pattern, special_tokens=special_tokens)
            )
        from tokenmill.tokenizer.formats import live_objects

        if pattern is not None or special_tokens is not None:
            raise ConfigError(
                f"a `{type(source).__name__}` says itself how it splits and what is special",
                "leave `pattern` and `special_tokens` out",
            )
        return Tokenizer(live_objects.read(source))

    def with_special_tokens(self, tokens: Sequence[str]) -> "Tokenizer":
        """A tokenizer that has `tokens` as special tokens too, with new ids behind the last one.

        Those it has already keep their ids. Everything else stays: this one is not changed.
        """
        if isinstance(tokens, str):
            raise VocabError(f"special tokens are the one string `{tokens}`", "pass a list")
        core = self._vocab.core
        all_tokens, specials = core.tokens(), core.special_tokens
        for token in dict.fromkeys(tokens):
            if token not in specials:
                specials[token] = len(all_tokens)
                all_tokens.append(_spelling(token))
        extended = _core.Vocab(
            all_tokens, core.merges(), specials, ignore_merges=core.ignore_merges
        )
        return Tokenizer(replace(self._vocab, core=extended))

    def with_chat_template(self, template: str | None) -> "Tokenizer":
        """The same tokenizer with another Jinja template, or none, to be saved with it."""
        extras = replace(self._vocab.extras, chat_template=template)
        same = object.__new__(Tokenizer)
        same._set(replace(self._vocab, extras=extras), self._bpe, self._regex, self.training)
        return same

    def with_training(self, report: object) -> "Tokenizer":
        """The same tokenizer with the report of the training that made it."""
        same = object.__new__(Tokenizer)
        same._set(self._vocab, self._bpe, self._regex, report)
        return same

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        settings: Mapping[str, object] | None = None,
        parents: Mapping[str, object] | None = None,
        force: bool = False,
    ) -> "Path":
        """Write the tokenizer folder (docs/formats.md), read back and compared before it is there.

        `settings` and `parents` go into the manifest. A folder that holds this very tokenizer is
        left alone, another one is refused unless `force` is given.
        """
        final = local_path(folder)
        artifact.write_tokenizer(
            self._vocab, final, settings=settings, parents=parents, force=force, bpe=self._bpe
        )
        return final

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of one token; a special token's are its spelling."""
        return self._bpe.decode_bytes([token_id])

    def token_id(self, token: bytes) -> int:
        """The id of the token that spells `token`. VocabError if there is none."""
        found = self._vocab.core.token_id(token)
        if found is not None:
            return found
        for special_token, token_id in self._vocab.special_tokens.items():
            if special_token.encode() == token:
                return token_id
        raise VocabError(f"{show(token)} is not a token of this vocab")

    def unreachable(self) -> list[int]:
        """Ids of ordinary tokens to which no merges lead from their own bytes."""
        return self._vocab.core.unreachable()

    def memory(self) -> dict[str, int]:
        """Bytes held by each part: vocab, merges, decoder, and the cache of every thread so far."""
        return self._bpe.memory()

    @property
    def vocab_size(self) -> int:
        """Number of ids, bytes and special tokens included, and ids without a token if there are
        any."""
        return self._bpe.vocab_size

    @property
    def vocab(self) -> dict[int, bytes]:
        """id → bytes, special tokens included."""
        return {token_id: token for token_id, token in enumerate(self._vocab.tokens) if token}

    @property
    def merges(self) -> list[tuple[bytes, bytes]]:
        """The two parts of each merge, in rank order."""
        return self._vocab.merges_as_bytes()

    @property
    def special_tokens(self) -> dict[str, int]:
        """Special token → id, in id order."""
        return dict(self._vocab.special_tokens)

    @property
    def pattern(self) -> str:
        """The split pattern: its name, or the regex itself if it has none."""
        return self._vocab.pattern

    @property
    def normalizer(self) -> Literal["nfc"] | None:
        """What is done to text before it is split."""
        return self._vocab.normalizer

    @property
    def ignore_merges(self) -> bool:
        """Whether a pretoken that is a token becomes its id even where no merges lead to it."""
        return self._vocab.ignore_merges

    @property
    def chat_template(self) -> str | None:
        """The Jinja template that came with the tokenizer. Nothing here runs it."""
        return self._vocab.extras.chat_template

    @property
    def sha256(self) -> str:
        """Of everything that decides ids: the same for two tokenizers exactly if they are equal,
        whatever files they come from. A dataset names its tokenizer by it."""
        return self._vocab.sha256

    def _behaviour(self) -> tuple[object, ...]:
        """All that decides ids. Patterns of one regex split alike, whatever they are called."""
        return self._vocab.core, self._regex, self._vocab.normalizer

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tokenizer):
            return NotImplemented
        return self._behaviour() == other._behaviour()

    def __hash__(self) -> int:
        return hash(self._behaviour())

    def __repr__(self) -> str:
        return (
            f"Tokenizer(vocab_size={self.vocab_size}, pattern={self.pattern!r}, "
            f"special_tokens={self.special_tokens})"
        )

    # What never changes needs no second one.
    def __copy__(self) -> "Tokenizer":
        return self

    def __deepcopy__(self, memo: object) -> "Tokenizer":
        return self

    # Plain values, checked when read as those of a file are, and no report of a training. A
    # tokenizer.json could not hold every vocab: two keys may read alike (docs/formats.md).
    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        vocab = self._vocab
        core = vocab.core
        parts = core.tokens(), core.merges(), core.special_tokens, core.ignore_merges
        return _from_parts, (*parts, vocab.pattern, vocab.normalizer, vocab.extras)


def _from_parts(
    tokens: Sequence[bytes],
    merges: Sequence[Merge],
    special_tokens: Mapping[str, int],
    ignore_merges: bool,
    pattern: str,
    normalizer: Literal["nfc"] | None,
    extras: Extras,
) -> Tokenizer:
    """What unpickling calls."""
    core = _core.Vocab(tokens, merges, special_tokens, ignore_merges=ignore_merges)
    return Tokenizer(Vocab(core, pattern, normalizer, extras))


def _spelling(special_token: str) -> bytes:
    if not isinstance(special_token, str) or not special_token:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise VocabError(
            f"special token {special_token!r} is not a string of one or more characters"
        )
    try:
        return special_token.encode()
    except UnicodeEncodeError:
        raise VocabError(
            f"special token {special_token!r} holds half of a surrogate pair"
        ) from None
