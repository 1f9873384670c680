"""The same merges as Hugging Face's trainer and as rustbpe, on the sources of Python's own library.

All their text, about 4 MB, and 2,744 merges for each pattern that the peer can be given.
"""

import functools
import json
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import rustbpe
import tokenizers

import tokenmill as tm
from tokenmill import _core
from tokenmill.tokenizer.formats.byte_letters import from_letters
from tokenmill.train.merges import resolve

NAMED = _core.named_patterns()
NUM_TOKENS = 3_000
NUM_SPECIAL = 9


@functools.cache
def standard_library() -> list[str]:
    """The text of every module, in order of path."""
    root = Path(sysconfig.get_path("stdlib"))
    folders = [root, *(root / name for name in ("asyncio", "email", "json", "unittest"))]
    paths = [path for folder in folders for path in sorted(folder.glob("*.py"))]
    texts = [path.read_text(encoding="utf-8") for path in paths]
    assert sum(map(len, texts)) > 3_000_000
    return texts


@functools.cache
def counts_of(pattern: str) -> _core.Counts:
    counter = _core.Counter(_core.Splitter(pattern), 2)
    source = _core.Source.strings(iter(standard_library()), name="library")
    counter.count(_core.Reader(), iter([source]))
    return counter.take()


def merges_of(pattern: str, ties: str) -> list[tuple[bytes, bytes]]:
    merges = _core.train_merges(counts_of(pattern), num_tokens=NUM_TOKENS, ties=ties)
    tokens = merges.tokens()
    return [(tokens[left], tokens[right]) for left, right, _ in merges.triples()]


def hugging_face_pre_tokenizer(pattern: str) -> tokenizers.pre_tokenizers.PreTokenizer:
    """GPT-2's pattern is built in; any other is a split before the bytes become letters."""
    byte_level = tokenizers.pre_tokenizers.ByteLevel
    if pattern == "gpt2":
        return byte_level(add_prefix_space=False, use_regex=True)
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(NAMED[pattern]), behavior="isolated")
    as_bytes = byte_level(add_prefix_space=False, use_regex=False)
    return tokenizers.pre_tokenizers.Sequence([split, as_bytes])


def hugging_face_merges(pattern: str) -> list[tuple[bytes, bytes]]:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = hugging_face_pre_tokenizer(pattern)
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=NUM_TOKENS,
        min_frequency=0,
        show_progress=False,
        special_tokens=[],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(standard_library(), trainer)
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return [(from_letters(left), from_letters(right)) for left, right in merges]


@pytest.mark.parametrize("pattern", ["gpt2", "gpt4", "nanochat", "gpt4o"])
def test_same_merges_as_hugging_face(pattern: str) -> None:
    ours = merges_of(pattern, "huggingface")
    assert ours == hugging_face_merges(pattern)
    assert len(ours) == NUM_TOKENS - 256


@pytest.mark.parametrize("pattern", ["gpt2", "gpt4", "nanochat", "gpt4o", "qwen2"])
def test_same_tokens_as_rustbpe(pattern: str) -> None:
    """rustbpe lists its tokens; the parts of each follow from the tokens before it."""
    theirs = rustbpe.Tokenizer()  # pyright: ignore[reportAttributeAccessIssue]
    theirs.train_from_iterator(iter(standard_library()), NUM_TOKENS, pattern=NAMED[pattern])
    merges = _core.train_merges(counts_of(pattern), num_tokens=NUM_TOKENS)
    assert merges.tokens() == [bytes(token) for token, _ in theirs.get_mergeable_ranks()]
    assert merges.first_shared is None


@pytest.mark.parametrize("pattern", ["gpt2", "gpt4", "nanochat"])
def test_the_text_tells_the_rules_apart(pattern: str) -> None:
    """Or the equalities above would say little about ties."""
    rules = ("lowest-ids", "huggingface", "greatest-bytes")
    assert len({tuple(merges_of(pattern, ties)) for ties in rules}) == 3


def shards(folder: Path) -> list[Path]:
    """Three shards as nanochat keeps them: column `text`, row groups of 1,024 documents."""
    paragraphs = "\n".join(standard_library()).split("\n\n")
    starts = range(0, len(paragraphs), 4)
    documents = ["\n\n".join(paragraphs[start : start + 4]) for start in starts]
    # Characters are what is counted, so some documents have fewer of them than bytes.
    documents[::7] = ["größer 日本語 😀 " * (len(document) // 40) for document in documents[::7]]
    assert len(documents) > 3 * 1_500
    paths: list[Path] = []
    for index in range(3):
        path = folder / f"shard_{index:05d}.parquet"
        part = documents[index * len(documents) // 3 : (index + 1) * len(documents) // 3]
        pq.write_table(pa.table({"text": part}), path, row_group_size=1_024, compression="zstd")
        paths.append(path)
    return paths


def nanochat_documents(paths: list[Path], doc_cap: int, max_chars: int) -> Iterator[str]:
    """As nanochat feeds rustbpe: each document cut, and the end after the one that passes `max_chars`."""
    num_chars = 0
    for path in paths:
        file = pq.ParquetFile(path)
        for index in range(file.num_row_groups):
            for document in file.read_row_group(index).column("text").to_pylist():
                cut = document[:doc_cap]
                num_chars += len(cut)
                yield cut
                if num_chars > max_chars:
                    return


@pytest.mark.parametrize(
    ("doc_cap", "max_chars"),
    [(10_000, 2_000_000_000), (300, 10**9), (10_000, 1_000_000), (200, 777_777)],
    ids=["all", "cap", "stop", "both"],
)
def test_profile_nanochat(tmp_path: Path, doc_cap: int, max_chars: int) -> None:
    """nanochat keeps its last shard for validation, so training sees the first two."""
    paths = shards(tmp_path)
    documents = list(nanochat_documents(paths[:-1], doc_cap, max_chars))
    theirs = rustbpe.Tokenizer()  # pyright: ignore[reportAttributeAccessIssue]
    theirs.train_from_iterator(iter(documents), NUM_TOKENS - NUM_SPECIAL, pattern=NAMED["nanochat"])
    learned = [bytes(token) for token, _ in theirs.get_mergeable_ranks()]
    ours = tm.train(
        tmp_path,
        profile="nanochat",
        shards="..-1",
        doc_cap=doc_cap,
        max_chars=max_chars,
        vocab_size=NUM_TOKENS,
    )
    assert [ours.token_bytes(token_id) for token_id in range(len(learned))] == learned
    assert ours.vocab_size == NUM_TOKENS == len(learned) + NUM_SPECIAL
    assert list(ours.special_tokens.values()) == list(range(len(learned), NUM_TOKENS))
    assert next(iter(ours.special_tokens)) == "<|bos|>"
    assert ours.training is not None
    assert ours.training.read is not None
    read = ours.training.read
    assert (read.documents, read.chars) == (sum(map(bool, documents)), sum(map(len, documents)))


def test_profile_nanochat_sets_the_caps_of_nanochat() -> None:
    settings, options = resolve({}, {}, "nanochat")
    assert settings.vocab_size == 32_768
    assert (settings.pattern, settings.ties) == ("nanochat", "lowest-ids")
    assert (options.doc_cap, options.max_chars) == (10_000, 2_000_000_000)
    assert len(settings.special_tokens) == NUM_SPECIAL
