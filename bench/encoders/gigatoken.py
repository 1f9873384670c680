"""gigatoken, for the patterns it has a scanner for: a row to compare with, no goal of ours yet."""

from collections.abc import Iterable, Sequence
from typing import Any

from bench.encoders.encoder import Numbers, rows_of
from bench.job import Job
from bench.peers.peer import Library

LIBRARY = Library(name="gigatoken", distribution="gigatoken", version="0.10.0", program=__name__)
LATE_IMPORTS = ("numpy", "awkward")


class Gigatoken:
    def __init__(self, tokenizer: Any, *, parallel: bool) -> None:
        self.tokenizer = tokenizer
        self.parallel = parallel

    def encode_batch(self, texts: list[str]) -> Any:
        return self.tokenizer.encode_batch(texts, parallel=self.parallel)

    def encode_text(self, text: str) -> Any:
        return self.tokenizer.encode(text)

    def encode_call(self, text: str) -> list[int]:
        return self.tokenizer.encode(text).tolist()

    def rows(self, batch: Any) -> Iterable[Sequence[int]]:
        return batch.to_list()

    def batch_of(self, ids: Numbers, offsets: Numbers) -> Any:
        import numpy

        return [numpy.array(row, dtype="uint32") for row in rows_of(ids, offsets)]

    def ids_of(self, ids: Numbers) -> Any:
        import numpy

        return numpy.frombuffer(ids, dtype="uint32")

    def decode_batch(self, batch: Any) -> list[str]:
        """It decodes one text at a time, to bytes."""
        decode = self.tokenizer.decode
        return [decode(ids).decode() for ids in batch]

    def decode_text(self, ids: Any) -> str:
        return self.tokenizer.decode(ids).decode()


def import_library() -> Any:
    import gigatoken

    return gigatoken


def open_encoder(job: Job) -> Gigatoken:
    tokenizer = import_library().Tokenizer(job.tokenizer)
    return Gigatoken(tokenizer, parallel=job.threads > 1)
