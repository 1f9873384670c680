"""Hugging Face tokenizers: `encode_batch_fast`, which leaves offsets out, and the ids of each encoding.

With `form` "offsets" it is `encode_batch` and the offsets as well.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench.encoders.encoder import Numbers, rows_of
from bench.job import Job
from bench.peers.peer import Library

LIBRARY = Library(name="tokenizers", distribution="tokenizers", version="0.23.3", program=__name__)


class Tokenizers:
    """Of `Tokenizer`, Hugging Face's own or one that takes its place."""

    def __init__(self, tokenizer: Any, *, fast: bool) -> None:
        self.tokenizer = tokenizer
        self.encode_all = tokenizer.encode_batch_fast if fast else tokenizer.encode_batch

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self.encode_all(texts, add_special_tokens=False)]

    def encode_text(self, text: str) -> list[int]:
        return self.encode_batch([text])[0]

    def encode_call(self, text: str) -> list[int]:
        return self.tokenizer.encode(text).ids

    def rows(self, batch: list[list[int]]) -> Iterable[Sequence[int]]:
        return batch

    def batch_of(self, ids: Numbers, offsets: Numbers) -> list[list[int]]:
        return rows_of(ids, offsets)

    def ids_of(self, ids: Numbers) -> list[int]:
        return ids.tolist()

    def decode_batch(self, batch: list[list[int]]) -> list[str]:
        return self.tokenizer.decode_batch(batch, skip_special_tokens=False)

    def decode_text(self, ids: list[int]) -> str:
        return self.tokenizer.decode(ids, skip_special_tokens=False)


class WithOffsets(Tokenizers):
    """What asks for ids and for where each token lies in the text, in characters."""

    def encode_batch(self, texts: list[str]) -> Any:
        encodings = self.encode_all(texts, add_special_tokens=False)
        return [(encoding.ids, encoding.offsets) for encoding in encodings]

    def rows(self, batch: Any) -> Iterable[Sequence[int]]:
        """Ids, then the offsets as numbers: both are compared."""
        for ids, offsets in batch:
            yield ids
            yield [number for pair in offsets for number in pair]


def import_library() -> Any:
    import tokenizers

    return tokenizers


def make_encoder(tokenizer_class: Any, job: Job, *, fast: bool) -> Tokenizers:
    tokenizer = tokenizer_class.from_file(str(Path(job.tokenizer) / "tokenizer.json"))
    tokenizer.encode_special_tokens = True  # which means: as text
    if job.form == "offsets":
        return WithOffsets(tokenizer, fast=False)
    return Tokenizers(tokenizer, fast=fast)


def open_encoder(job: Job) -> Tokenizers:
    return make_encoder(import_library().Tokenizer, job, fast=job.form != "encode_batch")
