"""tokenmill: arrays in and out by default; with `form` "lists" Python's lists, as the peers give and take."""

from collections.abc import Iterable, Sequence
from typing import Any

from bench.encoders.encoder import Numbers, rows_of
from bench.job import Job

NAME = "tokenmill"
PROGRAM = __name__
LATE_IMPORTS = ("numpy",)


class Tokenmill:
    def __init__(self, tokenizer: Any, threads: int, *, lists: bool) -> None:
        self.tokenizer = tokenizer
        self.threads = threads
        self.lists = lists

    def encode_batch(self, texts: list[str]) -> Any:
        batch = self.tokenizer.encode_batch(texts, disallowed_special=(), threads=self.threads)
        return batch.to_lists() if self.lists else batch

    def encode_text(self, text: str) -> Any:
        if self.lists:
            return self.tokenizer.encode_ordinary(text)
        return self.tokenizer.encode_to_numpy(text, disallowed_special=(), threads=self.threads)

    def encode_call(self, text: str) -> list[int]:
        return self.tokenizer.encode(text)

    def rows(self, batch: Any) -> Iterable[Sequence[int]]:
        return batch if self.lists else batch.to_lists()

    def batch_of(self, ids: Numbers, offsets: Numbers) -> Any:
        if self.lists:
            return rows_of(ids, offsets)
        from tokenmill import TokenBatch

        return TokenBatch(self._array(ids), _numpy(offsets, "int64"))

    def ids_of(self, ids: Numbers) -> Any:
        return ids.tolist() if self.lists else self._array(ids)

    def decode_batch(self, batch: Any) -> list[str]:
        return self.tokenizer.decode_batch(batch)

    def decode_text(self, ids: Any) -> str:
        return self.tokenizer.decode(ids)

    def _array(self, ids: Numbers) -> Any:
        """In the type that encoding gives."""
        small = self.tokenizer.vocab_size <= 1 << 16
        return _numpy(ids, "uint32").astype("uint16" if small else "uint32")


def _numpy(numbers: Numbers, dtype: str) -> Any:
    import numpy

    return numpy.frombuffer(numbers, dtype=dtype)


def import_library() -> Any:
    import tokenmill

    # The class is what `import tokenmill` may leave for later.
    return tokenmill.Tokenizer


def open_encoder(job: Job) -> Tokenmill:
    tokenizer = import_library().load(job.tokenizer)
    return Tokenmill(tokenizer, job.threads, lists=job.form == "lists")
