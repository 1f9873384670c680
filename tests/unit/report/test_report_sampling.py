"""The same seed, the same documents; each as likely as any other; nothing to measure is an error."""

import gzip
import json
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tokenmill.errors import ConfigError, SourceError
from tokenmill.progress import Meter, Snapshot
from tokenmill.report.labels import LabelledReading
from tokenmill.report.sampling import DocumentReading, Reservoir, Sample, sample_documents
from tokenmill.sources.documents import documents
from tokenmill.sources.inputs import find_inputs
from tokenmill.sources.options import ReadOptions
from tokenmill.work.read_report import ReadReport

SILENT = Meter(False)


def sampled(number: int, size: int, seed: int) -> list[str | bytes]:
    texts = documents([f"document {index}" for index in range(number)])
    return list(sample_documents([texts], ReadOptions(), size, seed, SILENT).documents)


def test_the_seed_decides() -> None:
    one = sampled(1000, 10, 42)
    assert len(set(one)) == 10
    assert one == sampled(1000, 10, 42)
    assert one != sampled(1000, 10, 43)
    # In the order of the text.
    assert one == sorted(one, key=lambda text: int(str(text).split()[1]))


def test_a_short_text_is_taken_whole() -> None:
    assert sampled(3, 10, 0) == ["document 0", "document 1", "document 2"]


def test_every_document_has_the_same_chance() -> None:
    chosen: Counter[str | bytes] = Counter()
    for seed in range(2000):
        reservoir = Reservoir(5, seed)
        for index in range(20):
            reservoir.add(str(index))
        chosen.update(reservoir.documents())
    assert len(chosen) == 20
    # 500 each; the seeds are fixed, so this holds on every machine or on none.
    assert min(chosen.values()) > 430
    assert max(chosen.values()) < 570


def test_batches_are_cut_from_the_front() -> None:
    sample = Sample(("a", "b", "ü", b"\xff\xfe", "e"), 0, ReadReport())
    assert sample.batches(2) == [["a", "b"], ["ü", b"\xff\xfe"], ["e"]]
    assert sample.num_bytes == 7


def test_reading_keeps_what_it_is_told_to_keep(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"fine<|endoftext|>caf\xe9<|endoftext|>long text")
    options = ReadOptions(invalid_utf8="keep", doc_cap=4)
    reading = DocumentReading(find_inputs(file, options), options, SILENT)
    assert list(reading) == ["fine", b"caf\xe9", "long"]
    assert (reading.report.documents, reading.report.capped_documents) == (3, 1)


def test_skipped_records_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"text": "a"}\nbroken\n{"text": "b"}\n')
    options = ReadOptions(on_error="skip")
    sample = sample_documents(find_inputs(file, options), options, 10, 0, SILENT)
    assert sample.documents == ("a", "b")
    assert sample.read.skipped_records == 1


def test_progress_knows_the_end_of_packed_files_too(tmp_path: Path) -> None:
    text = "<|endoftext|>".join(f"{index:08}" * 40 for index in range(4000))
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "b.txt").write_text(text)
    seen: list[Snapshot] = []
    options = ReadOptions()
    sample_documents(find_inputs(tmp_path, options), options, 1, 0, Meter(seen.append))
    fractions = [snapshot.fraction for snapshot in seen]
    assert all(fraction is not None for fraction in fractions)
    assert fractions == sorted(fractions, key=lambda value: value or 0.0)
    assert 0.5 < (fractions[-1] or 0.0) <= 1.0
    assert {snapshot.phase for snapshot in seen} == {"sampling"}


def test_no_document_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "empty.txt"
    file.write_text("<|endoftext|>")
    options = ReadOptions()
    with pytest.raises(SourceError, match=r"`.*empty\.txt`: no document"):
        sample_documents(find_inputs(file, options), options, 1, 0, SILENT)


@pytest.mark.parametrize("size", [0, -1, True, 2.5])
def test_a_sample_of_nothing_is_refused(size: int) -> None:
    with pytest.raises(ConfigError, match="sample"):
        Reservoir(size, 0)


ROWS = [("one", "en"), ("", "en"), ("zwei", "de"), ("drei", "de"), ("four", "en")]
TABLE = pa.table({"text": [row[0] for row in ROWS], "lang": [row[1] for row in ROWS]})
EXPECTED = [("en", "one"), ("de", "zwei"), ("de", "drei"), ("en", "four")]


def write_rows(folder: Path, name: str) -> Path:
    path = folder / name
    lines = "".join(json.dumps({"lang": lang, "text": text}) + "\n" for text, lang in ROWS)
    if name.endswith(".jsonl"):
        path.write_text("\n" + lines)
    elif name.endswith(".jsonl.gz"):
        path.write_bytes(gzip.compress(lines.encode()))
    elif name.endswith(".parquet"):
        pq.write_table(TABLE, path, row_group_size=2)
    else:
        new = pa.ipc.new_stream if name.startswith("stream") else pa.ipc.new_file
        with new(str(path), TABLE.schema) as out:
            out.write_table(TABLE, max_chunksize=2)
    return path


def labelled(
    path: Path, label_field: str = "lang", **options: str
) -> list[tuple[str, str | bytes]]:
    read = ReadOptions.from_keywords(options)
    return list(LabelledReading(find_inputs(path, read), read, label_field, SILENT))


@pytest.mark.parametrize(
    "name", ["a.jsonl", "a.jsonl.gz", "a.parquet", "file.arrow", "stream.arrow"]
)
def test_labels_stay_with_their_documents(tmp_path: Path, name: str) -> None:
    assert labelled(write_rows(tmp_path, name)) == EXPECTED


def test_labels_under_caps_and_limits(tmp_path: Path) -> None:
    path = write_rows(tmp_path, "a.jsonl")
    options = ReadOptions(doc_cap=2, max_bytes=5)
    reading = LabelledReading(find_inputs(path, options), options, "lang", SILENT)
    assert list(reading) == [("en", "on"), ("de", "zw")]
    assert reading.report.limit_reached


def test_lines_longer_than_a_block(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [{"text": "x" * size, "lang": size} for size in (600_000, 1, 300_000)]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert [(label, len(text)) for label, text in labelled(path)] == [
        ("600000", 600_000),
        ("1", 1),
        ("300000", 300_000),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2 is not JSON"),
        ("[1]", "line 2 is no JSON object"),
        ('{"text": "x"}', "line 2 has nothing in `lang`"),
        ('{"text": 5, "lang": "en"}', "line 2 has `5` in `text`"),
        ('{"text": "\\ud800", "lang": "en"}', "line 2: `text`: surrogates not allowed"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "x", "lang": "en"}\n' + line + "\n")
    with pytest.raises(SourceError, match=message):
        labelled(path)


def test_bad_columns_are_named(tmp_path: Path) -> None:
    path = write_rows(tmp_path, "a.parquet")
    with pytest.raises(SourceError, match="no column `domain`; its columns are `text`, `lang`"):
        labelled(path, "domain")
    with pytest.raises(SourceError, match="no column `body`"):
        labelled(path, field="body")
    pq.write_table(pa.table({"text": ["a", "b"], "lang": ["en", None]}), path)
    with pytest.raises(SourceError, match="row 1 has a null in `lang`"):
        labelled(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(SourceError, match="cannot be read"):
        labelled(path)


def test_what_has_no_fields_has_no_labels(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("text")
    with pytest.raises(ConfigError, match="plain text, which has no fields"):
        labelled(file)
    with pytest.raises(ConfigError, match="is no file"):
        LabelledReading([documents(["x"])], ReadOptions(), "lang", SILENT)
    with pytest.raises(ConfigError, match="`--on-error fail` only"):
        labelled(write_rows(tmp_path, "a.jsonl"), on_error="skip")
