"""Documents that a generator makes as they are asked for, to a dataset on disk: nothing knows how many will come.

They are those of a text file over and over until `size` bytes; the generator itself holds a block of it.
"""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.documents import stream_documents
from bench.job import Answer, Job
from bench.stages import encode_dataset
from bench.stages.dataset_answer import text_bytes

PROGRAM = __name__


class Stream:
    """`num_documents` and `num_bytes` are those given so far."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.num_documents = self.num_bytes = 0

    def __iter__(self) -> Iterator[bytes]:
        while True:
            for document in stream_documents(self.job.path, self.job.separator):
                data = document.encode()
                self.num_documents += 1
                self.num_bytes += len(data)
                yield data
                if self.num_bytes >= self.job.size:
                    return


def load(job: Job) -> tuple[Any, Any]:
    return encode_dataset.load(job)


def run(loaded: tuple[Any, Any], job: Job) -> tuple[Path, Stream]:
    from tokenmill import documents

    prepare_encode, tokenizer = loaded
    out, stream = Path(tempfile.mkdtemp(dir=job.out)) / "dataset", Stream(job)
    prepare_encode(documents(stream), tokenizer, out, threads=job.threads, progress=False).run()
    return out, stream


def extra(result: tuple[Path, Stream]) -> dict[str, float]:
    return {"text_bytes": result[1].num_bytes}


def answer(result: tuple[Path, Stream]) -> Answer:
    """Documents and bytes as they were given, and the bytes the dataset knows of: the last two must be equal."""
    out, stream = result
    numbers = (stream.num_documents, stream.num_bytes, text_bytes(out))
    shutil.rmtree(out.parent)
    return [(str(number).encode(),) for number in numbers]
