"""Many calls with one short text each, every text new; the texts of `warm_path` were encoded before."""

from typing import Any

from bench.documents import stream_documents
from bench.encoders.encoder import ids_answer, open_ready
from bench.job import Answer, Job

PROGRAM = __name__


def load(job: Job) -> tuple[Any, list[str]]:
    encoder = open_ready(job)
    for text in stream_documents(job.warm_path, job.separator):
        encoder.encode_call(text)
    return encoder.encode_call, list(stream_documents(job.path, job.separator))


def run(loaded: tuple[Any, list[str]], job: Job) -> list[list[int]]:
    encode, texts = loaded
    return [encode(text) for text in texts]


def answer(rows: list[list[int]]) -> Answer:
    return ids_answer(rows)
