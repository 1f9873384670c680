"""Other libraries with our vocab, for `--compare`: none is a dependency, each loads when asked for.

A peer gets exactly the vocab that is measured, exported in memory. Where that cannot be, or the
library would read the documents differently by design, it refuses, and the report says why.
"""

import contextlib
import importlib
import importlib.metadata
import os
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from tokenmill import _core
from tokenmill.errors import ConfigError, VocabError
from tokenmill.report.engines import Engine, bpe_of, vocab_of
from tokenmill.report.sampling import Text
from tokenmill.sources.choices import require_one_of
from tokenmill.tokenizer.formats import huggingface_json
from tokenmill.tokenizer.token_batch import TokenBatch
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.tokenizer.vocab import vocab_from_ids


class Refusal(Exception):
    """Why a peer cannot take part."""


class _Peer:
    """What the peers have in common."""

    name = ""

    def __init__(self) -> None:
        self.version = importlib.metadata.version(self.name)

    def to_lists(self, encoded: Any) -> list[list[int]]:
        return encoded

    def for_decode(self, batch: TokenBatch) -> Any:
        return batch.to_lists()


class TiktokenPeer(_Peer):
    name = "tiktoken"

    def __init__(self, tokenizer: Tokenizer, texts: Sequence[Text], threads: int) -> None:
        super().__init__()
        _require_str(texts, self.name)
        vocab = vocab_of(tokenizer)
        if vocab.normalizer is not None:
            raise Refusal(f"the vocab normalizes text ({vocab.normalizer}), tiktoken cannot")
        if vocab.proof.difference is not None:
            raise Refusal(vocab.proof.difference)
        special = set(vocab.special_tokens.values())
        self._threads = threads
        self._encoding: Any = importlib.import_module("tiktoken").Encoding(
            "measured",
            pat_str=_core.Splitter(vocab.pattern).regex,
            mergeable_ranks={
                token: token_id
                for token_id, token in enumerate(vocab.tokens)
                if token and token_id not in special
            },
            special_tokens=dict(vocab.special_tokens),
        )

    def encode(self, texts: list[Any]) -> Any:
        # Its batch call starts a thread pool, which one thread has no use for.
        if self._threads == 1:
            return [self._encoding.encode_ordinary(text) for text in texts]
        return self._encoding.encode_ordinary_batch(texts, num_threads=self._threads)

    def decode(self, ids: Any) -> list[str]:
        if self._threads == 1:
            return [self._encoding.decode(each) for each in ids]
        return self._encoding.decode_batch(ids, num_threads=self._threads)


class TokenizersPeer(_Peer):
    """Hugging Face's library. `encode_batch_fast` is its call without offsets."""

    name = "tokenizers"

    def __init__(self, tokenizer: Tokenizer, texts: Sequence[Text], threads: int) -> None:
        super().__init__()
        _require_str(texts, self.name)
        library = importlib.import_module("tokenizers")
        self._tokenizer: Any = library.Tokenizer.from_str(_json_of(tokenizer).decode())
        self._tokenizer.encode_special_tokens = True

    def encode(self, texts: list[Any]) -> Any:
        encoded = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return [each.ids for each in encoded]

    def decode(self, ids: Any) -> list[str]:
        return self._tokenizer.decode_batch(ids, skip_special_tokens=False)


class GigatokenPeer(_Peer):
    """Decodes text by text: it has no call for a batch."""

    name = "gigatoken"

    def __init__(self, tokenizer: Tokenizer, texts: Sequence[Text], threads: int) -> None:
        super().__init__()
        _require_no_special_token(tokenizer, texts)
        library = importlib.import_module("gigatoken")
        self._parallel = threads > 1
        # The first call in a process loads awkward, for half a second: that is not its cold round.
        only_bytes = vocab_from_ids([bytes([byte]) for byte in range(256)], [], {}, "gpt2")
        first = library.Tokenizer.from_json(huggingface_json.write(only_bytes))
        first.encode_batch(["a"], parallel=self._parallel)
        self._tokenizer: Any = library.Tokenizer.from_json(_json_of(tokenizer))

    def encode(self, texts: list[Any]) -> Any:
        return self._tokenizer.encode_batch(texts, parallel=self._parallel)

    def to_lists(self, encoded: Any) -> list[list[int]]:
        return encoded.to_list()

    def for_decode(self, batch: TokenBatch) -> Any:
        return [ids.astype("uint32") for ids in batch]

    def decode(self, ids: Any) -> list[bytes]:
        return [self._tokenizer.decode(each) for each in ids]


class RustbpePeer(_Peer):
    name = "rustbpe"

    def __init__(self, tokenizer: Tokenizer, texts: Sequence[Text], threads: int) -> None:
        super().__init__()
        raise Refusal("it takes no vocab from outside: it encodes with what it trained itself")

    def encode(self, texts: list[Any]) -> Any: ...
    def decode(self, ids: Any) -> list[str]: ...


PEERS: dict[str, Callable[[Tokenizer, Sequence[Text], int], Engine]] = {
    peer.name: peer for peer in (TiktokenPeer, TokenizersPeer, GigatokenPeer, RustbpePeer)
}


def require_peers(names: Iterable[str]) -> list[str]:
    """`names` without repeats. ConfigError for one that is unknown or not installed."""
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        require_one_of("peer", name, PEERS)
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ConfigError(
                f"`{name}` cannot be imported to compare with: {error}", f"`pip install {name}`"
            ) from error
    return wanted


def open_peer(name: str, tokenizer: Tokenizer, texts: Sequence[Text], threads: int) -> Engine:
    """The peer with the tokenizer's vocab. Refusal if it cannot have that, or not these texts."""
    try:
        return PEERS[name](tokenizer, texts, threads)
    except Refusal:
        raise
    except BaseException as error:
        raise as_refusal(error) from error


def as_refusal(error: BaseException) -> Refusal:
    """What a peer threw, as a line of the report. Raises what is meant for this process instead:
    Ctrl-C and exits. A Rust panic is no `Exception`, so everything else is a refusal."""
    if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
        raise error
    lines = str(error).splitlines() or [""]
    return Refusal(f"{type(error).__name__}: {lines[0]:.200}")


@contextlib.contextmanager
def peers_use(threads: int) -> Generator[None]:
    """Libraries on rayon take their number of threads from the environment, when they first need
    it."""
    wanted = {
        "RAYON_NUM_THREADS": str(threads),
        "TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false",
    }
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _json_of(tokenizer: Tokenizer) -> bytes:
    try:
        return huggingface_json.write(vocab_of(tokenizer))
    except VocabError as error:
        raise Refusal(f"no tokenizer.json says this vocab: {error.message}") from error


def _require_str(texts: Sequence[Text], name: str) -> None:
    for index, text in enumerate(texts):
        if isinstance(text, bytes):
            raise Refusal(f"document {index} is not UTF-8, and {name} takes `str` only")


def _require_no_special_token(tokenizer: Tokenizer, texts: Sequence[Text]) -> None:
    find = bpe_of(tokenizer).find_special
    for index, text in enumerate(texts):
        for token in find(text):
            raise Refusal(
                f"document {index} contains `{token}`, which it cannot read as ordinary text"
            )
