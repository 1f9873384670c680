"""fast-bpe-rs: needs all documents in a list, so its timed call builds one."""

import importlib
import itertools
from typing import Any

from bench.documents import stream_documents
from bench.job import Answer, Job
from bench.peers.peer import Peer

PEER = Peer(
    name="fast-bpe-rs",
    distribution="fast-bpe-rs",
    version="0.6.1",
    program=__name__,
    ties="lowest-ids",
    differs="mostly where one token repeats, such as runs of spaces",
)


def load(job: Job) -> Any:
    return importlib.import_module("fast_bpe_rs")


def run(fast_bpe_rs: Any, job: Job) -> tuple[Any, int]:
    tokenizer = fast_bpe_rs.BPE(job.regex)
    tokenizer.train(job.vocab_size, list(stream_documents(job.path, job.separator)))
    return tokenizer, job.vocab_size


def answer(trained: tuple[Any, int]) -> Answer:
    tokenizer, vocab_size = trained
    tokens = (bytes(tokenizer.decode([token_id])) for token_id in range(256, vocab_size))
    # An id it never made decodes to nothing: it ran out of pairs there.
    return [(token,) for token in itertools.takewhile(bool, tokens)]
