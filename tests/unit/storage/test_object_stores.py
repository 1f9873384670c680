"""S3 (moto) and Google Cloud Storage (a server of our own): asked, listed, read by ranges, fetched."""

import random
from collections.abc import Callable, Generator
from pathlib import Path

import obstore
import pytest
from loopback import CloudStorage, Fault, serving
from moto.server import ThreadedMotoServer

import tokenmill as tm
from tokenmill.errors import SourceError
from tokenmill.pull.run import prepare_pull
from tokenmill.storage import object_store
from tokenmill.storage.address import require_address
from tokenmill.storage.listing import find_objects
from tokenmill.storage.remote import Changed, OutOfRange, store_of
from tokenmill.storage.retries import Patience

QUICK = Patience(retries=2, first_seconds=0.001, most_seconds=0.01)
CONTENT = random.Random(4).randbytes(700_000)
Put = Callable[[str, bytes], str]
"""Puts an object into a bucket and gives its address."""


@pytest.fixture(scope="module")
def moto() -> Generator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


@pytest.fixture
def s3(moto: str, monkeypatch: pytest.MonkeyPatch) -> Put:
    import urllib.request

    for name, value in {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": moto,
    }.items():
        monkeypatch.setenv(name, value)
    object_store._bucket.cache_clear()
    urllib.request.urlopen(urllib.request.Request(f"{moto}/bucket", method="PUT")).close()

    def put(key: str, content: bytes) -> str:
        obstore.put(object_store._bucket("s3", "bucket"), key, content)
        return f"s3://bucket/{key}"

    return put


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Generator[CloudStorage]:
    with serving(CloudStorage) as server:
        assert isinstance(server, CloudStorage)
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        object_store._bucket.cache_clear()
        yield server


@pytest.fixture(params=["s3", "gs"])
def put(request: pytest.FixtureRequest) -> Put:
    if request.param == "s3":
        return request.getfixturevalue("s3")
    server: CloudStorage = request.getfixturevalue("cloud")

    def put(key: str, content: bytes) -> str:
        server.add(f"bucket/{key}", content, has_date=True)
        return f"gs://bucket/{key}"

    return put


def test_objects_are_asked_and_read(put: Put) -> None:
    address = require_address(put("folder/a.txt", CONTENT))
    store = store_of(address)
    state = store.stat(address)
    assert state.size == len(CONTENT)
    assert state.validator is not None
    body = store.open(address, 123, 500_000, state.validator)
    assert body.start == 123
    blocks: list[bytes] = []
    while block := body.read(100_000):
        blocks.append(block)
    assert b"".join(blocks) == CONTENT[123:500_000]
    with pytest.raises(Changed):
        store.open(address, 5, None, '"another"')
    with pytest.raises(OutOfRange):
        store.open(address, len(CONTENT) + 5)
    with pytest.raises(SourceError, match="does not exist"):
        store.stat(address.at("folder/b.txt"))


def test_folders_and_globs_are_listed(put: Put) -> None:
    for key in ("list/a.txt", "list/b/c.txt", "list/b/d.parquet", "listed.txt"):
        put(key, b"x")
    scheme = put("list/a.txt", b"x").partition(":")[0]

    def found(path: str) -> list[str]:
        listing = find_objects(require_address(f"{scheme}://bucket/{path}"), QUICK)
        return [listing.inside(place) for place, _ in listing.objects]

    assert found("list/") == ["a.txt", "b/c.txt", "b/d.parquet"]
    assert found("list/*.txt") == ["a.txt"]
    assert found("list/**/*.txt") == ["a.txt", "b/c.txt"]
    assert found("list/b") == ["c.txt", "d.parquet"]
    assert found("list/a.txt") == ["a.txt"]
    with pytest.raises(SourceError, match="no object matches"):
        found("list/*.jsonl")


def test_pull_from_a_bucket(put: Put, tmp_path: Path) -> None:
    names = [f"pull/part {number}.txt" for number in range(5)]
    addresses = [put(name, CONTENT[number:]) for number, name in enumerate(names)]
    pattern = f"{addresses[0].rpartition('/')[0]}/*"

    def run(folder: Path) -> int:
        return prepare_pull(pattern, folder, patience=QUICK, progress=False).run().fetched_files

    assert run(tmp_path) == 5
    assert (tmp_path / "part 3.txt").read_bytes() == CONTENT[3:]
    assert run(tmp_path) == 0
    put(names[3], b"changed")
    assert run(tmp_path) == 1
    assert (tmp_path / "part 3.txt").read_bytes() == b"changed"


def test_a_named_dataset_from_a_bucket(put: Put, tmp_path: Path) -> None:
    base = put("mirror/shard_00000.parquet", CONTENT).rpartition("/")[0]
    prepare_pull(
        "fineweb-edu", tmp_path, shards="0", base_url=base, patience=QUICK, progress=False
    ).run()
    assert (tmp_path / "train/shard_00000.parquet").read_bytes() == CONTENT
    put("mirror/sample/10BT/000_00000.parquet", CONTENT)
    out = tmp_path / "fineweb"
    prepare_pull("fineweb", out, base_url=base, patience=QUICK, progress=False).run()
    assert (out / "train/000_00000.parquet").read_bytes() == CONTENT


def test_counting_straight_from_a_bucket(put: Put, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts = [f"document {number} says hello" for number in range(500)]
    pq.write_table(pa.table({"text": texts}), tmp_path / "a.parquet", row_group_size=100)
    local = tm.count(tmp_path / "a.parquet").to_dict()
    put("in/a.parquet", (tmp_path / "a.parquet").read_bytes())
    address = put("in/b.txt", "<|endoftext|>".join(texts).encode())
    folder = address.rpartition("/")[0]
    assert tm.count(f"{folder}/a.parquet").to_dict() == local
    assert tm.count(f"{folder}/*.txt").to_dict() == local
    assert tm.count(f"{folder}/").to_dict() == {key: 2 * value for key, value in local.items()}


def test_a_cut_from_the_cloud_is_resumed(cloud: CloudStorage, tmp_path: Path) -> None:
    cloud.add("bucket/a.txt", CONTENT, has_date=True)
    cloud.fail("bucket/a.txt", Fault(cut_after=300_000))
    prepare_pull("gs://bucket/a.txt", tmp_path, patience=QUICK, progress=False).run()
    assert (tmp_path / "a.txt").read_bytes() == CONTENT


def test_without_obstore_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.delitem(sys.modules, "tokenmill.storage.object_store")
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(tm.ConfigError, match="needs the package `obstore`") as raised:
        tm.count("s3://bucket/a.txt")
    assert raised.value.hint == "install it with `pip install 'tokenmill[cloud]'`"
