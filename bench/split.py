"""Cut a corpus in two by a seed: text to train on, and text that is measured and that no training has seen.

The measured text is cut once more: `cold` is what a fresh process meets first, `steady` is what it meets when
its caches are full of other documents. Neither is ever encoded twice by one process, so no number comes from
repeating a text. A document that occurs twice in the corpus is left out of both.
"""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.corpora import Corpus
from bench.documents import stream_documents
from bench.job import BenchError

LARGEST_SHARE = 4
"""At most one part in this many is measured: a vocab from too little text would be a strange one."""


@dataclass(frozen=True)
class Parts:
    training: Corpus
    cold: Corpus
    steady: Corpus


def split_corpus(
    corpus: Corpus,
    folder: Path,
    *,
    separator: str,
    measured_bytes: int,
    seed: int,
    training_bytes: int | None = None,
) -> Parts:
    """About `measured_bytes` to measure, half of them cold, and the rest, or `training_bytes` of it, to train on."""
    documents = list(stream_documents(corpus.path, separator))
    measured_bytes = min(measured_bytes, corpus.num_bytes // LARGEST_SHARE)
    occurrences = Counter(documents)
    once = [index for index, text in enumerate(documents) if occurrences[text] == 1]
    random.Random(seed).shuffle(once)
    indices = iter(once)
    cold = list(_until(documents, indices, measured_bytes // 2))
    steady = list(_until(documents, indices, measured_bytes // 2))
    if not cold or not steady:
        raise BenchError(
            f"`{corpus.name}` has too few documents to measure some and train on others"
        )
    measured = {*cold, *steady}
    others = iter([index for index in range(len(documents)) if index not in measured])
    training = list(_until(documents, others, training_bytes or corpus.num_bytes))
    parts = {"training": training, "cold": sorted(cold), "steady": sorted(steady)}
    return Parts(
        **{
            name: _write(
                corpus.name, folder / f"{name}.txt", [documents[i] for i in part], separator
            )
            for name, part in parts.items()
        }
    )


def _until(documents: Sequence[str], indices: Iterator[int], num_bytes: int) -> Iterator[int]:
    """Indices from `indices` until their documents have `num_bytes`."""
    taken = 0
    while taken < num_bytes:
        index = next(indices, None)
        if index is None:
            return
        taken += len(documents[index].encode())
        yield index


def _write(name: str, path: Path, documents: Sequence[str], separator: str) -> Corpus:
    path.write_text(separator.join(documents), encoding="utf-8", newline="")
    return Corpus(name, path, sum(len(document.encode()) for document in documents))
