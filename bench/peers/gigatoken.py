"""gigatoken's trainer. It reads files itself and takes no iterator, so it gets its own, faster, reader."""

from typing import Any

from bench.job import Answer, Job
from bench.peers.peer import Peer

PEER = Peer(
    name="gigatoken",
    distribution="gigatoken",
    version="0.10.0",
    program=__name__,
    ties="huggingface",
    patterns=("gpt2",),
    tries_one_thread=True,
)


def load(job: Job) -> Any:
    import gigatoken

    return gigatoken


def run(gigatoken: Any, job: Job) -> Any:
    source = gigatoken.TextFileSource([job.path], separator=job.separator)
    return gigatoken.train_bpe(source, job.vocab_size, [], tie_breaking="huggingface")


def answer(trained: Any) -> Answer:
    _vocab, merges = trained
    return [(bytes(left), bytes(right)) for left, right in merges]
