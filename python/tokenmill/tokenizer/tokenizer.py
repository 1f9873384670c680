"""Tokenizer: text to token ids and back. What people hold in their hands; `_core` does the work.

A tokenizer never changes once made, so threads share it freely. Special tokens in a text are never
turned into ids unless the caller says so, because text from strangers may contain them.
"""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from tokenmill import _core
from tokenmill.errors import ConfigError, VocabError
from tokenmill.storage.files import local_path
from tokenmill.tokenizer import artifact
from tokenmill.tokenizer.formats import huggingface_json
from tokenmill.tokenizer.vocab import Merge, Vocab, show, vocab_from_bytes, vocab_from_ids

if TYPE_CHECKING:
    from pathlib import Path

AllowedSpecial = Literal["all"] | Collection[str]


class Tokenizer:
    """A vocab with its split pattern. Made by `train`, `load`, `from_vocab` or `from_ids`.

    >>> bytes_only = {byte: bytes([byte]) for byte in range(256)}
    >>> vocab = bytes_only | {256: b"th", 257: b"the", 258: b"<|end|>"}
    >>> tokenizer = Tokenizer.from_vocab(vocab, [(b"t", b"h"), (b"th", b"e")], ["<|end|>"], "gpt2")
    >>> tokenizer.encode("the")
    [257]
    >>> tokenizer.encode("the<|end|>", allowed_special="all")
    [257, 258]
    """

    # Any, because the report belongs to training, which no module of this folder imports.
    training: Any = None
    """The TrainingReport of the training that made this tokenizer, None if it was loaded."""

    def __init__(self, vocab: Vocab) -> None:
        """From a checked Vocab; `from_vocab` and `from_ids` take plain values."""
        splitter = _core.Splitter(vocab.pattern)
        in_id_order = dict(sorted(vocab.special_tokens.items(), key=lambda item: item[1]))
        pattern = splitter.name or splitter.regex
        self._vocab = replace(vocab, special_tokens=in_id_order, pattern=pattern)
        self._regex = splitter.regex
        self._bpe = artifact.build_bpe(self._vocab)

    @cached_property
    def _id_of(self) -> dict[bytes, int]:
        return {token: token_id for token_id, token in enumerate(self._vocab.tokens)}

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
    def load(path: str | os.PathLike[str]) -> "Tokenizer":
        """From a tokenizer folder or a tokenizer.json. FormatError naming an unsupported part."""
        return Tokenizer(artifact.read_tokenizer(local_path(path)))

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
            self._vocab, final, settings=settings, parents=parents, force=force
        )
        return final

    def encode(self, text: str | bytes, *, allowed_special: AllowedSpecial = ()) -> list[int]:
        """The ids of `text`.

        Special tokens named in `allowed_special` become their ids; `"all"` allows all. Any other
        special token in the text is a VocabError: use `encode_ordinary` for text that may hold
        anything.
        """
        allowed = self._allowed(allowed_special)
        if len(allowed) < len(self._vocab.special_tokens):
            for token in self._bpe.find_special(text):
                if token not in allowed:
                    raise VocabError(
                        f"the text contains the special token `{token}`, which is not allowed here",
                        f'pass `allowed_special={{"{token}"}}` to make it an id, or use '
                        "`encode_ordinary` to treat it as text",
                    )
        return self._bpe.encode(text, list(allowed))

    def encode_ordinary(self, text: str | bytes) -> list[int]:
        """The ids of `text`, where special tokens are text like any other."""
        return self._bpe.encode(text, [])

    def _allowed(self, allowed_special: AllowedSpecial) -> Collection[str]:
        known = self._vocab.special_tokens
        if allowed_special == "all":
            return known
        if isinstance(allowed_special, str):
            raise ConfigError(
                f"`allowed_special` is the string `{allowed_special}`, not `all` or a set",
                f'pass `{{"{allowed_special}"}}`',
            )
        for token in allowed_special:
            if token not in known:
                raise VocabError(
                    f"`{token}` is not a special token of this tokenizer",
                    "it has " + (", ".join(f"`{name}`" for name in known) or "none"),
                )
        return set(allowed_special)

    def decode(self, ids: Iterable[int], errors: str = "replace") -> str:
        """The text of `ids`. What is not UTF-8, such as half a character, goes by `errors`."""
        return self.decode_bytes(ids).decode("utf-8", errors)

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """The exact bytes of `ids`. An unknown id is a VocabError."""
        known = list(ids)
        try:
            return self._bpe.decode_bytes(known)
        except OverflowError:
            unknown = next(i for i in known if not 0 <= i < self.vocab_size)
            raise VocabError(self._unknown_id(unknown)) from None

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes of one token; a special token's are its spelling."""
        if not 0 <= token_id < self.vocab_size:
            raise VocabError(self._unknown_id(token_id))
        return self._vocab.tokens[token_id]

    def _unknown_id(self, token_id: int) -> str:
        return f"token id {token_id} is not in the vocab, ids run from 0 to {self.vocab_size - 1}"

    def token_id(self, token: bytes) -> int:
        """The id of the token that spells `token`. VocabError if there is none."""
        found = self._id_of.get(token)
        if found is None:
            raise VocabError(f"{show(token)} is not a token of this vocab")
        return found

    def unreachable(self) -> list[int]:
        """Ids that encoding their own bytes does not give back, special tokens aside."""
        return self._bpe.unreachable()

    @property
    def vocab_size(self) -> int:
        """Number of ids, bytes and special tokens included."""
        return len(self._vocab.tokens)

    @property
    def vocab(self) -> dict[int, bytes]:
        """id → bytes, special tokens included."""
        return dict(enumerate(self._vocab.tokens))

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

    def _behaviour(self) -> tuple[object, ...]:
        """All that decides ids. Patterns of one regex split alike, whatever they are called."""
        specials = tuple(self._vocab.special_tokens.items())
        return self._vocab.tokens, self._vocab.merges, specials, self._regex

    def __eq__(self, other: object) -> bool:
        """Equal when both give every text the same ids by the same tokens and merges."""
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

    # Pickles carry the bytes of a file that is checked when read, and no report of a training.
    def __reduce__(self) -> tuple[object, tuple[bytes, str]]:
        return _from_json, (huggingface_json.write(self._vocab), self.pattern)


def _from_json(data: bytes, pattern: str) -> Tokenizer:
    """What unpickling calls: the bytes of a tokenizer.json, checked as those of a file are."""
    return Tokenizer(huggingface_json.read(data, pattern=pattern))
