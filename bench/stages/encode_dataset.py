"""tokenmill from files to a dataset on disk, as `tokenmill encode` does it.

On the clock is all of it: finding and reading the input, its sha256, encoding, writing, the sha256 of what was written,
fsync, the rename and the tokenizer beside the ids. Off it: imports and loading the tokenizer.
"""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from bench.job import Answer, Job
from bench.peers.tokenmill import preload_reader
from bench.stages.dataset_answer import ids_answer, load_tokens, text_bytes

PROGRAM = __name__


def load(job: Job) -> tuple[Any, Any]:
    import tokenmill.dataset.encode_job
    import tokenmill.dataset.finish  # noqa: F401
    from tokenmill import Tokenizer
    from tokenmill.dataset.encode import prepare_encode

    preload_reader(job.path if Path(job.path).is_file() else ".parquet")
    return prepare_encode, Tokenizer.load(job.tokenizer)


def run(loaded: tuple[Any, Any], job: Job) -> Path:
    prepare_encode, tokenizer = loaded
    out = Path(tempfile.mkdtemp(dir=job.out)) / "dataset"
    prepare_encode(job.path, tokenizer, out, threads=job.threads, progress=False).run()
    return out


def answer(dataset: Path) -> Answer:
    """Ids, and bytes of text."""
    found = [*ids_answer(load_tokens(dataset)), (str(text_bytes(dataset)).encode(),)]
    shutil.rmtree(dataset.parent)
    return found
