"""Encoding, in the shape of `tiktoken.Encoding`: methods, defaults and classes of errors of 0.14.

The work is that of a tokenmill Tokenizer; here is what tiktoken means by a call.
"""

import functools
from collections.abc import Iterable, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, NoReturn, cast

from tokenmill import _core
from tokenmill.compat import unstable
from tokenmill.compat.coverage import Coverage
from tokenmill.compat.special_choice import NONE, Allowed, Disallowed, SpecialChoice
from tokenmill.compat.surrogates import repaired_utf8, utf8
from tokenmill.errors import ConfigError, VocabError
from tokenmill.tokenizer.formats.tiktoken_ranks import pattern_from_tiktoken
from tokenmill.tokenizer.threads import available_cores
from tokenmill.tokenizer.tokenizer import Tokenizer

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_MAX_ID = 2**32 - 1


class Encoding:
    r"""A drop-in for `tiktoken.Encoding`.

    >>> ranks = {bytes([byte]): byte for byte in range(256)} | {b"th": 256, b"the": 257}
    >>> special_tokens = {"<|endoftext|>": 258}
    >>> enc = Encoding("demo", pat_str=r"\S+|\s+", mergeable_ranks=ranks, special_tokens=special_tokens)
    >>> enc.encode("the the")
    [257, 32, 257]
    >>> enc.encode("the<|endoftext|>", allowed_special="all")
    [257, 258]
    >>> enc.decode([257, 258])
    'the<|endoftext|>'
    """

    def __init__(
        self,
        name: str,
        *,
        pat_str: str,
        mergeable_ranks: dict[bytes, int],
        special_tokens: dict[str, int],
        explicit_n_vocab: int | None = None,
    ) -> None:
        """From token → rank and special token → id.

        `explicit_n_vocab`, if given, is the number of both and one more than the highest id.
        """
        highest = max(max(mergeable_ranks.values()), max(special_tokens.values(), default=0))
        if explicit_n_vocab:
            # tiktoken asserts, so who expects an error here expects an AssertionError.
            assert len(mergeable_ranks) + len(special_tokens) == explicit_n_vocab
            assert highest == explicit_n_vocab - 1
        pattern = pattern_from_tiktoken(pat_str, "`pat_str`")
        tokenizer = Tokenizer.from_ranks(mergeable_ranks, special_tokens, pattern)
        self._take(
            name, tokenizer, pat_str, named=_core.Splitter(tokenizer.pattern).name is not None
        )
        # People build encodings from the parts of others, and then meet what they gave.
        self._special_tokens = special_tokens
        self.__dict__["_mergeable_ranks"] = mergeable_ranks

    def _take(self, name: str, tokenizer: Tokenizer, pat_str: str, *, named: bool) -> None:
        self.name = name
        self.max_token_value = tokenizer.vocab_size - 1
        self._pat_str = pat_str
        self._special_tokens = tokenizer.special_tokens
        self._tokenizer = tokenizer
        self._bpe = tokenizer._bpe  # pyright: ignore[reportPrivateUsage]
        # tiktoken leaves out text that no match covers. The patterns with names cover everything.
        self._may_leave_out = not named

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer, name: str | None = None) -> "Encoding":
        """`tokenizer` in tiktoken's shape: the ids are those it gives, whatever it was loaded from."""
        encoding = cls.__new__(cls)
        name = name or f"{tokenizer.pattern}-{tokenizer.vocab_size}"
        encoding._take(name, tokenizer, _core.Splitter(tokenizer.pattern).regex, named=True)
        return encoding

    @classmethod
    def from_encoding(cls, encoding: Any) -> "Encoding":
        """From a live `tiktoken.Encoding`, which stays as it is."""
        return cls(
            encoding.name,
            pat_str=encoding._pat_str,
            mergeable_ranks=encoding._mergeable_ranks,
            special_tokens=encoding._special_tokens,
        )

    def __repr__(self) -> str:
        return f"<Encoding {self.name!r}>"

    # Text to ids

    def encode_ordinary(self, text: str) -> list[int]:
        """The ids of `text`, where special tokens are text like any other."""
        data = repaired_utf8(text)
        if self._may_leave_out:
            self._check_covered([data], NONE)
        return self._bpe.encode(data, NONE, NONE)

    def encode(
        self,
        text: str,
        *,
        allowed_special: Allowed = NONE,
        disallowed_special: Disallowed = "all",
    ) -> list[int]:
        """The ids of `text`. Special tokens of `allowed_special` become their ids.

        A ValueError names one that stands in the text and in `disallowed_special`; `"all"`, the
        default, means all that are not allowed. What is neither is ordinary text.
        """
        data = repaired_utf8(text)
        allowed, disallowed = allowed_special, disallowed_special
        if allowed is not NONE or disallowed != "all":  # which is what most calls want
            allowed, disallowed = self._choice.choose([text], allowed, disallowed)
        if self._may_leave_out:
            self._check_covered([data], allowed)
        try:
            return self._bpe.encode(data, allowed, disallowed)
        except VocabError:
            self._choice.refuse([text], allowed)

    def encode_to_numpy(
        self,
        text: str,
        *,
        allowed_special: Allowed = NONE,
        disallowed_special: Disallowed = "all",
    ) -> "npt.NDArray[np.uint32]":
        """As `encode`, as an array. Half of a surrogate pair is a UnicodeEncodeError here."""
        import numpy as np

        data = utf8(text)
        allowed, disallowed = allowed_special, disallowed_special
        if allowed is not NONE or disallowed != "all":
            allowed, disallowed = self._choice.choose([text], allowed, disallowed)
        if self._may_leave_out:
            self._check_covered([data], allowed)
        try:
            ids = self._bpe.encode_to_array(data, allowed, disallowed, wide=True)
        except VocabError:
            self._choice.refuse([text], allowed)
        return np.frombuffer(cast(Any, ids), np.uint32)

    def encode_ordinary_batch(
        self, text: Iterable[str], *, num_threads: int = 8
    ) -> list[list[int]]:
        """`encode_ordinary` of each text, on up to `num_threads` threads."""
        return self._encode_texts(list(text), num_threads, NONE, NONE)

    def encode_batch(
        self,
        text: Iterable[str],
        *,
        num_threads: int = 8,
        allowed_special: Allowed = NONE,
        disallowed_special: Disallowed = "all",
    ) -> list[list[int]]:
        """`encode` of each text, on up to `num_threads` threads."""
        return self._encode_texts(list(text), num_threads, allowed_special, disallowed_special)

    def _encode_texts(
        self,
        texts: list[str],
        num_threads: int,
        allowed_special: Allowed,
        disallowed_special: Disallowed,
    ) -> list[list[int]]:
        threads = min(_checked_threads(num_threads), available_cores())
        data = [repaired_utf8(text) for text in texts]
        allowed, disallowed = self._choice.choose(texts, allowed_special, disallowed_special)
        if self._may_leave_out:
            self._check_covered(data, allowed)
        try:
            return self._bpe.encode_lists(data, allowed, disallowed, threads)
        except VocabError:
            self._choice.refuse(texts, allowed)

    def encode_with_unstable(
        self,
        text: str,
        *,
        allowed_special: Allowed = NONE,
        disallowed_special: Disallowed = "all",
    ) -> tuple[list[int], list[list[int]]]:
        """The ids that stay whatever follows `text`, and all ways in which the rest may begin.

        Half of a surrogate pair is a UnicodeEncodeError here.
        """
        utf8(text)
        ids = self.encode(
            text, allowed_special=allowed_special, disallowed_special=disallowed_special
        )
        return unstable.stable_and_completions(self._pieces, ids)

    def encode_single_token(self, text_or_bytes: str | bytes) -> int:
        """The id of the one token that this spells, special tokens included. KeyError if none does."""
        token = text_or_bytes.encode() if isinstance(text_or_bytes, str) else text_or_bytes
        if not isinstance(token, bytes):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"expected str or bytes, found `{type(token).__name__}`")
        token_id = self._core_vocab.token_id(token)
        if token_id is None:
            token_id = self._special_tokens.get(token.decode("utf-8", "surrogateescape"))
        if token_id is None:
            raise KeyError(token)
        return token_id

    # Ids to text

    def decode_bytes(self, tokens: Sequence[int]) -> bytes:
        """The bytes of `tokens`. A KeyError names an id that is not in the vocab."""
        try:
            return self._bpe.decode_bytes(tokens)
        except VocabError:
            self._refuse_ids(tokens)

    def decode(self, tokens: Sequence[int], errors: str = "replace") -> str:
        """The text of `tokens`; bytes that are not UTF-8 go by `errors`."""
        try:
            return self._bpe.decode(tokens, errors)
        except VocabError:
            self._refuse_ids(tokens)

    def decode_single_token_bytes(self, token: int) -> bytes:
        """The bytes of one token, special or not. KeyError for an id that is not in the vocab."""
        token_id = index(token)
        try:
            return self._bytes_by_id[token_id]
        except KeyError:
            self._refuse_ids([token_id])

    def decode_tokens_bytes(self, tokens: Iterable[int]) -> list[bytes]:
        """The bytes of each token."""
        ids = tokens if isinstance(tokens, list) else list(tokens)
        try:
            return self._bpe.tokens(ids)
        except VocabError:
            self._refuse_ids(ids)

    def decode_with_offsets(self, tokens: Sequence[int]) -> tuple[str, list[int]]:
        """The text of `tokens`, and for each of them the first character it has a part of.

        UnicodeDecodeError if their bytes are not UTF-8.
        """
        try:
            return self._bpe.decode_with_starts(tokens)
        except VocabError:
            self._refuse_ids(tokens)

    def decode_batch(
        self, batch: Iterable[Sequence[int]], *, errors: str = "replace", num_threads: int = 8
    ) -> list[str]:
        """`decode` of each."""
        _checked_threads(num_threads)
        rows = batch if isinstance(batch, list) else list(batch)
        try:
            return self._bpe.decode_each(rows, errors)
        except VocabError:
            return [self.decode(tokens, errors) for tokens in rows]

    def decode_bytes_batch(
        self, batch: Iterable[Sequence[int]], *, num_threads: int = 8
    ) -> list[bytes]:
        """`decode_bytes` of each."""
        _checked_threads(num_threads)
        rows = batch if isinstance(batch, list) else list(batch)
        try:
            return self._bpe.decode_each(rows, None)
        except VocabError:
            return [self.decode_bytes(tokens) for tokens in rows]

    # What it is made of

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer behind it, for what tiktoken has no method for."""
        return self._tokenizer

    def token_byte_values(self) -> list[bytes]:
        """The bytes of every token that is not special, sorted."""
        return self._sorted_tokens.copy()

    @functools.cached_property
    def _sorted_tokens(self) -> list[bytes]:
        special_ids = self._special_token_values
        tokens = self._bytes_by_id.items()
        return sorted(token for token_id, token in tokens if token_id not in special_ids)

    @property
    def eot_token(self) -> int:
        """The id of `<|endoftext|>`. KeyError if there is none."""
        return self._special_tokens["<|endoftext|>"]

    @functools.cached_property
    def special_tokens_set(self) -> set[str]:
        """Every special token."""
        return set(self._special_tokens)

    def is_special_token(self, token: int) -> bool:
        """Whether `token` is the id of a special token."""
        assert isinstance(token, int)
        return token in self._special_token_values

    @property
    def n_vocab(self) -> int:
        """One more than the highest id."""
        return self.max_token_value + 1

    # Private in tiktoken too, and used all the same by code that builds one encoding from another

    @functools.cached_property
    def _mergeable_ranks(self) -> dict[bytes, int]:
        """Token → rank. VocabError if ranks alone would not give the same ids."""
        vocab = self._tokenizer._vocab  # pyright: ignore[reportPrivateUsage]
        reason = vocab.proof.difference
        if vocab.normalizer is not None:
            reason = f"tiktoken has no normalizer, this tokenizer has `{vocab.normalizer}`"
        if reason is not None:
            raise VocabError(f"`{self.name}` cannot be told by ranks: {reason}")
        special_ids = self._special_token_values
        tokens = self._bytes_by_id.items()
        return {token: rank for rank, token in tokens if rank not in special_ids}

    @functools.cached_property
    def _special_token_values(self) -> set[int]:
        return set(self._special_tokens.values())

    def _encode_single_piece(self, text_or_bytes: str | bytes) -> list[int]:
        """The ids of a text that the pattern does not cut."""
        is_text = isinstance(text_or_bytes, str)
        return self._pieces.encode_piece(text_or_bytes.encode() if is_text else text_or_bytes)

    def _encode_only_native_bpe(self, text: str) -> list[int]:
        return self.encode_ordinary(text)

    def _encode_bytes(self, text: bytes) -> list[int]:
        """The ids of bytes that need not be UTF-8, cut where tiktoken guesses that they would be."""
        if not isinstance(text, bytes):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"expected bytes, found `{type(text).__name__}`")
        return unstable.encode_broken_utf8(self._pieces, text)

    # Pickles hold a tokenizer, which is checked when it is read, and no ranks: those follow from it.
    def __getstate__(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "tokenizer": self._tokenizer,
            "pat_str": self._pat_str,
            "named": not self._may_leave_out,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._take(**state)

    # Helpers

    @functools.cached_property
    def _core_vocab(self) -> _core.Vocab:
        return self._tokenizer._vocab.core  # pyright: ignore[reportPrivateUsage]

    @functools.cached_property
    def _bytes_by_id(self) -> dict[int, bytes]:
        return {i: token for i, token in enumerate(self._core_vocab.tokens()) if token}

    @functools.cached_property
    def _choice(self) -> SpecialChoice:
        return SpecialChoice(self.special_tokens_set)

    @functools.cached_property
    def _coverage(self) -> Coverage:
        return Coverage(self._tokenizer.pattern)

    @functools.cached_property
    def _pieces(self) -> unstable.Pieces:
        if self._tokenizer.normalizer is not None:
            raise NotImplementedError(
                "how a text may go on is not known where a normalizer may change it"
            )
        splitter = _core.Splitter(self._tokenizer.pattern)
        return unstable.Pieces(self._bpe, splitter, self._core_vocab)

    def _refuse_ids(self, tokens: Sequence[int]) -> NoReturn:
        """Raise for an id that made the core refuse `tokens`: numbers that are no id come first."""
        for token in tokens:
            if not 0 <= token <= _MAX_ID:
                raise OverflowError(f"token id {token} is not between 0 and {_MAX_ID}")
        unknown = next((token for token in tokens if token not in self._bytes_by_id), "?")
        raise KeyError(f"token id {unknown} is not in the vocab, whose size is {self.n_vocab}")

    def _check_covered(self, data: Sequence[str | bytes], allowed: Allowed) -> None:
        """Refuse text that no match of a custom pattern covers: tiktoken would leave it out."""
        special_tokens = self.special_tokens_set if allowed == "all" else allowed
        if not all(self._coverage.covers(text, special_tokens) for text in data):
            raise NotImplementedError(
                f"no match of the pattern `{self._pat_str}` covers the whole text; tiktoken "
                "leaves out the rest, which tokenmill never does"
            )


def _checked_threads(num_threads: int) -> int:
    if num_threads <= 0:
        raise ConfigError(f"`num_threads` must be greater than 0, found {num_threads}")
    return int(num_threads)
