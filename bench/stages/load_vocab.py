"""From a file to the ids of a first text. With `form` "with import", from before the library's import."""

import importlib
from pathlib import Path
from typing import Any

from bench.encoders.encoder import ids_answer
from bench.job import Answer, Job

PROGRAM = __name__
WITH_IMPORT = "with import"


def load(job: Job) -> tuple[Any, str]:
    adapter = importlib.import_module(job.encoder)
    if job.form != WITH_IMPORT:
        adapter.import_library()
    return adapter, Path(job.path).read_text(encoding="utf-8")


def run(loaded: tuple[Any, str], job: Job) -> Any:
    adapter, text = loaded
    return adapter.open_encoder(job).encode_call(text)


def answer(ids: Any) -> Answer:
    return ids_answer([ids])
