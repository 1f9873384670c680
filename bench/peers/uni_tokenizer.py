"""uni-tokenizer (unitoken): counts batches of a source, then trains on bytes.

0.1.7 is its last release under this name; the project goes on as `ffbpe`.
"""

import importlib
from typing import Any

from bench.documents import stream_documents
from bench.job import Answer, Job
from bench.peers.peer import Peer

PEER = Peer(
    name="uni-tokenizer",
    distribution="uni-tokenizer",
    version="0.1.7",
    program=__name__,
    ties="lowest-ids",
    differs="unexpected: it agreed on every text tried before",
)


def load(job: Job) -> Any:
    return importlib.import_module("uni_tokenizer")


def run(uni_tokenizer: Any, job: Job) -> Any:
    counter = uni_tokenizer.PreTokenizer([], pat_str=job.regex).word_counter()
    counter.add_source(stream_documents(job.path, job.separator))
    trainer = uni_tokenizer.BpeTrainer(
        [], unit="byte", initial_alphabet="raw", tie_break="smallest_pair_id"
    )
    trainer.add_word_counter(counter)
    trainer.train(job.vocab_size)
    return trainer.validate_model()


def answer(model: Any) -> Answer:
    return [(token,) for token, _id in sorted(model.vocab.items(), key=lambda item: item[1])[256:]]
