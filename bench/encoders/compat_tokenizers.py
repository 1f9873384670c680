"""`tokenmill.compat.tokenizers.Tokenizer` in the very code that runs Hugging Face's."""

from typing import Any

from bench.encoders.tokenizers import Tokenizers, make_encoder
from bench.job import Job

NAME = "tokenmill.compat.tokenizers"
PROGRAM = __name__
LATE_IMPORTS = ("numpy",)


def import_library() -> Any:
    from tokenmill.compat import tokenizers

    return tokenizers


def open_encoder(job: Job) -> Tokenizers:
    return make_encoder(import_library().Tokenizer, job, fast=False)
