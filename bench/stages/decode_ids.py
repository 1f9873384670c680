"""Decode ids, those of documents or of one text: read and put into the library's form off the clock."""

from pathlib import Path
from typing import Any

from bench.encoders.encoder import Encoder, open_ready, read_ids, texts_answer
from bench.job import Answer, Job

PROGRAM = __name__


def load(job: Job) -> tuple[Encoder, Any]:
    encoder = open_ready(job)
    ids, offsets = read_ids(Path(job.path))
    return encoder, encoder.ids_of(ids) if job.shape == "text" else encoder.batch_of(ids, offsets)


def run(loaded: tuple[Encoder, Any], job: Job) -> list[str]:
    encoder, ids = loaded
    return [encoder.decode_text(ids)] if job.shape == "text" else encoder.decode_batch(ids)


def answer(texts: list[str]) -> Answer:
    return texts_answer(texts)
