"""Text read where it lies, on a web server or the Hub: the same documents as from files here."""

import bz2
import gzip
import io
import random
from pathlib import Path

import loopback
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from loopback import Fault, Hub, Server

import tokenmill as tm
from tokenmill.errors import ConfigError, SourceError
from tokenmill.sources.inputs import find_inputs
from tokenmill.sources.options import ReadOptions
from tokenmill.sources.remote_files import RemoteFile
from tokenmill.sources.stored_files import is_stored
from tokenmill.storage import retries

TEXTS = [f"document {number}: the cat sat on mat {number % 7}" for number in range(4_000)]
PLAIN = "<|endoftext|>".join(TEXTS).encode()
LINES = "".join(f'{{"text": "{text}"}}\n' for text in TEXTS).encode()
EXPECTED = tm.count(tm.documents(TEXTS)).to_dict()


def parquet(texts: list[str], rows: int = 500) -> bytes:
    sink = io.BytesIO()
    noise = [random.Random(index).randbytes(40) for index in range(len(texts))]
    table = pa.table({"noise": noise, "text": texts, "more": noise})
    pq.write_table(table, sink, row_group_size=rows, compression="none", use_dictionary=False)
    return sink.getvalue()


def arrow(texts: list[str], new: object = pa.ipc.new_stream) -> bytes:
    sink = io.BytesIO()
    table = pa.table({"text": texts})
    with new(sink, table.schema) as writer:  # pyright: ignore
        writer.write_table(table)
    return sink.getvalue()


FORMS = {
    "a.txt": PLAIN,
    "a.jsonl": LINES,
    "a.txt.gz": gzip.compress(PLAIN),
    "a.jsonl.bz2": bz2.compress(LINES),
    "a.parquet": parquet(TEXTS),
    "a.arrow": arrow(TEXTS),
    "b.arrow": arrow(TEXTS, pa.ipc.new_file),
    "a.parquet.gz": gzip.compress(parquet(TEXTS)),
}


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries.Patience, "seconds", lambda *_: 0.001)


@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_its_documents(server: Server, name: str) -> None:
    counts = tm.count(server.add(name, FORMS[name]))
    assert counts.to_dict() == EXPECTED
    assert counts.report is not None
    assert counts.report.documents == len(TEXTS)


def test_zstd_too(server: Server, tmp_path: Path) -> None:
    with pa.CompressedOutputStream(str(tmp_path / "a.txt.zst"), "zstd") as out:
        out.write(PLAIN)
    url = server.add("a.txt.zst", (tmp_path / "a.txt.zst").read_bytes())
    assert tm.count(url).to_dict() == EXPECTED


@pytest.mark.parametrize("name", FORMS)
def test_cuts_are_resumed_from_the_byte_reached(server: Server, name: str) -> None:
    url = server.add(name, FORMS[name])
    places = sorted(random.Random(name).sample(range(100, len(FORMS[name])), 5))
    server.fail(name, *[Fault(cut_after=place // 5) for place in places], Fault(status=503))
    assert tm.count(url).to_dict() == EXPECTED
    assert any("range" in each.headers for each in server.asked("GET"))


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.parquet", "a.txt.gz"])
def test_a_server_without_ranges_is_enough(server: Server, name: str) -> None:
    url = server.add(name, FORMS[name], ignores_range=True)
    server.fail(name, Fault(cut_after=5_000))
    assert tm.count(url).to_dict() == EXPECTED


@pytest.mark.parametrize("ignores_if_range", [False, True])
@pytest.mark.parametrize("name", ["a.txt", "a.parquet", "a.txt.gz"])
def test_another_version_in_the_middle_is_an_error(
    server: Server, name: str, ignores_if_range: bool
) -> None:
    other = FORMS[name][:-9] + bytes(9)
    url = server.add(name, FORMS[name], ignores_if_range=ignores_if_range)
    server.fail(name, Fault(cut_after=len(other) // 3), Fault(replace_by=other))
    with pytest.raises(SourceError, match="changed while it was read"):
        tm.count(url)


def test_another_version_at_the_end_is_an_error(server: Server) -> None:
    url = server.add("a.txt", PLAIN)
    server.fail("a.txt", Fault(head=True), Fault(replace_by=PLAIN[::-1], head=True))
    with pytest.raises(SourceError, match="changed while it was read"):
        tm.count(url)


def test_parquet_is_read_where_the_column_is(server: Server) -> None:
    """Two columns of noise around the text stay where they are."""
    big = [random.Random(index).randbytes(3_000) for index in range(2_000)]
    sink = io.BytesIO()
    table = pa.table({"noise": big, "text": TEXTS[:2_000], "more": big})
    pq.write_table(table, sink, row_group_size=500, compression="none", use_dictionary=False)
    url = server.add("a.parquet", sink.getvalue())
    assert tm.count(url).report.documents == 2_000  # pyright: ignore
    asked = [each.headers.get("range") for each in server.asked("GET")]
    assert 4 < len(asked) < 20
    # A megabyte for each of four row groups at most, and the footer.
    assert server.bytes_sent["/a.parquet"] < 0.5 * len(sink.getvalue())


def test_sizes_are_known_before_reading(server: Server) -> None:
    url = server.add("a.txt", PLAIN)
    (source,) = find_inputs(url, ReadOptions())
    assert isinstance(source, RemoteFile)
    assert source.size_in_bytes == len(PLAIN)
    assert source.identity["version"] == server.pages["/a.txt"].etag
    assert is_stored(source)
    assert server.asked("GET") == []
    snapshots: list[float | None] = []
    tm.count(url, progress=lambda snapshot: snapshots.append(snapshot.fraction), threads=1)
    assert snapshots[-1] == 1.0


def test_a_server_that_tells_nothing_is_read_once(server: Server, tmp_path: Path) -> None:
    url = server.add("a.txt", PLAIN, has_etag=False, has_length=False)
    (source,) = find_inputs(url, ReadOptions())
    assert source.size_in_bytes is None
    assert not is_stored(source)
    assert tm.count(url, out=tmp_path / "counts.parquet").to_dict() == EXPECTED


def test_units_resume_and_are_known_again(server: Server, tmp_path: Path) -> None:
    """With `out`, remote files are counted in units; a unit that is done is not read again."""
    urls = [server.add(f"{n}.parquet", parquet(TEXTS)) for n in range(3)]
    out = tmp_path / "counts.parquet"
    server.fail("2.parquet", Fault(), *[Fault(status=404)] * 99)  # after the plan was made
    with pytest.raises(SourceError, match="404"):
        tm.count(urls, out=out, unit_bytes=200_000)
    assert len(list((tmp_path / "counts.parquet.partial").glob("unit-*.json"))) > 2
    server.faults.clear()
    server.bytes_sent.clear()
    counts = tm.count(urls, out=out, unit_bytes=200_000)
    assert counts.to_dict() == {key: 3 * value for key, value in EXPECTED.items()}
    footers = 2 * (1 << 17)
    assert server.bytes_sent.get("/0.parquet", 0) < footers
    server.bytes_sent.clear()
    again = tm.count(urls, out=out, unit_bytes=200_000)
    assert again.report is None  # "already done"
    assert server.bytes_sent == {}
    server.add("1.parquet", parquet(TEXTS[::-1]))
    with pytest.raises(ConfigError, match="exists and was made from other text"):
        tm.count(urls, out=out, unit_bytes=200_000)


def test_the_hub_by_name_folder_and_glob(hub: Hub) -> None:
    hub.add_dataset(
        "some/texts",
        {
            "data/0.txt": PLAIN,
            "data/1.parquet": parquet(TEXTS),
            "data/.x.txt": PLAIN,
            "README.md": b"#",
        },
    )
    twice = {key: 2 * value for key, value in EXPECTED.items()}
    assert tm.count("hf://datasets/some/texts/data/0.txt").to_dict() == EXPECTED
    assert tm.count("hf://datasets/some/texts/data").to_dict() == twice
    assert tm.count("hf://datasets/some/texts@main/**/*.parquet").to_dict() == EXPECTED
    assert tm.count("hf://datasets/some/texts", shards="1").to_dict() == EXPECTED
    (source,) = find_inputs("hf://datasets/some/texts/data/0.txt", ReadOptions())
    assert source.name == "hf://datasets/some/texts/data/0.txt"
    assert isinstance(source, RemoteFile)
    assert source.address.shown == f"hf://datasets/some/texts@{loopback.COMMIT}/data/0.txt"
    assert source.state.sha256 is not None


def test_what_cannot_be_read_is_named(server: Server) -> None:
    with pytest.raises(SourceError, match=r"nope\.txt` does not exist"):
        tm.count(f"{server.url}/nope.txt")
    with pytest.raises(ConfigError, match="cannot tell the format"):
        tm.count(server.add("a.bin", PLAIN))
    assert tm.count(server.add("a.bin", PLAIN), input_format="txt").to_dict() == EXPECTED
    with pytest.raises(ConfigError, match="`ftp` address"):
        tm.count("ftp://host/a.txt")
    with pytest.raises(ConfigError, match="is a file"):
        tm.count(server.add("a.txt", PLAIN), shards="..2")
    with pytest.raises(ConfigError, match="no address of a dataset"):
        tm.count("hf://models/gpt2/x.txt")
    with pytest.raises(ConfigError, match="a path on this machine"):
        tm.count(server.add("a.txt", PLAIN), out="s3://bucket/counts.parquet")


def test_training_and_reports_read_addresses_too(server: Server, tmp_path: Path) -> None:
    url = server.add("a.txt", PLAIN)
    tokenizer = tm.train(url, vocab_size=300, out=tmp_path / "tok", progress=False)
    local = tm.train(tm.documents(TEXTS), vocab_size=300)
    assert tokenizer.merges == local.merges
    again = tm.train(url, vocab_size=300, out=tmp_path / "tok", progress=False)
    assert again.training is None  # "already done"


def test_labelled_rows_and_inspection_read_addresses_too(server: Server, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from tokenmill.cli.main import app

    tm.train(tm.documents(TEXTS), vocab_size=300, out=tmp_path / "tok", progress=False)
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": TEXTS[:9], "lang": ["en", "de", "en"] * 3}), sink)
    url = server.add("rows.parquet", sink.getvalue())
    (tmp_path / "rows.parquet").write_bytes(sink.getvalue())
    rows: list[str] = []
    for place in (url, str(tmp_path / "rows.parquet")):
        arguments = [str(tmp_path / "tok"), "--text", place, "--label-field", "lang", "--json"]
        ended = CliRunner().invoke(app, ["report", "compression", *arguments])
        assert ended.exit_code == 0, ended.output
        rows.append(ended.stdout.replace(place, "rows"))
    assert rows[0] == rows[1]
    arguments = [url, "--tokenizer", str(tmp_path / "tok"), "--index", "3", "--json"]
    ended = CliRunner().invoke(app, ["inspect", *arguments])
    assert ended.exit_code == 0, ended.output
    assert TEXTS[3] in ended.stdout


def test_encoding_reads_addresses_and_pulled_folders(
    server: Server, hub: Hub, tmp_path: Path
) -> None:
    """The same ids from an address, from a folder on the Hub with splits, and from a pulled folder."""
    from tokenmill.pull.call import pull

    tokenizer = tm.train(tm.documents(TEXTS), vocab_size=300)
    (tmp_path / "a.txt").write_bytes(PLAIN)
    local = tm.encode_dataset(tmp_path / "a.txt", tokenizer, tmp_path / "local", progress=False)
    away = tm.encode_dataset(
        server.add("a.txt", PLAIN), tokenizer, tmp_path / "away", progress=False
    )
    assert np.array_equal(away.tokens, local.tokens)
    hub.add_dataset(
        "roneneldan/TinyStories",
        {"TinyStoriesV2-GPT4-train.txt": PLAIN, "TinyStoriesV2-GPT4-valid.txt": b"a short story"},
    )
    pull("tinystories", tmp_path / "stories", progress=False)
    pulled = tm.encode_dataset(tmp_path / "stories", tokenizer, tmp_path / "pulled", progress=False)
    assert np.array_equal(pulled.tokens, local.tokens)
    assert pulled.splits["validation"].num_documents == 1
    straight = tm.encode_dataset(
        "hf://datasets/roneneldan/TinyStories", tokenizer, tmp_path / "straight", progress=False
    )
    assert np.array_equal(straight.tokens, local.tokens)
    assert straight.splits["validation"].num_documents == 1
