"""One object into one file, whatever the server does on the way."""

import hashlib
import json
import random
import threading
from pathlib import Path

import pytest
from loopback import Fault, Server

from tokenmill.errors import SourceError, TokenmillError
from tokenmill.storage.address import require_address
from tokenmill.storage.download import Download, Fetched
from tokenmill.storage.part_file import PartFile, note_path, part_path
from tokenmill.storage.remote import RemoteState, store_of
from tokenmill.storage.retries import Patience

QUICK = Patience(retries=4, first_seconds=0.001, most_seconds=0.01)
CONTENT = random.Random(1).randbytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def fetch(url: str, target: Path, **more: object) -> Fetched:
    address = require_address(url)
    store = store_of(address)
    part = PartFile.claim(target)
    assert part is not None
    with part:
        stated = store.stat(address)
        download = Download(store, address, target, stated, patience=QUICK, **more)  # pyright: ignore
        return download.run(part)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_arrives_whole_and_leaves_nothing_else(server: Server, tmp_path: Path) -> None:
    fetched = fetch(server.add("a.txt", CONTENT), tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_bytes() == CONTENT
    assert (fetched.size, fetched.sha256) == (len(CONTENT), SHA256)
    assert fetched.state.etag == server.pages["/a.txt"].etag
    assert names(tmp_path) == ["a.txt"]
    assert (tmp_path / "a.txt").stat().st_mode & 0o444 == 0o444


def test_an_empty_file_arrives(server: Server, tmp_path: Path) -> None:
    assert fetch(server.add("empty.txt", b""), tmp_path / "empty.txt").size == 0
    assert names(tmp_path) == ["empty.txt"]


@pytest.mark.parametrize("length", [True, False])
def test_a_server_without_validators_is_enough(
    server: Server, tmp_path: Path, length: bool
) -> None:
    url = server.add("a.txt", CONTENT, has_etag=False, has_length=length)
    assert fetch(url, tmp_path / "a.txt").sha256 == SHA256


def test_a_cut_is_resumed_where_it_was(server: Server, tmp_path: Path) -> None:
    url = server.add("a.txt", CONTENT)
    server.fail("a.txt", Fault(cut_after=100_000), Fault(cut_after=50_000))
    assert fetch(url, tmp_path / "a.txt").sha256 == SHA256
    ranges = [each.headers.get("range") for each in server.asked("GET")]
    assert ranges == [None, "bytes=100000-", "bytes=150000-"]
    assert server.asked("GET")[1].headers["if-range"] == server.pages["/a.txt"].etag
    assert server.bytes_sent["/a.txt"] == len(CONTENT)


def test_a_date_is_a_validator_too(server: Server, tmp_path: Path) -> None:
    url = server.add("a.txt", CONTENT, has_etag=False, has_date=True)
    server.fail("a.txt", Fault(cut_after=100_000))
    fetch(url, tmp_path / "a.txt")
    assert server.asked("GET")[1].headers["if-range"].startswith("Mon, 16 Nov")
    assert server.bytes_sent["/a.txt"] == len(CONTENT)


def test_without_a_validator_a_cut_starts_over(server: Server, tmp_path: Path) -> None:
    url = server.add("a.txt", CONTENT, has_etag=False)
    server.fail("a.txt", Fault(cut_after=100_000))
    assert fetch(url, tmp_path / "a.txt").sha256 == SHA256
    assert [each.headers.get("range") for each in server.asked("GET")] == [None, None]


def test_a_stated_sha256_makes_a_cut_resumable(server: Server, tmp_path: Path) -> None:
    url = server.add("a.txt", CONTENT, has_etag=False)
    server.fail("a.txt", Fault(cut_after=100_000))
    assert fetch(url, tmp_path / "a.txt", sha256=SHA256).sha256 == SHA256
    assert server.asked("GET")[1].headers["range"] == "bytes=100000-"


def test_a_server_that_ignores_ranges_starts_over(server: Server, tmp_path: Path) -> None:
    url = server.add("a.txt", CONTENT, ignores_range=True)
    server.fail("a.txt", Fault(cut_after=100_000))
    assert fetch(url, tmp_path / "a.txt").sha256 == SHA256
    assert (tmp_path / "a.txt").read_bytes() == CONTENT


@pytest.mark.parametrize("ignores_if_range", [False, True])
@pytest.mark.parametrize("size", [300_000, 200_000, 120_000, 50_000])
def test_another_version_is_never_mixed_in(
    server: Server, tmp_path: Path, size: int, ignores_if_range: bool
) -> None:
    newer = random.Random(2).randbytes(size)
    url = server.add("a.txt", CONTENT, ignores_if_range=ignores_if_range)
    server.fail("a.txt", Fault(cut_after=100_000), Fault(replace_by=newer))
    assert fetch(url, tmp_path / "a.txt").sha256 == hashlib.sha256(newer).hexdigest()


def interrupted(server: Server, target: Path, keep: int, **more: object) -> str:
    """Leave a `.part` of `keep` bytes, as a run that was killed would."""
    url = server.add(target.name, CONTENT, **more)
    server.fail(target.name, *[Fault(cut_after=keep)], *[Fault(status=500)] * 5)
    with pytest.raises(SourceError, match="500"):
        fetch(url, target)
    assert part_path(target).stat().st_size == keep
    server.faults.clear()
    server.requests.clear()
    server.bytes_sent.clear()
    return url


def test_a_later_run_goes_on(server: Server, tmp_path: Path) -> None:
    url = interrupted(server, tmp_path / "a.txt", 200_000)
    fetched = fetch(url, tmp_path / "a.txt")
    assert (fetched.sha256, fetched.transferred_bytes) == (SHA256, 100_000)
    assert server.bytes_sent["/a.txt"] == 100_000
    assert names(tmp_path) == ["a.txt"]


def test_a_later_run_notices_another_version(server: Server, tmp_path: Path) -> None:
    interrupted(server, tmp_path / "a.txt", 200_000)
    newer = b"newer" * 70_000
    assert fetch(server.add("a.txt", newer), tmp_path / "a.txt").size == len(newer)
    assert (tmp_path / "a.txt").read_bytes() == newer


def test_a_part_of_another_object_is_not_used(server: Server, tmp_path: Path) -> None:
    interrupted(server, tmp_path / "a.txt", 200_000)
    url = server.add("other/a.txt", CONTENT)
    assert fetch(url, tmp_path / "a.txt").transferred_bytes == len(CONTENT)


@pytest.mark.parametrize("note", [b"", b"{", b"[]", b'{"address": 1}', b"\xff" * 50])
def test_a_broken_note_costs_only_time(server: Server, tmp_path: Path, note: bytes) -> None:
    url = interrupted(server, tmp_path / "a.txt", 200_000)
    note_path(tmp_path / "a.txt").write_bytes(note)
    assert fetch(url, tmp_path / "a.txt").sha256 == SHA256


def test_a_part_that_is_complete_is_not_fetched_again(server: Server, tmp_path: Path) -> None:
    url = interrupted(server, tmp_path / "a.txt", 200_000)
    with open(part_path(tmp_path / "a.txt"), "ab") as file:
        file.write(CONTENT[200_000:])
    assert fetch(url, tmp_path / "a.txt").transferred_bytes == 0
    assert server.asked("GET") == []


def test_416_with_all_bytes_here_is_the_end(server: Server, tmp_path: Path) -> None:
    """A server whose HEAD tells no size: only the range it refuses says that nothing is missing."""
    target = tmp_path / "a.txt"
    url = interrupted(server, target, 200_000)
    with open(part_path(target), "ab") as file:
        file.write(CONTENT[200_000:])
    address = require_address(url)
    part = PartFile.claim(target)
    assert part is not None
    with part:
        fetched = Download(store_of(address), address, target, RemoteState(), patience=QUICK).run(
            part
        )
    assert (fetched.sha256, fetched.transferred_bytes) == (SHA256, 0)
    assert len(server.asked("GET")) == 1


def test_416_with_too_much_here_starts_over(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    url = interrupted(server, target, 200_000)
    server.add("a.txt", CONTENT[:150_000], ignores_if_range=True)
    address = require_address(url)
    part = PartFile.claim(target)
    assert part is not None
    with part:
        fetched = Download(store_of(address), address, target, RemoteState(), patience=QUICK).run(
            part
        )
    assert fetched.size == 150_000
    assert target.read_bytes() == CONTENT[:150_000]


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 408])
def test_busy_servers_are_waited_for(server: Server, tmp_path: Path, status: int) -> None:
    url = server.add("a.txt", CONTENT)
    server.fail("a.txt", *[Fault(status=status)] * 3)
    assert fetch(url, tmp_path / "a.txt").sha256 == SHA256


def test_patience_ends(server: Server, tmp_path: Path) -> None:
    url = server.add("a.txt", CONTENT)
    server.fail("a.txt", *[Fault(status=503)] * 5)
    with pytest.raises(SourceError, match=r"503 .*5 times in a row"):
        fetch(url, tmp_path / "a.txt")
    assert not (tmp_path / "a.txt").exists()


def test_progress_renews_patience(server: Server, tmp_path: Path) -> None:
    url = server.add("a.txt", CONTENT)
    server.fail("a.txt", *[Fault(cut_after=20_000)] * 12)
    assert fetch(url, tmp_path / "a.txt").sha256 == SHA256


def test_crumbs_do_not_renew_it(server: Server, tmp_path: Path) -> None:
    url = server.add("a.txt", CONTENT)
    server.fail("a.txt", *[Fault(cut_after=10)] * 1000)
    with pytest.raises(SourceError, match="5 times in a row"):
        fetch(url, tmp_path / "a.txt")
    assert len(server.asked("GET")) == 5


def test_retry_after_is_heard() -> None:
    from tokenmill.storage.retries import asked_seconds

    assert asked_seconds("1") == 1.0
    assert QUICK.seconds(1, asked_seconds("1")) == 1.0
    assert Patience(most_asked_seconds=5).seconds(1, 3600.0) == 5.0
    assert (asked_seconds("Mon, 16 Nov 2099 05:00:00 GMT") or 0) > 1e6
    assert asked_seconds("Mon, 16 Nov 2009 05:00:00 GMT") == 0.0
    assert asked_seconds("soon") is None


@pytest.mark.parametrize(
    ("status", "match"), [(404, "does not exist"), (403, "refused"), (401, "refused")]
)
def test_what_no_patience_mends_is_told_at_once(
    server: Server, tmp_path: Path, status: int, match: str
) -> None:
    url = server.add("a.txt", CONTENT)
    server.fail("a.txt", *[Fault(status=status)] * 9)
    with pytest.raises(SourceError, match=match):
        fetch(url, tmp_path / "a.txt")
    assert len(server.asked("GET")) == 1


def test_a_server_that_refuses_head_is_asked_for_a_byte(server: Server, tmp_path: Path) -> None:
    url = server.add("a.txt", CONTENT, no_head=True)
    assert fetch(url, tmp_path / "a.txt").sha256 == SHA256
    assert server.asked("GET")[0].headers["range"] == "bytes=0-0"


@pytest.mark.parametrize("header", ["x-amz-checksum-sha256", "Repr-Digest", "Digest"])
def test_a_flipped_bit_is_fetched_again(server: Server, tmp_path: Path, header: str) -> None:
    url = server.add("a.txt", CONTENT, sha256_header=header)
    server.fail("a.txt", Fault(flip_at=123_456), Fault(flip_at=299_999))
    assert fetch(url, tmp_path / "a.txt").sha256 == SHA256


def test_a_wrong_hash_names_both_and_keeps_nothing(server: Server, tmp_path: Path) -> None:
    url = server.add("a.txt", CONTENT)
    with pytest.raises(SourceError) as raised:
        fetch(url, tmp_path / "a.txt", sha256="0" * 64)
    assert SHA256 in raised.value.message
    assert "0" * 64 in raised.value.message
    assert not (tmp_path / "a.txt").exists()
    assert part_path(tmp_path / "a.txt").stat().st_size == 0
    assert len(server.asked("GET")) == 3


def test_flipped_bits_anywhere_are_found(server: Server, tmp_path: Path) -> None:
    """Same length, one bit, 100 places: every one is noticed and mended."""
    small = CONTENT[:5_000]
    url = server.add("a.txt", small, sha256_header="Repr-Digest")
    for place in random.Random(3).sample(range(5_000), 100):
        server.fail("a.txt", Fault(flip_at=place))
        fetched = fetch(url, tmp_path / f"{place}.txt")
        assert fetched.transferred_bytes == 2 * len(small)
        assert (tmp_path / f"{place}.txt").read_bytes() == small


def test_one_holder_at_a_time(server: Server, tmp_path: Path) -> None:
    held = PartFile.claim(tmp_path / "a.txt")
    assert held is not None
    with held:
        assert PartFile.claim(tmp_path / "a.txt") is None
    again = PartFile.claim(tmp_path / "a.txt")
    assert again is not None
    with again:
        pass


def test_a_part_is_no_way_out_of_the_folder(server: Server, tmp_path: Path) -> None:
    """A link with the name of the `.part` is not written through."""
    (tmp_path / "victim").write_bytes(b"precious")
    part_path(tmp_path / "a.txt").symlink_to(tmp_path / "victim")
    with pytest.raises(TokenmillError, match="cannot be written"):
        PartFile.claim(tmp_path / "a.txt")
    assert (tmp_path / "victim").read_bytes() == b"precious"


def test_stopping_keeps_what_arrived(server: Server, tmp_path: Path) -> None:
    stop = threading.Event()

    def progress(num_bytes: int) -> None:
        if num_bytes > 100_000:
            stop.set()

    url = server.add("a.txt", CONTENT * 4)
    with pytest.raises(InterruptedError):
        fetch(url, tmp_path / "a.txt", stop=stop, progress=progress)
    arrived = part_path(tmp_path / "a.txt").stat().st_size
    assert arrived > 100_000
    note = json.loads(note_path(tmp_path / "a.txt").read_bytes())
    assert note["etag"] == server.pages["/a.txt"].etag
    assert fetch(url, tmp_path / "a.txt").transferred_bytes == 4 * len(CONTENT) - arrived
    # The server may still have been sending to whoever left, so what was asked for tells, not what it sent.
    assert server.asked("GET", "a.txt")[-1].headers["range"] == f"bytes={arrived}-"
