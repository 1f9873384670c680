"""tiktoken: a loop over `encode_ordinary`, which was its fastest way on one thread.

On 5 MB of English and cl100k's ranks, megabytes a second on a busy machine: 12 in this loop, 8 through
`encode_ordinary_batch` with one thread, 6 through `encode_to_numpy`. It gets our spelling of GPT-4's pattern: with
possessive quantifiers it made 9. Decoding a list made 80, decoding an array 47.
"""

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.encoders.encoder import Numbers, rows_of
from bench.job import Job
from bench.peers.peer import Library

LIBRARY = Library(name="tiktoken", distribution="tiktoken", version="0.14.0", program=__name__)


class Tiktoken:
    """Of `Encoding`, tiktoken's own or one that takes its place."""

    def __init__(self, encoding: Any) -> None:
        self.encoding = encoding

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        encode = self.encoding.encode_ordinary
        return [encode(text) for text in texts]

    def encode_text(self, text: str) -> list[int]:
        return self.encoding.encode_ordinary(text)

    def encode_call(self, text: str) -> list[int]:
        return self.encoding.encode(text)

    def rows(self, batch: list[list[int]]) -> Iterable[Sequence[int]]:
        return batch

    def batch_of(self, ids: Numbers, offsets: Numbers) -> list[list[int]]:
        return rows_of(ids, offsets)

    def ids_of(self, ids: Numbers) -> list[int]:
        return ids.tolist()

    def decode_batch(self, batch: list[list[int]]) -> list[str]:
        decode = self.encoding.decode
        return [decode(ids) for ids in batch]

    def decode_text(self, ids: list[int]) -> str:
        return self.encoding.decode(ids)


def import_library() -> Any:
    import tiktoken
    import tiktoken.load

    return tiktoken


def read_ranks(file: Path) -> dict[bytes, int]:
    """With its own reader, past its cache, which is keyed by the path."""
    os.environ["TIKTOKEN_CACHE_DIR"] = ""
    return import_library().load.load_tiktoken_bpe(str(file))


def make_encoding(encoding_class: Any, folder: Path) -> Any:
    """From the rank file of a tokenizer folder, with the name, the pattern and the special tokens beside it."""
    ranks = read_ranks(folder / "ranks.tiktoken")
    settings = json.loads((folder / "ranks.json").read_text(encoding="utf-8"))
    return encoding_class(mergeable_ranks=ranks, **settings)


def open_encoder(job: Job) -> Tiktoken:
    return Tiktoken(make_encoding(import_library().Encoding, Path(job.tokenizer)))
