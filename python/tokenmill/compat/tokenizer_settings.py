"""TokenizerSettings: all of a `Tokenizer` that can be changed and saved.

Its tokens, those added by name, post-processor, truncation and padding. The plain tokenizer inside never
changes; adding tokens puts another one in its place, and encodings made before keep the old one.
"""

import os
import warnings
from typing import Any, Literal

from tokenmill.compat.added_tokens import (
    AddedToken,
    as_added_token,
    check_addition,
    listed_tokens,
)
from tokenmill.compat.decoding import Decoder
from tokenmill.compat.layout import Arrangement
from tokenmill.compat.length_rules import Padding, Truncation, read_padding, read_truncation
from tokenmill.compat.lookup import Lookup
from tokenmill.compat.post_processor import post_processor_value, read_post_processor
from tokenmill.compat.tokenizer_json import Document, document_of, write_document
from tokenmill.storage.files import write_atomically
from tokenmill.tokenizer.tokenizer import Tokenizer as PlainTokenizer


class TokenizerSettings:
    """What `Tokenizer` in `tokenizers.py` stands on."""

    def __init__(self, tokenizer: PlainTokenizer, document: Document | None = None) -> None:
        """`document` is the file that `tokenizer` comes from, if it does."""
        vocab = tokenizer._vocab  # pyright: ignore[reportPrivateUsage]
        parts: dict[str, Any] = {} if document is None else document.parts
        self._document = document
        self._added = listed_tokens(parts.get("added_tokens"))
        for token in vocab.special_tokens if document is None else ():
            is_special = token not in vocab.extras.not_special
            self._added[token] = AddedToken(token, normalized=False, special=is_special)
        # As in the original, a token never stops being special.
        self._special = {token for token, added in self._added.items() if added.special}
        self._new: set[str] = set()
        self._byte_level = document is None or parts.get("decoder") is not None
        self._encode_special_tokens = False
        self._truncation = read_truncation(parts.get("truncation"))
        self._padding = read_padding(parts.get("padding"))
        self._post_processor_value = vocab.extras.post_processor
        self._arrangement = Arrangement(read_post_processor(self._post_processor_value))
        self._take(tokenizer)

    def _take(self, tokenizer: PlainTokenizer) -> None:
        """Work with this one from now on, and with the special tokens as they are now."""
        self._tokenizer = tokenizer
        vocab = tokenizer._vocab  # pyright: ignore[reportPrivateUsage]
        allowed: Literal["all"] | frozenset[str] = "all"
        if self._encode_special_tokens:
            allowed = frozenset(self._added) - self._special
        self._lookup = Lookup(vocab, tokenizer._bpe, allowed)  # pyright: ignore[reportPrivateUsage]
        special_ids = frozenset(vocab.special_tokens[token] for token in self._special)
        self._decoder = Decoder(self._lookup, special_ids, byte_level=self._byte_level)

    @property
    def tokenizer(self) -> PlainTokenizer:
        """The tokenizer behind it, for what the original has no method for."""
        return self._tokenizer

    # Pickles hold the tokenizer, which is checked when it is read, and what was set.
    def __getstate__(self) -> dict[str, Any]:
        made_again = ("_lookup", "_decoder", "_document", "_arrangement")
        state = {name: value for name, value in self.__dict__.items() if name not in made_again}
        parts = None if self._document is None else self._document.parts
        return state | {"parts": parts, "outside_model": self._outside_model()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        parts, outside_model = state.pop("parts"), state.pop("outside_model")
        self.__dict__ |= state
        self._arrangement = Arrangement(read_post_processor(self._post_processor_value))
        self._take(self._tokenizer)
        self._document = None
        if parts is not None:
            self._document = Document(self._lookup.vocab, parts, outside_model=outside_model)

    # Tokens

    def token_to_id(self, token: str) -> int | None:
        """The id of a token given by its letters, or of a special token; None if there is none."""
        if not isinstance(token, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"token must be `str`, found `{type(token).__name__}`")
        return self._lookup.token_id(token)

    def id_to_token(self, id: int) -> str | None:
        """The letters of a token, or the special token; None for an unknown id."""
        if id < 0:
            raise OverflowError(f"token id {id} is below 0")
        letters = self._lookup.letters
        return letters[id] if id < len(letters) else None

    def get_vocab(self, with_added_tokens: bool = True) -> dict[str, int]:
        """Token → id. Without added tokens, only what the model has."""
        outside = frozenset[str]() if with_added_tokens else self._outside_model()
        letters = enumerate(self._lookup.letters)
        return {token: i for i, token in letters if token is not None and token not in outside}

    def get_vocab_size(self, with_added_tokens: bool = True) -> int:
        """The number of tokens in `get_vocab`."""
        size = self._lookup.num_tokens
        return size if with_added_tokens else size - len(self._outside_model())

    def _outside_model(self) -> frozenset[str]:
        outside = frozenset[str]() if self._document is None else self._document.outside_model
        return outside | self._new

    def get_added_tokens_decoder(self) -> dict[int, AddedToken]:
        """Id → token, for those that were added by name."""
        ids = self._lookup.vocab.special_tokens
        return {ids[token]: added for token, added in self._added_by_id()}

    def _added_by_id(self) -> list[tuple[str, AddedToken]]:
        ids = self._lookup.vocab.special_tokens
        return sorted(self._added.items(), key=lambda item: ids[item[0]])

    def add_tokens(self, tokens: list[Any]) -> int:
        """Add tokens that are found in a text as a whole. New ones get ids at the end.

        Gives the number of tokens that were new or are now looked for in another way.
        """
        return self._add(tokens, special=False)

    def add_special_tokens(self, tokens: list[Any]) -> int:
        """The same for tokens that decoding leaves out."""
        return self._add(tokens, special=True)

    def _add(self, tokens: list[Any], *, special: bool) -> int:
        if not isinstance(tokens, list):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"expected a list of tokens, found `{type(tokens).__name__}`")
        added, new, changed = dict(self._added), list[str](), 0
        for token in [as_added_token(token, special=special) for token in tokens]:
            if not token.content or added.get(token.content) == token:
                continue
            if token.content not in added:
                self._check_new(token, added)
                new.append(token.content)
            added[token.content] = token
            changed += 1
        self._added = added
        self._special |= {token for token, one in added.items() if one.special}
        self._new.update(new)
        self._take(self._tokenizer.with_special_tokens(new) if new else self._tokenizer)
        return changed

    def _check_new(self, token: AddedToken, added: dict[str, AddedToken]) -> None:
        if self._lookup.token_id(token.content) is not None:
            raise NotImplementedError(
                f"`{token.content}` is a token of the model, and cannot be an added one as well"
            )
        check_addition(token, added.values(), self._lookup.vocab.normalizer)

    @property
    def encode_special_tokens(self) -> bool:
        """Whether special tokens in a text are text like any other."""
        return self._encode_special_tokens

    @encode_special_tokens.setter
    def encode_special_tokens(self, value: bool) -> None:
        self._encode_special_tokens = value
        self._take(self._tokenizer)

    # What happens to encodings

    @property
    def post_processor(self) -> Any:
        """What is put around a text, as the JSON value of tokenizer.json.

        Set it to such a value, to an object of `tokenizers.processors`, or to None.
        """
        return self._post_processor_value

    @post_processor.setter
    def post_processor(self, processor: Any) -> None:
        value = post_processor_value(processor)
        self._arrangement = Arrangement(read_post_processor(value))
        self._post_processor_value = value

    def num_special_tokens_to_add(self, is_pair: bool) -> int:
        """How many tokens the post-processor puts around a text or a pair."""
        return self._arrangement.num_added(is_pair=is_pair)

    def enable_truncation(
        self,
        max_length: int,
        stride: int = 0,
        strategy: str = "longest_first",
        direction: str = "right",
        **unknown: Any,
    ) -> None:
        """Cut encodings to `max_length` tokens; `Encoding.overflowing` has the rest."""
        _warn_of(unknown)
        truncation = Truncation(max_length, stride, strategy, direction)
        truncation.check_room(self.num_special_tokens_to_add(False))
        self._truncation = truncation

    def no_truncation(self) -> None:
        """Leave encodings as long as they are."""
        self._truncation = None

    @property
    def truncation(self) -> dict[str, Any] | None:
        """The arguments of `enable_truncation`, None if there is none."""
        return None if self._truncation is None else self._truncation.as_properties()

    def enable_padding(
        self,
        direction: str = "right",
        pad_id: int = 0,
        pad_type_id: int = 0,
        pad_token: str = "[PAD]",
        length: int | None = None,
        pad_to_multiple_of: int | None = None,
        **unknown: Any,
    ) -> None:
        """Pad encodings to `length` tokens, or to the longest of a batch."""
        _warn_of(unknown)
        self._padding = Padding(
            length, pad_to_multiple_of, pad_id, pad_token, pad_type_id, direction
        )

    def no_padding(self) -> None:
        """Leave encodings as short as they are."""
        self._padding = None

    @property
    def padding(self) -> dict[str, Any] | None:
        """The arguments of `enable_padding`, None if there is none."""
        return None if self._padding is None else self._padding.as_properties()

    # To a file

    def to_str(self, pretty: bool = False) -> str:
        """The text of tokenizer.json, with what is set now."""
        vocab = self._lookup.vocab
        document = self._document or document_of(vocab)
        parts = document.parts | {
            "truncation": None if self._truncation is None else self._truncation.as_json(),
            "padding": None if self._padding is None else self._padding.as_json(),
            "added_tokens": [
                added.as_json(vocab.special_tokens[token]) for token, added in self._added_by_id()
            ],
            "post_processor": self._post_processor_value,
        }
        return write_document(vocab, parts, self._outside_model(), pretty=pretty)

    def save(self, path: str | os.PathLike[str], pretty: bool = True) -> None:
        """Write tokenizer.json."""
        write_atomically(path, self.to_str(pretty).encode())


def _warn_of(unknown: dict[str, Any]) -> None:
    """The original prints that it ignores an argument, and does."""
    for name in unknown:
        warnings.warn(f"unknown argument `{name}` is ignored", stacklevel=3)
