"""bpeasy: a dictionary of ranks from an iterator."""

import importlib
from typing import Any

from bench.documents import stream_documents
from bench.job import Answer, Job
from bench.peers.peer import Peer

PEER = Peer(
    name="bpeasy",
    distribution="bpeasy",
    version="0.1.6",
    program=__name__,
    ties="lowest-ids",
    differs="unexpected: it agreed on every text tried before",
)

NO_LIMIT_BYTES = 1 << 30
"""bpeasy insists on a longest token; the other trainers have none."""


def load(job: Job) -> Any:
    return importlib.import_module("bpeasy")


def run(bpeasy: Any, job: Job) -> Any:
    documents = stream_documents(job.path, job.separator)
    return bpeasy.train_bpe(documents, job.regex, NO_LIMIT_BYTES, job.vocab_size)


def answer(ranks: Any) -> Answer:
    return [(token,) for token, _rank in sorted(ranks.items(), key=lambda item: item[1])[256:]]
