"""`tokenmill.compat.tiktoken.Encoding` in the very code that runs tiktoken's."""

from pathlib import Path
from typing import Any

from bench.encoders.tiktoken import Tiktoken, make_encoding
from bench.job import Job

NAME = "tokenmill.compat.tiktoken"
PROGRAM = __name__
LATE_IMPORTS = ("numpy",)


def import_library() -> Any:
    from tokenmill.compat import tiktoken

    return tiktoken


def open_encoder(job: Job) -> Tiktoken:
    return Tiktoken(make_encoding(import_library().Encoding, Path(job.tokenizer)))
