"""Make a corpus longer: its documents again and again, each time in another order, all by a seed.

Two threads are through 100 MB in less than half a second, and then the start of processes and threads decides a ratio.
Whoever reads a number made on such a text must be told: in every round but the first each pretoken was seen before.
"""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.corpora import Corpus
from bench.documents import read_through, stream_documents, write_documents
from bench.job import BenchError


def repeat_corpus(
    corpus: Corpus, path: Path, *, separator: str, num_bytes: int, seed: int
) -> Corpus:
    """About `num_bytes` of documents of `corpus` at `path`, in the page cache and on the disk."""
    documents = list(stream_documents(corpus.path, separator))
    if not documents:
        raise BenchError(f"`{corpus.name}` has no documents")
    chosen = _repeated(documents, num_bytes, seed)
    written = write_documents(path, chosen, separator)
    read_through(path)
    return Corpus(corpus.name, path, written)


def _repeated(documents: Sequence[str], num_bytes: int, seed: int) -> Iterator[str]:
    """Until they have `num_bytes`. A round is one order of all documents."""
    shuffle, taken = random.Random(seed), 0
    order = list(documents)
    while True:
        shuffle.shuffle(order)
        for document in order:
            yield document
            taken += len(document.encode())
            if taken >= num_bytes:
                return
