"""tiktoken in several processes into one np.memmap, the way nanoGPT's prepare.py fills its .bin files.

Each process reads its part of the file, encodes document by document with `encode_ordinary`, puts the end-of-text id
behind each and keeps the ids as small integers. When all counts are known the file gets its exact length, and each
process writes its part and flushes it. That is less work than prepare.py does (which keeps ids in Arrow files on disk in
between), needs no second pass to count and leaves no gap to close; of the ways that end in a dense file it is the
quickest we know. Off the clock: imports, loading the ranks, starting the processes.

A list of ids becomes an array of numpy in 30 ns an id, and so it does an `array.array`; `encode_to_numpy` was slower than
both (bench/encoders/tiktoken.py).
"""

import multiprocessing
import tempfile
from pathlib import Path
from typing import Any

from bench.child import peak_bytes
from bench.documents import cut_in_parts, stream_documents
from bench.encoders.tiktoken import open_encoder
from bench.job import Answer, Job
from bench.stages.dataset_answer import dtype_of, ids_answer

PROGRAM = __name__

Pipe = Any
"""One end; its class has another name on each system."""

Result = tuple[Path, int, Job]


def load(job: Job) -> list[Pipe]:
    """A pipe to each process; they wait at the other ends."""
    import numpy  # noqa: F401

    encoding = open_encoder(job).encoding
    encoding.encode_ordinary("ready")
    context = multiprocessing.get_context("fork")
    pipes: list[Pipe] = []
    for _ in range(job.threads):
        ours, theirs = context.Pipe()
        context.Process(target=_encode_part, args=(encoding, job, theirs), daemon=True).start()
        pipes.append(ours)
    return pipes


def run(pipes: list[Pipe], job: Job) -> Result:
    import numpy as np

    out = Path(tempfile.mkdtemp(dir=job.out)) / "train.bin"
    for pipe, part in zip(pipes, cut_in_parts(job.path, job.separator, len(pipes)), strict=True):
        pipe.send(part)
    counts = [pipe.recv() for pipe in pipes]
    np.memmap(out, dtype_of(job.vocab_size), "w+", shape=(sum(counts),))
    for index, pipe in enumerate(pipes):
        pipe.send((out, sum(counts), sum(counts[:index])))
    return out, sum(pipe.recv() for pipe in pipes), job


def _encode_part(encoding: Any, job: Job, pipe: Pipe) -> None:
    import numpy as np

    start, stop = pipe.recv()
    encode, eot = encoding.encode_ordinary, encoding.eot_token
    dtype = dtype_of(job.vocab_size)
    documents: list[Any] = []
    for text in stream_documents(job.path, job.separator, start=start, stop=stop):
        ids = encode(text)
        ids.append(eot)
        documents.append(np.array(ids, dtype))
    pipe.send(sum(map(len, documents)))
    out, total, offset = pipe.recv()
    target = np.memmap(out, dtype, "r+", shape=(total,))
    for ids in documents:
        target[offset : offset + len(ids)] = ids
        offset += len(ids)
    target.flush()
    pipe.send(peak_bytes())


def extra(result: Result) -> dict[str, float]:
    """The peaks of all processes together; what they share since the fork counts in each."""
    return {"peak_bytes": result[1] + peak_bytes()}


def answer(result: Result) -> Answer:
    import numpy as np

    out, _, job = result
    found = ids_answer(np.memmap(out, dtype_of(job.vocab_size), "r"))
    out.unlink()
    out.parent.rmdir()
    return found
