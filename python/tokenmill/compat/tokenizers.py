"""Hugging Face's `Tokenizer` on our core: the same calls, the same encodings, the same errors.

An import line is all that changes:

    from tokenmill.compat.tokenizers import Tokenizer      # was: from tokenizers import Tokenizer

For byte-level BPE, which is what tokenizer.json of GPT-2, Llama 3, Qwen and their kind holds. Special
tokens in a text become ids, and `post_processor` puts tokens around it, as in the original. What is
not supported raises a NotImplementedError or FormatError that names it (docs/compat.md).
"""

import asyncio
import os
from pathlib import Path
from typing import Any, NoReturn, cast

from tokenmill.compat.added_tokens import AddedToken
from tokenmill.compat.encoded_text import EncodedText, EncodedWords
from tokenmill.compat.encoding import Encoding
from tokenmill.compat.inputs import Pair, checked_words, core_text, split_pairs
from tokenmill.compat.layout import Alone
from tokenmill.compat.length_rules import pad, truncate
from tokenmill.compat.parts import TextPart
from tokenmill.compat.tokenizer_json import read_document
from tokenmill.compat.tokenizer_settings import TokenizerSettings
from tokenmill.errors import SourceError
from tokenmill.storage.files import unreadable
from tokenmill.tokenizer.threads import available_cores
from tokenmill.tokenizer.tokenizer import Tokenizer as PlainTokenizer

__all__ = ["AddedToken", "Encoding", "Tokenizer"]


class Tokenizer(TokenizerSettings):
    """A drop-in for `tokenizers.Tokenizer`.

    >>> import tokenmill as tm
    >>> documents = tm.documents(["low low lower lowest", "newer newest wider"])
    >>> plain = tm.train(documents, vocab_size=270, pattern="gpt2", special_tokens=["<|end|>"])
    >>> tokenizer = Tokenizer(plain)
    >>> encoding = tokenizer.encode("low low<|end|>")
    >>> encoding.tokens
    ['low', 'Ġlow', '<|end|>']
    >>> encoding.offsets
    [(0, 3), (3, 7), (7, 14)]
    >>> tokenizer.decode(encoding.ids)
    'low low'
    """

    def __init__(self, model: Any) -> None:
        """From a tokenmill tokenizer. The original starts untrained ones; use `tokenmill.train`."""
        if not isinstance(model, PlainTokenizer):
            raise NotImplementedError(
                f"`Tokenizer({type(model).__name__})` starts a tokenizer that is to be trained\n"
                "hint: train with `tokenmill.train`, or load a file with `from_file`"
            )
        super().__init__(model)

    # From elsewhere

    @staticmethod
    def from_tokenizer(tokenizer: PlainTokenizer) -> "Tokenizer":
        """A tokenmill tokenizer in this shape."""
        return Tokenizer(tokenizer)

    @staticmethod
    def from_file(path: str | os.PathLike[str]) -> "Tokenizer":
        """From a tokenizer.json."""
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise SourceError(str(unreadable(Path(path), error))) from error
        return _from_json(data, str(path))

    @staticmethod
    def from_str(json: str) -> "Tokenizer":
        """From the text of a tokenizer.json."""
        return _from_json(json.encode("utf-8", "surrogatepass"), "tokenizer.json")

    @staticmethod
    def from_buffer(buffer: bytes) -> "Tokenizer":
        """From the bytes of a tokenizer.json."""
        if not isinstance(buffer, bytes):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"expected bytes, found `{type(buffer).__name__}`")
        return _from_json(buffer, "tokenizer.json")

    @staticmethod
    def from_pretrained(
        identifier: str, revision: str = "main", token: str | None = None
    ) -> "Tokenizer":
        """From the tokenizer.json of a model on the Hugging Face Hub, fetched by huggingface_hub."""
        try:
            import huggingface_hub  # pyright: ignore
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                "`from_pretrained` fetches files through huggingface_hub, which is not installed\n"
                "hint: pip install huggingface_hub, or pass a file to `from_file`",
                name="huggingface_hub",
            ) from None
        download = cast(Any, huggingface_hub).hf_hub_download
        path = download(identifier, "tokenizer.json", revision=revision, token=token)
        return Tokenizer.from_file(path)

    # Text to ids

    def encode(
        self,
        sequence: Any,
        pair: Any = None,
        is_pretokenized: bool = False,
        add_special_tokens: bool = True,
    ) -> Encoding:
        """The encoding of a text, or of a pair; with `is_pretokenized`, of texts in words."""
        if pair is None and not is_pretokenized:
            # The way most calls go, without the detour through a batch.
            ids = self._lookup.bpe.encode(core_text(sequence), self._lookup.allowed, ())
            source = EncodedText(self._lookup, sequence, ids)
            alone = self._arrangement.alone
            if alone is not None and self._truncation is None and self._padding is None:
                return _encoding_alone(source, alone, True)
            encoding = Encoding([TextPart(source, 0, len(ids), 0)])
            return self._finish(encoding, None, add_special_tokens)
        check = checked_words if is_pretokenized else core_text
        for one in (sequence,) if pair is None else (sequence, pair):
            check(one)
        pairs: list[Pair] = [(sequence, pair)]
        return self._encode_pairs(pairs, is_pretokenized, add_special_tokens, tracked=True)[0]

    def encode_batch(
        self, input: Any, is_pretokenized: bool = False, add_special_tokens: bool = True
    ) -> list[Encoding]:
        """The encodings of texts or pairs, on all cores unless TOKENIZERS_PARALLELISM forbids it."""
        pairs = split_pairs(input, is_pretokenized)
        return self._encode_pairs(pairs, is_pretokenized, add_special_tokens, tracked=True)

    def encode_batch_fast(
        self, input: Any, is_pretokenized: bool = False, add_special_tokens: bool = True
    ) -> list[Encoding]:
        """The same without tokens, offsets and words, which are empty, 0 and None as in the original.

        It saves nothing here: what nobody asks for is never worked out.
        """
        pairs = split_pairs(input, is_pretokenized)
        return self._encode_pairs(pairs, is_pretokenized, add_special_tokens, tracked=False)

    def _encode_pairs(
        self, pairs: list[Pair], is_pretokenized: bool, add_special_tokens: bool, *, tracked: bool
    ) -> list[Encoding]:
        sequences = [one for pair in pairs for one in pair if one is not None]
        encode = self._encode_words if is_pretokenized else self._encode_texts
        encoded = encode(sequences)
        alone = self._arrangement.alone
        if alone is not None and len(encoded) == len(pairs) and self._truncation is None:
            plain = [_encoding_alone(source, alone, tracked) for source in encoded]
            pad(self._padding, plain)
            return plain
        sources = iter(encoded)
        encodings: list[Encoding] = []
        for _, second in pairs:
            found = [next(sources)] if second is None else [next(sources), next(sources)]
            # The original gives a second sequence type 1, unless it tracks nothing.
            both = [
                Encoding([TextPart(source, 0, len(source.ids), number if tracked else 0, tracked)])
                for number, source in enumerate(found)
            ]
            encoding = self._finish(
                both[0], both[1] if len(both) == 2 else None, add_special_tokens, padded=False
            )
            encodings.append(encoding)
        pad(self._padding, encodings)
        return encodings

    def _encode_texts(self, texts: list[str]) -> list[EncodedText]:
        ids_by_text = self._encode_all([core_text(text) for text in texts])
        return [
            EncodedText(self._lookup, text, ids)
            for text, ids in zip(texts, ids_by_text, strict=True)
        ]

    def _encode_words(self, sequences: list[Any]) -> list[EncodedWords]:
        ids_by_word = self._encode_all([core_text(word) for words in sequences for word in words])
        encoded: list[EncodedWords] = []
        place = 0
        for words in sequences:
            found = ids_by_word[place : place + len(words)]
            encoded.append(EncodedWords(self._lookup, words, found))
            place += len(words)
        return encoded

    def _encode_all(self, data: list[str | bytes]) -> list[list[int]]:
        threads = available_cores() if _is_parallel() else 1
        return self._lookup.bpe.encode_lists(data, self._lookup.allowed, (), threads)

    def _finish(
        self,
        first: Encoding,
        second: Encoding | None,
        add_special_tokens: bool,
        *,
        padded: bool = True,
    ) -> Encoding:
        """Truncate, post-process and pad. Both may be changed."""
        if self._truncation is not None:
            is_pair = second is not None
            num_added = self.num_special_tokens_to_add(is_pair) if add_special_tokens else 0
            truncate(self._truncation, first, second, num_added)
        encoding = self._arrangement.finish(first, second, add_special_tokens)
        if padded:
            pad(self._padding, [encoding])
        return encoding

    def post_process(
        self, encoding: Encoding, pair: Encoding | None = None, add_special_tokens: bool = True
    ) -> Encoding:
        """Truncate, add special tokens and pad, as `encode` does at its end."""
        second = None if pair is None else pair.copy()
        return self._finish(encoding.copy(), second, add_special_tokens)

    # Ids to text

    def decode(self, ids: Any, skip_special_tokens: bool = True) -> str:
        """The text of `ids`, without special tokens unless asked for, and without unknown ids."""
        return self._decoder.decode(ids, skip_special_tokens)

    def decode_batch(self, sequences: Any, skip_special_tokens: bool = True) -> list[str]:
        """`decode` of each."""
        return self._decoder.decode_each(sequences, skip_special_tokens)

    # The same for those who await

    async def async_encode(
        self,
        sequence: Any,
        pair: Any = None,
        is_pretokenized: bool = False,
        add_special_tokens: bool = True,
    ) -> Encoding:
        """`encode` in another thread."""
        arguments = (sequence, pair, is_pretokenized, add_special_tokens)
        return await asyncio.to_thread(self.encode, *arguments)

    async def async_encode_batch(
        self, input: Any, is_pretokenized: bool = False, add_special_tokens: bool = True
    ) -> list[Encoding]:
        """`encode_batch` in another thread."""
        arguments = (input, is_pretokenized, add_special_tokens)
        return await asyncio.to_thread(self.encode_batch, *arguments)

    async def async_encode_batch_fast(
        self, input: Any, is_pretokenized: bool = False, add_special_tokens: bool = True
    ) -> list[Encoding]:
        """`encode_batch_fast` in another thread."""
        arguments = (input, is_pretokenized, add_special_tokens)
        return await asyncio.to_thread(self.encode_batch_fast, *arguments)

    async def async_decode_batch(
        self, sequences: Any, skip_special_tokens: bool = True
    ) -> list[str]:
        """`decode_batch` in another thread."""
        return await asyncio.to_thread(self.decode_batch, sequences, skip_special_tokens)

    # Parts of the original that are classes of their own there

    @property
    def model(self) -> Any:
        """The model of the original, which must be installed."""
        return self._original().model

    @property
    def normalizer(self) -> Any:
        """The normalizer of the original, which must be installed."""
        return self._original().normalizer

    @property
    def pre_tokenizer(self) -> Any:
        """The pre-tokenizer of the original, which must be installed."""
        return self._original().pre_tokenizer

    @property
    def decoder(self) -> Any:
        """The decoder of the original, which must be installed."""
        return self._original().decoder

    def _original(self) -> Any:
        try:
            import tokenizers  # pyright: ignore
        except ModuleNotFoundError:
            raise NotImplementedError(
                "the parts of a tokenizer are classes of `tokenizers`, which is not installed"
            ) from None
        return cast(Any, tokenizers).Tokenizer.from_str(self.to_str())

    def train(self, *_: Any, **__: Any) -> NoReturn:
        """Not here: `tokenmill.train` trains."""
        raise NotImplementedError("train with `tokenmill.train`, then `Tokenizer(trained)`")

    train_from_iterator = train


def _from_json(data: bytes, file: str) -> Tokenizer:
    document = read_document(data, file)
    tokenizer = Tokenizer.__new__(Tokenizer)
    TokenizerSettings.__init__(tokenizer, PlainTokenizer(document.vocab), document)
    return tokenizer


def _encoding_alone(source: EncodedText | EncodedWords, alone: Alone, tracked: bool) -> Encoding:
    """Of a text that nothing is put around."""
    length = len(source.ids)
    part = TextPart(source, 0, length, 0, tracked, alone.trims)
    return Encoding([part], {0: (0, length)} if alone.is_numbered else None)


def _is_parallel() -> bool:
    """Whether TOKENIZERS_PARALLELISM leaves us more than one thread, in the words of the original."""
    chosen = os.environ.get("TOKENIZERS_PARALLELISM", "").lower()
    return chosen not in ("off", "false", "f", "no", "n", "0")
