"""Counts add up, save, load, and never meet counts of another pattern unnoticed."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tokenmill as tm
from tokenmill.errors import ConfigError, FormatError, SourceError
from tokenmill.train.counts_file import METADATA_KEY


def some_counts(**keywords: object) -> tm.PretokenCounts:
    return tm.count(iter(["low lower", "low"]), **keywords)  # pyright: ignore[reportArgumentType]


def test_a_dict_goes_in_and_comes_out_sorted() -> None:
    counts = tm.PretokenCounts.from_dict({"b": 2, b"a": 1, "é": 3})
    assert list(counts.to_dict().items()) == [(b"a", 1), (b"b", 2), ("é".encode(), 3)]
    assert (len(counts), counts.occurrences, counts.total_bytes) == (3, 6, 9)
    assert counts.most_common(2) == [("é".encode(), 3), (b"b", 2)]
    with pytest.raises(ConfigError, match="a pretoken is bytes or str, found `7`"):
        tm.PretokenCounts.from_dict({7: 1})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("number", [2**31 - 1, 2**31, 2**32, 2**32 + 1, 2**53 + 1, 2**63])
def test_counts_are_exact_far_beyond_32_bits(tmp_path: Path, number: int) -> None:
    counts = tm.PretokenCounts.from_dict({b"ab": number, b"cd": number - 1})
    counts.save(tmp_path / "a.parquet")
    loaded = tm.PretokenCounts.load(tmp_path / "a.parquet")
    assert loaded.to_dict() == {b"ab": number, b"cd": number - 1}
    tokenizer = tm.train(counts=loaded, vocab_size=258)
    assert tokenizer.token_bytes(256) == b"ab", "one occurrence more decides"
    if number <= 2**62:
        assert (counts + loaded).to_dict() == {b"ab": 2 * number, b"cd": 2 * number - 2}


def test_pair_counts_are_exact_beyond_32_bits_too() -> None:
    counts = tm.PretokenCounts.from_dict(
        {b"xa": 2**31, b"ya": 2**31, b"bb": 2**31 + 5, b"cab": 2**31}
    )
    merges = tm.train(counts=counts, vocab_size=260, special_tokens=["<|endoftext|>"]).merges
    assert merges == [(b"b", b"b"), (b"a", b"b"), (b"c", b"ab")]


def test_a_sum_beyond_64_bits_is_an_error() -> None:
    counts = tm.PretokenCounts.from_dict({b"ab": 2**64 - 1})
    with pytest.raises(OverflowError):
        counts + counts


def test_the_file_is_plain_parquet_with_a_description(tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("low lower")
    counts = tm.count(text, doc_cap=5, out=tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.schema.field("pretoken").type == pa.binary()
    assert table.schema.field("count").type == pa.uint64()
    assert table.to_pydict() == {"pretoken": [b" l", b"low"], "count": [1, 1]}
    assert list(table.schema.metadata) == [METADATA_KEY]
    loaded = tm.PretokenCounts.load(tmp_path / "a.parquet")
    assert loaded == counts
    assert loaded.pattern == "gpt4"
    assert loaded.special_tokens == ("<|endoftext|>",)
    assert loaded.origin.unicode_version == tm.UNICODE_VERSION
    assert loaded.origin.read is not None
    assert loaded.origin.read["doc_cap"] == 5
    (record,) = loaded.origin.inputs
    assert (record.name, record.num_bytes) == ("a.txt", 9)
    assert record.sha256 == hashlib.sha256(b"low lower").hexdigest()


def test_saving_later_still_knows_the_hashes(tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("low lower")
    counts = tm.count(text)
    counts.save(tmp_path / "a.parquet")
    assert tm.PretokenCounts.load(tmp_path / "a.parquet").origin.inputs[0].sha256
    text.write_text("another text")
    changed = tm.count(text)
    text.write_text("and a third one")
    changed.save(tmp_path / "b.parquet")
    assert tm.PretokenCounts.load(tmp_path / "b.parquet").origin.inputs[0].sha256 is None


def test_saving_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.parquet", "b.parquet"):
        some_counts().save(tmp_path / name)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_empty_counts_save_and_load(tmp_path: Path) -> None:
    tm.PretokenCounts.from_dict({}).save(tmp_path / "a.parquet")
    assert len(tm.PretokenCounts.load(tmp_path / "a.parquet")) == 0


def test_many_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["tokenmill.train.counts_file"]
    counts = tm.PretokenCounts.from_dict({f"{n:x}" * 3: n + 1 for n in range(1000)})
    monkeypatch.setattr(module, "ROW_GROUP_ROWS", 64)
    monkeypatch.setattr(module, "ROW_GROUP_BYTES", 300)
    counts.save(tmp_path / "a.parquet")
    assert pq.read_metadata(tmp_path / "a.parquet").num_row_groups > 16
    assert tm.PretokenCounts.load(tmp_path / "a.parquet") == counts


def test_loading_leaves_pandas_alone(tmp_path: Path) -> None:
    """pandas takes a second to import, and pyarrow reaches for it where it can."""
    (tmp_path / "pandas").mkdir()
    (tmp_path / "pandas" / "__init__.py").write_text("raise SystemExit('pandas was imported')")
    counts = some_counts()
    counts.save(tmp_path / "a.parquet")
    program = "import sys, tokenmill as tm; print(len(tm.PretokenCounts.load(sys.argv[1])))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "a.parquet")],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert (done.stdout, done.stderr) == (f"{len(counts)}\n", "")


@pytest.mark.parametrize("width", ["int8", "uint16", "int32", "int64", "uint64"])
def test_counts_of_any_width_are_read(tmp_path: Path, width: str) -> None:
    numbers = pa.array([7, 1, 3], pa.type_for_alias(width))
    pq.write_table(
        pa.table({"pretoken": ["a", "b", "c"], "count": numbers}), tmp_path / "a.parquet"
    )
    loaded = tm.PretokenCounts.load(tmp_path / "a.parquet", pattern="gpt2")
    assert loaded.to_dict() == {b"a": 7, b"b": 1, b"c": 3}


def test_files_from_elsewhere_need_a_pattern(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"count": pa.array([2, 1, 3]), "pretoken": ["low", "er", "low"]}), file)
    with pytest.raises(FormatError, match="does not say which pattern"):
        tm.PretokenCounts.load(file)
    counts = tm.PretokenCounts.load(file, pattern="gpt2")
    assert counts.to_dict() == {b"er": 1, b"low": 5}
    assert counts.special_tokens is None
    assert tm.train(counts=file, pattern="gpt2", vocab_size=258, special_tokens=[]).merges[0] == (
        b"l",
        b"o",
    )


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (pa.table({"word": ["a"], "count": [1]}), "its columns are `word`"),
        (pa.table({"pretoken": ["a"], "count": ["1"]}), r"`count` \(string\)"),
        (pa.table({"pretoken": [1], "count": [1]}), r"`pretoken` \(int64\)"),
        (pa.table({"pretoken": ["a", None], "count": [1, 1]}), "holds nulls"),
        (pa.table({"pretoken": ["a", "b"], "count": [1, -5]}), "has the count -5"),
        (pa.table({"pretoken": ["a", "b"], "count": [1, 0]}), "has the count 0"),
    ],
)
def test_tables_that_are_no_counts(tmp_path: Path, table: pa.Table, reason: str) -> None:
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(FormatError, match=reason):
        tm.PretokenCounts.load(tmp_path / "a.parquet", pattern="gpt2")


def test_files_that_are_no_counts(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1 and nothing more PAR1")
    with pytest.raises(FormatError, match="cannot be read as Parquet"):
        tm.PretokenCounts.load(tmp_path / "a.parquet")
    with pytest.raises(SourceError, match="does not exist"):
        tm.PretokenCounts.load(tmp_path / "b.parquet")
    schema = pa.schema([("pretoken", pa.binary()), ("count", pa.uint64())], {METADATA_KEY: b"{}"})
    pq.write_table(pa.table({"pretoken": [b"a"], "count": [1]}, schema), tmp_path / "c.parquet")
    with pytest.raises(FormatError, match="metadata of"):
        tm.PretokenCounts.load(tmp_path / "c.parquet")


def test_different_splits_never_meet(tmp_path: Path) -> None:
    gpt4, gpt2 = some_counts(), some_counts(pattern="gpt2")
    with pytest.raises(FormatError, match="`gpt4` and `gpt2`"):
        gpt4 + gpt2
    with pytest.raises(FormatError, match="special tokens"):
        gpt4 + some_counts(special_tokens=["<|end|>"])
    with pytest.raises(FormatError, match="`gpt4` and `gpt2`"):
        tm.train(counts=gpt4, pattern="gpt2")
    with pytest.raises(FormatError, match="special tokens"):
        tm.train(counts=gpt4, special_tokens=["<|end|>"])
    gpt4.save(tmp_path / "a.parquet")
    with pytest.raises(FormatError, match="`gpt4`, but `gpt2` was asked for"):
        tm.train(counts=tmp_path / "a.parquet", pattern="gpt2")


def test_a_regex_that_has_a_name_is_that_name() -> None:
    from tokenmill import _core

    spelled = some_counts(pattern=_core.named_patterns()["gpt2"])
    assert spelled.pattern == "gpt2"
    assert (spelled + some_counts(pattern="gpt2")).occurrences == 6


def test_cut_counts_say_so(tmp_path: Path) -> None:
    counts = tm.count(
        iter(["low lower low", "low"]), min_count=2, pattern="gpt2", out=tmp_path / "a.parquet"
    )
    assert counts.to_dict() == {b"low": 2}
    loaded = tm.PretokenCounts.load(tmp_path / "a.parquet")
    assert loaded.is_cut
    assert loaded.origin.min_count == 2
    assert (loaded + some_counts(pattern="gpt2")).origin.min_count == 2
    assert not some_counts().is_cut


def test_counting_elsewhere_equals_counting_here() -> None:
    direct = tm.train(iter(["low lower lowest newer newest"] * 3), vocab_size=270)
    from_counts = tm.train(
        counts=tm.count(iter(["low lower lowest newer newest"] * 3)), vocab_size=270
    )
    assert direct == from_counts
