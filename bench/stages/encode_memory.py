"""tokenmill encoding documents that are in memory as `str`, to arrays in memory: what a dataset cannot beat.

With `shape` "contents" the documents are the contents of conversations.
"""

from typing import Any

from bench.conversations import read_contents
from bench.documents import stream_documents
from bench.job import Answer, Job
from bench.stages.dataset_answer import dtype_of, ids_answer

PROGRAM = __name__
CONTENTS = "contents"


def load(job: Job) -> tuple[Any, list[str]]:
    import numpy  # noqa: F401

    from tokenmill import Tokenizer

    tokenizer = Tokenizer.load(job.tokenizer)
    if job.shape == CONTENTS:
        return tokenizer, read_contents(job.path)
    return tokenizer, list(stream_documents(job.path, job.separator))


def run(loaded: tuple[Any, list[str]], job: Job) -> tuple[Any, Any, Job]:
    tokenizer, texts = loaded
    batch = tokenizer.encode_batch(
        texts, allowed_special=(), disallowed_special=(), threads=job.threads
    )
    return tokenizer, batch, job


def answer(result: tuple[Any, Any, Job]) -> Answer:
    """With the token at each document's end that a dataset has there; contents have none."""
    import numpy as np

    tokenizer, batch, job = result
    ids = batch.ids.astype(dtype_of(job.vocab_size), copy=False)
    if job.shape == CONTENTS:
        return ids_answer(ids)
    return ids_answer(np.insert(ids, batch.offsets[1:], tokenizer.special_tokens[job.separator]))
