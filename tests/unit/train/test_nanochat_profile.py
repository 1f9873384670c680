"""`--profile nanochat` learns what nanochat's own loop learns: rustbpe over the same shards with
the same caps."""

import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import rustbpe

import tokenmill as tm
from tokenmill import _core


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three shards of the standard library's sources; the last one is for validation, as nanochat
    has it."""
    folder = tmp_path_factory.mktemp("shards")
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    texts = [file.read_text(encoding="utf-8", errors="replace") for file in files]
    for number in range(3):
        table = pa.table({"text": texts[number::3]})
        pq.write_table(
            table, folder / f"shard_{number:05}.parquet", row_group_size=16, compression="zstd"
        )
    return folder


def nanochat_texts(folder: Path, doc_cap: int, max_chars: int) -> Iterator[str]:
    """Documents as nanochat's script yields them."""
    num_chars = 0
    for path in sorted(folder.glob("*.parquet"))[:-1]:
        file = pq.ParquetFile(path)
        for group in range(file.num_row_groups):
            for text in file.read_row_group(group, columns=["text"])["text"].to_pylist():
                text = text[:doc_cap]
                num_chars += len(text)
                yield text
                if num_chars > max_chars:
                    return


@pytest.mark.parametrize("max_chars", [400_000, 2_000_000_000])
def test_the_same_ranks_as_rustbpe(shards: Path, max_chars: int) -> None:
    vocab_size = 4096
    theirs = rustbpe.Tokenizer()  # pyright: ignore[reportAttributeAccessIssue]
    pattern = _core.named_patterns()["nanochat"]
    texts = nanochat_texts(shards, 10_000, max_chars)
    theirs.train_from_iterator(texts, vocab_size - 9, pattern=pattern)
    ranks = {bytes(token): rank for token, rank in theirs.get_mergeable_ranks()}
    ours = tm.train(
        shards, shards="..-1", profile="nanochat", vocab_size=vocab_size, max_chars=max_chars
    )
    report = ours.training
    assert report.read.capped_documents > 20, "the cap decides something"
    assert report.read.limit_reached == (max_chars < 2_000_000_000)
    assert report.merges == vocab_size - 256 - 9
    same = report.first_shared_merge or report.merges
    assert same > 3000
    for token_id in range(256 + same):
        assert ranks[ours.token_bytes(token_id)] == token_id
