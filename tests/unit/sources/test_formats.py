"""The same documents give the same counts, whatever they are kept in."""

import bz2
import gzip
import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import datasets
import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tokenmill as tm
from tokenmill.sources.text_files import overlaps_itself

DOCUMENTS = ["low lower lowest", "new newer\nnewest, naïve café 漢字", "wide " * 40, "x"]
EXPECTED = tm.count(iter(DOCUMENTS)).to_dict()


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as packed:
        packed.write(data)
    return sink.getvalue().to_pybytes()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": zstd,
}


def as_text(documents: list[str]) -> bytes:
    return "<|endoftext|>".join(documents).encode()


def as_json_lines(documents: list[str]) -> bytes:
    return b"".join(json.dumps({"id": 1, "text": text}).encode() + b"\n" for text in documents)


def as_parquet(documents: list[str]) -> bytes:
    sink = io.BytesIO()
    table = pa.table({"id": range(len(documents)), "text": documents})
    pq.write_table(table, sink, row_group_size=2)
    return sink.getvalue()


def as_arrow_file(documents: list[str]) -> bytes:
    sink = io.BytesIO()
    table = pa.table({"text": documents, "id": range(len(documents))})
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=3)
    return sink.getvalue()


def as_arrow_stream(documents: list[str]) -> bytes:
    sink = io.BytesIO()
    table = pa.table({"text": documents})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=1)
    return sink.getvalue()


WRITERS = {
    "a.txt": as_text,
    "a.jsonl": as_json_lines,
    "a.parquet": as_parquet,
    "a.arrow": as_arrow_file,
    "a.ipc": as_arrow_stream,
}


@pytest.mark.parametrize("packing", PACKERS)
@pytest.mark.parametrize("name", WRITERS)
def test_every_format_in_every_packing(tmp_path: Path, name: str, packing: str) -> None:
    file = tmp_path / (name + packing)
    file.write_bytes(PACKERS[packing](WRITERS[name](DOCUMENTS)))
    counts = tm.count(file)
    assert counts.to_dict() == EXPECTED
    assert counts.report is not None
    assert counts.report.documents == len(DOCUMENTS)


@pytest.mark.parametrize("packing", [".gz", ".bz2", ".zst"])
def test_members_and_frames_follow_each_other(tmp_path: Path, packing: str) -> None:
    pack = PACKERS[packing]
    text = as_text(DOCUMENTS)
    file = tmp_path / f"a.txt{packing}"
    file.write_bytes(pack(text[:7]) + pack(b"") + pack(text[7:40]) + pack(text[40:]))
    assert tm.count(file).to_dict() == EXPECTED


@pytest.mark.parametrize("name", WRITERS)
def test_standard_input(tmp_path: Path, name: str) -> None:
    kind = {"a.ipc": "arrow"}.get(name, name.partition(".")[2])
    program = (
        "import sys, tokenmill as tm\nprint(tm.count('-', input_format=sys.argv[1]).occurrences)"
    )
    data = gzip.compress(WRITERS[name](DOCUMENTS))
    done = subprocess.run(
        [sys.executable, "-c", program, f"{kind}.gz"], input=data, capture_output=True, check=True
    )
    assert int(done.stdout) == sum(EXPECTED.values())


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.dictionary(pa.int8(), pa.large_string()),
    ],
    ids=str,
)
def test_every_text_column(tmp_path: Path, kind: pa.DataType) -> None:
    column = pa.array(["left out", *DOCUMENTS, "left out"]).cast(pa.string())
    column = (
        column.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else column.cast(kind)
    )
    table = pa.table({"text": column.slice(1, len(DOCUMENTS))})
    assert tm.count(table).to_dict() == EXPECTED
    assert tm.count(table["text"]).to_dict() == EXPECTED
    assert tm.count(table["text"].chunk(0)).to_dict() == EXPECTED
    file = tmp_path / "a.arrow"
    with pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    assert tm.count(file).to_dict() == EXPECTED


def test_python_objects() -> None:
    table = pa.table({"text": DOCUMENTS})
    frame = polars.DataFrame({"text": DOCUMENTS})
    rows = [{"text": text} for text in DOCUMENTS]
    dataset = datasets.Dataset.from_dict({"id": [3, 1, 2, 0, 9], "text": ["not me", *DOCUMENTS]})
    every_kind: tuple[Any, ...] = (
        tm.documents(DOCUMENTS),
        (text for text in DOCUMENTS),
        [text.encode() for text in DOCUMENTS],
        {text: None for text in DOCUMENTS}.keys(),
        iter(rows),
        rows,
        table.to_batches()[0],
        table.to_reader(),
        frame,
        polars.Series(DOCUMENTS),
        duckdb.sql("select * from frame"),
        dataset.select([1, 2, 3, 4]),
        dataset.to_iterable_dataset().skip(1),
    )
    for inputs in every_kind:
        assert tm.count(inputs).to_dict() == EXPECTED, type(inputs)


def test_an_open_binary_file(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl.gz"
    file.write_bytes(gzip.compress(as_json_lines(DOCUMENTS)))
    with open(file, "rb") as stream:
        assert tm.count(stream).to_dict() == EXPECTED


def test_hugging_face_folders_as_they_are(tmp_path: Path) -> None:
    dataset = datasets.Dataset.from_dict({"text": DOCUMENTS, "id": range(len(DOCUMENTS))})
    dataset.save_to_disk(tmp_path / "saved", num_shards=2)
    assert tm.count(tmp_path / "saved").to_dict() == EXPECTED


def test_files_of_polars(tmp_path: Path) -> None:
    frame = polars.DataFrame({"text": DOCUMENTS})
    frame.write_ipc(tmp_path / "a.arrow")
    frame.write_ipc(tmp_path / "b.arrow", compression="zstd")
    frame.write_ipc_stream(tmp_path / "c.arrow")
    frame.write_parquet(tmp_path / "d.parquet")
    for name in ("a.arrow", "b.arrow", "c.arrow", "d.parquet"):
        assert tm.count(tmp_path / name).to_dict() == EXPECTED, name


def test_another_field_and_separator(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"content": "low"}\n\n{"content": "lower"}\n')
    assert tm.count(tmp_path / "a.jsonl", field="content").to_dict() == {b"low": 1, b"lower": 1}
    (tmp_path / "a.txt").write_text("low\n\nlower\n\n\nx\n\n")
    assert tm.count(tmp_path / "a.txt", separator="\n\n").to_dict() == {
        b"low": 1,
        b"lower": 1,
        b"\n": 1,
        b"x": 1,
    }


def test_a_byte_order_mark_is_dropped_and_line_ends_stay(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbflow\r\nlow")
    assert tm.count(tmp_path / "a.txt").to_dict() == {b"low": 2, b"\r\n": 1}
    (tmp_path / "b.txt").write_bytes(b"low\xef\xbb\xbf")
    assert tm.count(tmp_path / "b.txt").to_dict() == {b"low": 1, b"\xef\xbb\xbf": 1}
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "low\\r\\nlow"}\r\n{"text": "x"}\r\n')
    assert tm.count(tmp_path / "a.jsonl").to_dict() == {b"low": 2, b"\r\n": 1, b"x": 1}


def test_caps_and_limits(tmp_path: Path) -> None:
    texts = ["aaaa", "éééé", "cccc", "dddd"]

    def documents(**options: int) -> dict[bytes, int]:
        return tm.count(tm.documents(texts), **options).to_dict()  # pyright: ignore[reportArgumentType]

    assert documents(doc_cap=2) == {b"aa": 1, "éé".encode(): 1, b"cc": 1, b"dd": 1}
    # Stops after the document that passes the limit, as nanochat does: 8 characters do not pass 8.
    assert documents(max_chars=7) == {b"aaaa": 1, "éééé".encode(): 1}
    assert documents(max_chars=8) == {b"aaaa": 1, "éééé".encode(): 1, b"cccc": 1}
    assert documents(max_chars=4, doc_cap=2) == {b"aa": 1, "éé".encode(): 1, b"cc": 1}
    # Whole documents within the limit: 4 + 8 bytes fit into 12.
    assert documents(max_bytes=12) == {b"aaaa": 1, "éééé".encode(): 1}
    assert documents(max_bytes=11) == {b"aaaa": 1}
    report = tm.count(tm.documents(texts), doc_cap=2, max_chars=4).report
    assert report is not None
    assert (report.documents, report.chars, report.capped_documents, report.limit_reached) == (
        3,
        6,
        3,
        True,
    )


@pytest.mark.parametrize(
    ("separator", "overlaps"),
    [(b"<|endoftext|>", False), (b"\n", False), (b"\n\n", True), (b"aba", True), (b"ab", False)],
)
def test_separators_that_overlap_themselves(separator: bytes, overlaps: bool) -> None:
    assert overlaps_itself(separator) == overlaps


def test_reading_is_lazy() -> None:
    taken: list[int] = []

    def endless() -> Iterator[str]:
        for number in range(10**9):
            taken.append(number)
            yield "word " * 1000

    counts = tm.count(endless(), max_chars=100_000, block_bytes=10_000)
    assert counts.report is not None
    assert counts.report.documents == 21
    assert len(taken) < 100
