"""What is measured was never trained on, and nothing is measured twice."""

from pathlib import Path

import pytest
from bench.corpora import Corpus
from bench.documents import stream_documents
from bench.families import FAMILIES
from bench.job import BenchError
from bench.split import Parts, split_corpus

SEPARATOR = "<|endoftext|>"


def corpus_of(folder: Path, documents: list[str]) -> Corpus:
    path = folder / "some.txt"
    path.write_text(SEPARATOR.join(documents), encoding="utf-8")
    return Corpus("some", path, path.stat().st_size)


def split(folder: Path, documents: list[str], **more: int) -> Parts:
    out = folder / f"parts-{len(list(folder.iterdir()))}"
    out.mkdir()
    settings = {"measured_bytes": 4_000, "seed": 3, **more}
    return split_corpus(corpus_of(folder, documents), out, separator=SEPARATOR, **settings)


def documents_of(corpus: Corpus) -> list[str]:
    return list(stream_documents(corpus.path, SEPARATOR))


DOCUMENTS = [f"document {number} é " * 10 for number in range(200)]


def test_each_document_is_in_one_part(tmp_path: Path) -> None:
    parts = split(tmp_path, DOCUMENTS)
    trained, cold, steady = map(documents_of, (parts.training, parts.cold, parts.steady))
    assert sorted(trained + cold + steady) == sorted(DOCUMENTS)
    assert 2_000 <= parts.cold.num_bytes < 2_400
    assert 2_000 <= parts.steady.num_bytes < 2_400
    assert parts.cold.num_bytes == sum(len(text.encode()) for text in cold)
    assert parts.cold.name == parts.training.name == "some"


def test_the_seed_decides_and_nothing_else(tmp_path: Path) -> None:
    first, again = split(tmp_path, DOCUMENTS), split(tmp_path, DOCUMENTS)
    assert documents_of(first.cold) == documents_of(again.cold)
    assert documents_of(split(tmp_path, DOCUMENTS, seed=4).cold) != documents_of(first.cold)


def test_a_document_that_comes_twice_is_never_measured(tmp_path: Path) -> None:
    twice = DOCUMENTS[:100] * 2 + DOCUMENTS[100:]
    parts = split(tmp_path, twice)
    measured = documents_of(parts.cold) + documents_of(parts.steady)
    assert not set(measured) & set(DOCUMENTS[:100])
    assert set(documents_of(parts.training)).isdisjoint(measured)


def test_at_most_a_quarter_is_measured_and_training_can_be_cut(tmp_path: Path) -> None:
    parts = split(tmp_path, DOCUMENTS, measured_bytes=10**9, training_bytes=5_000)
    whole = sum(len(text.encode()) for text in DOCUMENTS)
    measured = parts.cold.num_bytes + parts.steady.num_bytes
    assert whole / 4 <= measured < whole / 3
    assert 5_000 <= parts.training.num_bytes < 5_300


def test_a_single_document_cannot_be_split(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="too few documents"):
        split(tmp_path, ["one document"])


@pytest.mark.parametrize("family", FAMILIES)
def test_runs_have_the_size_they_should_and_are_the_same_every_time(family: str) -> None:
    text = FAMILIES[family](10_000)
    assert 9_950 <= len(text.encode()) <= 10_000
    assert text == FAMILIES[family](10_000)
    assert SEPARATOR not in text
