"""transformers: rows of JSON through `apply_chat_template`, which renders and then tokenizes, a thousand at a time.

In batches its tokenizer uses all threads; the rendering is Python and uses one. With `form` "processes" each of them has
a share of the rows and one thread, which is what `datasets.map(num_proc=2)` makes of it. With "mask" the assistant's
mask is asked for as well, to compare it; that takes longer, so times are taken without. Ids are left in memory: nothing is
written. Off the clock: imports, loading the tokenizer, starting the processes.
"""

import json
import multiprocessing
import os
from array import array
from itertools import islice
from typing import Any

from bench.child import peak_bytes
from bench.job import Answer, Job
from bench.peers.peer import Library
from bench.stages.chat_answer import chats_answer
from bench.stages.lm_shapes import import_transformers

LIBRARY = Library(
    name="transformers", distribution="transformers", version="5.22.2", program=__name__
)
PROGRAM = __name__

Pipe = Any
"""One end; its class has another name on each system."""
BATCH_ROWS = 1_000
PROCESSES, MASK = "processes", "mask"
TIMED_FORMS = ("", PROCESSES)

Encoded = tuple[bytes, bytes, bytes]
"""Ids (32 bits each), ids of each row (64 bits), mask (8 bits)."""


def load(job: Job) -> tuple[Any, list[Pipe]]:
    if job.form == PROCESSES:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
    tokenizer = _open_tokenizer(job.tokenizer)
    tokenizer.apply_chat_template([[{"role": "user", "content": "ready"}]])
    pipes: list[Pipe] = []
    for index in range(job.threads if job.form == PROCESSES else 0):
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        arguments = (tokenizer, job, index, theirs)
        context.Process(target=_encode_part, args=arguments, daemon=True).start()
        pipes.append(ours)
    return tokenizer, pipes


def _open_tokenizer(folder: str) -> Any:
    return import_transformers().AutoTokenizer.from_pretrained(folder)


def run(loaded: tuple[Any, list[Pipe]], job: Job) -> tuple[list[Encoded], int, Job]:
    tokenizer, pipes = loaded
    if not pipes:
        return [_encode(tokenizer, job, 0, 1)], 0, job
    for pipe in pipes:
        pipe.send("begin")
    found = [pipe.recv() for pipe in pipes]
    return [encoded for encoded, _ in found], sum(peak for _, peak in found), job


def _encode_part(tokenizer: Any, job: Job, index: int, pipe: Pipe) -> None:
    pipe.recv()
    encoded = _encode(tokenizer, job, index, job.threads)
    pipe.send((encoded, peak_bytes()))


def _encode(tokenizer: Any, job: Job, index: int, parts: int) -> Encoded:
    """Batches `index`, `index` + `parts`, … of the file."""
    ids, lengths, mask = array("I"), array("q"), array("B")
    with_mask = job.form == MASK
    more = {"return_assistant_tokens_mask": True} if with_mask else {}
    with open(job.path, encoding="utf-8") as file:
        number = 0
        while lines := list(islice(file, BATCH_ROWS)):
            if number % parts == index:
                rows = [json.loads(line)["messages"] for line in lines]
                found = tokenizer.apply_chat_template(rows, return_dict=True, **more)
                for row in found["input_ids"]:
                    ids.extend(row)
                    lengths.append(len(row))
                for row in found["assistant_masks"] if with_mask else ():
                    mask.extend(row)
            number += 1
    return ids.tobytes(), lengths.tobytes(), mask.tobytes()


def extra(result: tuple[list[Encoded], int, Job]) -> dict[str, float]:
    """The peaks of all processes together; what they share since the fork counts in each."""
    return {"peak_bytes": result[1] + peak_bytes()}


def answer(result: tuple[list[Encoded], int, Job]) -> Answer:
    """Batches of several processes brought back into the order of the file."""
    import numpy as np

    encoded, _, job = result
    parts: list[list[Any]] = []
    for ids, lengths, _ in encoded:
        ends = np.cumsum(np.frombuffer(lengths, "<i8"))
        # The last piece is what lies behind the last end: nothing.
        parts.append(np.split(np.frombuffer(ids, "<u4"), ends)[:-1])
    ordered: list[Any] = []
    for start in range(0, max(map(len, parts)), BATCH_ROWS):
        for part in parts:
            ordered += part[start : start + BATCH_ROWS]
    ends = np.cumsum([len(row) for row in ordered])
    mask = np.frombuffer(encoded[0][2], np.uint8) if job.form == MASK else None
    return chats_answer(np.concatenate(ordered), ends, mask)
