"""`bench encode-equality`: the ids of whole corpora equal to tiktoken's and to Hugging Face's, or where they part.

Every document of every corpus, with a vocab trained on it for each named pattern and with real vocabs where
their files are at hand; and the whole file as one text, whatever the number of threads. Runs in this process
and in blocks, so that memory stays bounded by a block.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.commands.setting import Setting
from bench.corpora import Corpus
from bench.documents import stream_documents
from bench.encoders import tiktoken, tokenizers
from bench.job import BenchError, Job
from bench.machine import installed_version
from bench.peers.peer import Library
from bench.vocabularies import Vocabulary, read_vocabulary, train_vocabulary

BLOCK_BYTES = 4_000_000
CONTEXT_IDS = 6

Encode = Callable[[list[str]], Sequence[Sequence[int]]]
"""Texts → the ids of each."""


@dataclass
class Agreement:
    """What was compared. `difference` is None as long as everything is equal."""

    what: str
    documents: int = 0
    num_bytes: int = 0
    tokens: int = 0
    difference: str | None = None

    @property
    def line(self) -> str:
        verdict = "0 mismatches" if self.difference is None else self.difference
        documents = f"{self.documents:,} document{'' if self.documents == 1 else 's'}"
        counted = f"{documents}, {self.num_bytes:,} bytes, {self.tokens:,} tokens"
        return f"{self.what}: {counted}, {verdict}"


def vocabularies(
    corpus: Corpus,
    patterns: Sequence[str],
    files: Mapping[str, Path],
    folder: Path,
    setting: Setting,
) -> Iterator[Vocabulary]:
    """One trained on the corpus for each pattern, then the real ones."""
    for pattern in patterns:
        yield train_vocabulary(
            corpus,
            folder / f"{corpus.name}-trained-{pattern}",
            vocab_size=setting.vocab_size,
            pattern=pattern,
            special_tokens=setting.cases.encode.special_tokens,
        )
    for name, file in files.items():
        yield read_vocabulary(name, file, folder / f"{corpus.name}-real-{name}")


def check_encoders(
    corpus: Corpus,
    vocabulary: Vocabulary,
    setting: Setting,
    *,
    max_bytes: int | None = None,
) -> Iterator[Agreement]:
    """One agreement for each peer, then one for the whole file as one text."""
    name = f"{corpus.name}  {vocabulary.name} {vocabulary.size:,} ({vocabulary.pattern})"
    separator = setting.cases.separator
    ours = _ours(vocabulary, setting.threads)
    for library, adapter in ((tiktoken.LIBRARY, tiktoken), (tokenizers.LIBRARY, tokenizers)):
        agreement = Agreement(f"{name}  {_named(library)}")
        theirs = adapter.open_encoder(_job(vocabulary)).encode_batch
        documents = _limited(stream_documents(corpus.path, separator), max_bytes)
        compare_documents(documents, ours, theirs, agreement)
        yield agreement
    yield _whole_text(name, corpus, vocabulary, setting, max_bytes)


def compare_documents(
    documents: Iterable[str], ours: Encode, theirs: Encode, agreement: Agreement
) -> None:
    """Up to the first document whose ids differ, which `agreement` then names."""
    for block in _blocks(documents):
        for text, mine, other in zip(block, ours(block), theirs(block), strict=True):
            if mine != other:
                agreement.difference = explain(agreement.documents, text, mine, other)
                return
            agreement.documents += 1
            agreement.num_bytes += len(text.encode())
            agreement.tokens += len(mine)


def explain(index: int, text: str, ours: Sequence[int], theirs: Sequence[int]) -> str:
    """The document, the first position where the ids differ, and the ids around it on both sides."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    at = next((i for i, (a, b) in pairs if a != b), min(len(ours), len(theirs)))
    return (
        f"document {index:,} ({len(text):,} characters, starts {text[:40]!r}) differs at token {at:,}\n"
        f"  tokenmill: {list(ours[at : at + CONTEXT_IDS])} of {len(ours):,}\n"
        f"  peer:      {list(theirs[at : at + CONTEXT_IDS])} of {len(theirs):,}"
    )


def _whole_text(
    name: str, corpus: Corpus, vocabulary: Vocabulary, setting: Setting, max_bytes: int | None
) -> Agreement:
    """One text, separators and all, on one thread, on all of them, and by tiktoken."""
    import numpy

    with corpus.path.open("rb") as file:
        text = file.read(max_bytes or -1).decode("utf-8", "ignore")
    agreement = Agreement(f"{name}  one text, 1 and {setting.threads} threads and tiktoken")
    encode = vocabulary.tokenizer.encode_to_numpy
    ours = encode(text, disallowed_special=(), threads=1)
    encoding = tiktoken.open_encoder(_job(vocabulary)).encoding
    others = [
        encode(text, disallowed_special=(), threads=setting.threads),
        encoding.encode_to_numpy(text, disallowed_special=()),
    ]
    for other in others:
        if not numpy.array_equal(ours, other):
            agreement.difference = explain(0, text, ours.tolist(), other.tolist())
            return agreement
    agreement.documents, agreement.num_bytes = 1, len(text.encode())
    agreement.tokens = len(ours)
    return agreement


def _ours(vocabulary: Vocabulary, threads: int) -> Encode:
    tokenizer = vocabulary.tokenizer

    def encode(texts: list[str]) -> list[list[int]]:
        return tokenizer.encode_batch(texts, disallowed_special=(), threads=threads).to_lists()

    return encode


def _job(vocabulary: Vocabulary) -> Job:
    return Job(program="", path="", threads=1, tokenizer=str(vocabulary.folder))


def _named(library: Library) -> str:
    """BenchError when what is installed is another release: it runs in this process."""
    found = installed_version(library.distribution)
    if found != library.version:
        raise BenchError(f"{library.name} {library.version} is wanted here, found {found}")
    return f"{library.name} {library.version}"


def _limited(documents: Iterator[str], max_bytes: int | None) -> Iterator[str]:
    taken = 0
    for text in documents:
        taken += len(text.encode())
        if max_bytes is not None and taken > max_bytes:
            return
        yield text


def _blocks(documents: Iterable[str]) -> Iterator[list[str]]:
    block: list[str] = []
    size = 0
    for text in documents:
        block.append(text)
        size += len(text)
        if size >= BLOCK_BYTES:
            yield block
            block, size = [], 0
    if block:
        yield block
