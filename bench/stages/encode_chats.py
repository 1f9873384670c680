"""tokenmill from JSON lines of conversations to a dataset of ids and masks on disk: encode_dataset.py with a mode."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

from bench.job import Answer, Job
from bench.stages import encode_dataset
from bench.stages.chat_answer import chats_answer
from bench.stages.dataset_answer import ids_answer, load_tokens

PROGRAM = __name__
MODE = "sft"


def load(job: Job) -> tuple[Any, Any]:
    import tokenmill.chat  # noqa: F401

    return encode_dataset.load(job)


def run(loaded: tuple[Any, Any], job: Job) -> tuple[Path, Any]:
    prepare_encode, tokenizer = loaded
    out = Path(tempfile.mkdtemp(dir=job.out)) / "dataset"
    run = prepare_encode(job.path, tokenizer, out, threads=job.threads, progress=False, mode=MODE)
    return out, run.run()


def answer(result: tuple[Path, Any]) -> Answer:
    """Of ids, ends and masks, a dataset's own end-of-document token left out; last of the ids that are no special
    tokens, which are those of the contents alone."""
    import numpy as np

    from tokenmill import Tokenizer

    out, done = result
    special = Tokenizer.load(out / "tokenizer").special_tokens
    ids = np.asarray(load_tokens(out))
    ends = np.load(out / "train" / "documents-00000.npy").astype(np.int64)
    mask = np.load(out / "train" / "mask-00000.npy")
    eos = done.manifest.eos
    if eos is not None:
        last = ends - 1
        if not (ids[last] == special[eos]).all():
            raise ValueError(f"a document does not end with `{eos}`")
        ids, mask = np.delete(ids, last), np.delete(mask, last)
        ends -= np.arange(1, len(ends) + 1)
    contents = ids[~np.isin(ids, list(special.values()))]
    shutil.rmtree(out.parent)
    return [*chats_answer(ids, ends, mask), *ids_answer(contents)]
