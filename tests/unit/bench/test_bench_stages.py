"""The programs that time one stage, called in this process: they must measure what they say."""

from pathlib import Path

import pyarrow.parquet
from bench.documents import stream_documents
from bench.job import Job
from bench.peers import tokenmill
from bench.stages import count_pretokens, merge_counts, read_parquet
from bench.stages.parquet_copy import write_parquet
from bench.stages.word_pairs import write_counts

import tokenmill as tm

SEPARATOR = "<|endoftext|>"


def answer_of(program, job: Job) -> list[tuple[bytes, ...]]:
    return program.answer(program.run(program.load(job), job))


def test_peers_are_fed_the_documents_that_tokenmill_reads(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_bytes(
        b"\xef\xbb\xbfone\r\n<|endoftext|><|endoftext|>\xef\xbb\xbf two <|endoftext|>\n<|endoftext|> three"
    )
    fed = tm.documents(list(stream_documents(text, SEPARATOR, block_bytes=5)))
    assert tm.count(str(text), special_tokens=[]) == tm.count(fed, special_tokens=[])


def test_a_corpus_and_its_parquet_copy_hold_the_same_documents(tmp_path: Path) -> None:
    text, parquet = tmp_path / "text.txt", tmp_path / "text.parquet"
    text.write_text(SEPARATOR.join(f"document {n} é\n" * n for n in range(1, 8)), encoding="utf-8")
    write_parquet(text, SEPARATOR, 3, parquet)
    metadata = pyarrow.parquet.read_metadata(parquet)
    assert [metadata.row_group(group).num_rows for group in range(3)] == [3, 3, 1]
    assert metadata.row_group(0).column(0).compression == "UNCOMPRESSED"
    counted = [answer_of(count_pretokens, Job("", str(path), 1)) for path in (text, parquet)]
    assert counted[0] == counted[1]
    ((num_bytes,),) = answer_of(read_parquet, Job("", str(parquet), 1))
    assert int(num_bytes) >= text.stat().st_size - 6 * len(SEPARATOR)


def test_merging_counts_learns_what_training_on_the_text_learns(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("low low low lower lower newest", encoding="utf-8")
    write_counts({b"low": 1, b" low": 2, b" lower": 2, b" newest": 1}, tmp_path)
    merged = answer_of(merge_counts, Job("", str(tmp_path), 1, vocab_size=265))
    assert merged == answer_of(tokenmill, Job("", str(text), 1, vocab_size=265))
    assert len(merged) == 9
