"""Encode documents, or all of them as one text: read, loaded and warmed up off the clock, encoded on it."""

from typing import Any

from bench.documents import stream_documents
from bench.encoders.encoder import Encoder, ids_answer, open_ready
from bench.job import Answer, Job

PROGRAM = __name__
BETWEEN = "\n"
"""What joins documents to one text."""


def load(job: Job) -> tuple[Encoder, Any]:
    encoder = open_ready(job)
    if job.warm_path:
        _encode(encoder, _texts(job.warm_path, job), job)
    return encoder, _texts(job.path, job)


def run(loaded: tuple[Encoder, Any], job: Job) -> tuple[Encoder, Any, Job]:
    encoder, texts = loaded
    return encoder, _encode(encoder, texts, job), job


def answer(result: tuple[Encoder, Any, Job]) -> Answer:
    encoder, encoded, job = result
    return ids_answer([encoded] if job.shape == "text" else encoder.rows(encoded))


def _texts(path: str, job: Job) -> Any:
    documents = list(stream_documents(path, job.separator))
    return BETWEEN.join(documents) if job.shape == "text" else documents


def _encode(encoder: Encoder, texts: Any, job: Job) -> Any:
    return encoder.encode_text(texts) if job.shape == "text" else encoder.encode_batch(texts)
