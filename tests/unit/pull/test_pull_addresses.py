"""Files by address and by lists of addresses; who shares a folder; what Ctrl-C leaves."""

import hashlib
import json
import random
import threading
from pathlib import Path

import pytest
from loopback import Fault, Hub, Server

from tokenmill.errors import ConfigError, SourceError
from tokenmill.pull.call import pull
from tokenmill.pull.items import read_list
from tokenmill.pull.run import PullReport, prepare_pull
from tokenmill.storage.retries import Patience

QUICK = Patience(retries=3, first_seconds=0.001, most_seconds=0.01)
RANDOM = random.Random(5)
FILES = {f"part-{number}.txt": RANDOM.randbytes(20_000 + number) for number in range(12)}


def run(what: str | list[str], folder: Path, **more: object) -> PullReport:
    return prepare_pull(what, folder, patience=QUICK, progress=False, **more).run()  # pyright: ignore


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".txt"}


@pytest.fixture
def urls(server: Server) -> list[str]:
    return [server.add(name, content) for name, content in FILES.items()]


def test_addresses_become_files(urls: list[str], tmp_path: Path) -> None:
    report = run(urls, tmp_path)
    assert contents(tmp_path) == FILES
    assert (report.name, report.files, report.fetched_files) == ("addresses", 12, 12)
    (entry,) = json.loads((tmp_path / "pull.json").read_bytes())["pulls"]
    digest = hashlib.sha256(FILES["part-3.txt"]).hexdigest()
    assert entry["files"]["part-3.txt"] == {
        "size": 20_003,
        "sha256": digest,
        "address": urls[3],
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [*FILES, ".pull", "pull.json"]
    )


def test_a_list_of_addresses_with_hashes(server: Server, urls: list[str], tmp_path: Path) -> None:
    digests = [hashlib.sha256(content).hexdigest() for content in FILES.values()]
    lines = [
        "# comment",
        "",
        f"{urls[0]}  {digests[0]}",
        f"{digests[1].upper()}  {urls[1]}",
        urls[2],
    ]
    (tmp_path / "list.txt").write_text("\n".join(lines))
    server.fail("part-0.txt", Fault(flip_at=5))
    run(str(tmp_path / "list.txt"), tmp_path / "out")
    assert contents(tmp_path / "out") == {f"part-{n}.txt": FILES[f"part-{n}.txt"] for n in range(3)}
    assert len(server.asked("GET", "part-0.txt")) == 2


@pytest.mark.parametrize(
    "line", ["part.txt", "http://h/a http://h/b", f"http://h/a {'0' * 64} {'1' * 64}"]
)
def test_a_bad_line_of_a_list_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "list.txt").write_text(f"# first\n{line}\n")
    with pytest.raises(SourceError, match=r"list\.txt:2"):
        read_list(tmp_path / "list.txt")
    (tmp_path / "empty.txt").write_text("\n# nothing\n")
    with pytest.raises(SourceError, match="lists no address"):
        read_list(tmp_path / "empty.txt")


def test_one_sha256_for_one_file(urls: list[str], tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"expected `0{64}`"):
        run(urls[:1], tmp_path, sha256="0" * 64)
    assert contents(tmp_path) == {}
    assert not (tmp_path / "pull.json").exists()
    run(urls[:1], tmp_path, sha256=hashlib.sha256(FILES["part-0.txt"]).hexdigest())
    with pytest.raises(ConfigError, match="for one file"):
        run(urls, tmp_path, sha256="0" * 64)
    with pytest.raises(ConfigError, match="64 digits"):
        run(urls[:1], tmp_path, sha256="abc")


def test_two_addresses_for_one_file_are_refused(server: Server, tmp_path: Path) -> None:
    one, other = server.add("x/a.txt", b"1"), server.add("y/a.txt", b"2")
    with pytest.raises(SourceError, match="would both be written"):
        run([one, other], tmp_path)
    with pytest.raises(SourceError, match="would both be written"):
        run([one, server.add("y/A.TXT", b"2")], tmp_path)


def test_one_missing_file_does_not_keep_the_others_away(urls: list[str], tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"nope\.txt` does not exist"):
        run([*urls, urls[0].replace("part-0", "nope")], tmp_path)
    run(urls, tmp_path)
    assert contents(tmp_path) == FILES


def test_a_file_that_vanishes_meanwhile(server: Server, urls: list[str], tmp_path: Path) -> None:
    server.fail("part-4.txt", *[Fault(status=404)] * 9)
    with pytest.raises(SourceError, match=r"part-4\.txt` does not exist"):
        run(urls, tmp_path)
    assert contents(tmp_path) == {name: data for name, data in FILES.items() if "4" not in name}


def test_a_changed_file_is_fetched_again(server: Server, urls: list[str], tmp_path: Path) -> None:
    run(urls, tmp_path)
    server.add("part-1.txt", bytes(reversed(FILES["part-1.txt"])))  # of the same length
    report = run(urls, tmp_path)
    assert (report.fetched_files, report.replaced_files) == (1, 1)
    assert contents(tmp_path)["part-1.txt"] == bytes(reversed(FILES["part-1.txt"]))


def test_a_lost_record_costs_no_download(server: Server, urls: list[str], tmp_path: Path) -> None:
    run(urls, tmp_path)
    server.bytes_sent.clear()
    (tmp_path / ".pull/record.jsonl").write_bytes(b'{"path": "part-0.txt", "si')
    assert run(urls, tmp_path).already_done
    assert run(urls, tmp_path, verify=True).already_done
    assert server.bytes_sent == {}


def test_a_kill_after_the_last_step_leaves_no_litter(urls: list[str], tmp_path: Path) -> None:
    run(urls, tmp_path)
    (tmp_path / ".part-0.txt.part.json").write_text("{}")
    assert run(urls, tmp_path).already_done
    assert sorted(path.name for path in tmp_path.iterdir() if path.name[0] == ".") == [".pull"]


def test_two_pulls_share_the_work(server: Server, urls: list[str], tmp_path: Path) -> None:
    server.bytes_a_second = 100_000
    reports: list[PullReport] = []
    threads = [
        threading.Thread(target=lambda: reports.append(run(urls, tmp_path, workers=2)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert contents(tmp_path) == FILES
    assert len(reports) == 3
    assert sum(server.bytes_sent.values()) == sum(map(len, FILES.values()))
    assert sum(report.fetched_files for report in reports) == len(FILES)
    assert all(report.files == len(FILES) for report in reports)
    assert max(report.fetched_files for report in reports) < len(FILES)


def test_a_reader_sees_whole_files_only(server: Server, urls: list[str], tmp_path: Path) -> None:
    """What a listing finds at any moment of a pull is complete."""
    from tokenmill.sources.folders import walk_folder
    from tokenmill.sources.formats import Format

    server.bytes_a_second = 200_000
    pulling = threading.Thread(target=run, args=(urls, tmp_path))
    pulling.start()
    seen: set[int] = set()
    while pulling.is_alive():
        found = walk_folder(tmp_path, Format("txt", None)).files
        seen.add(len(found))
        for path in found:
            if path.name != "pull.json":
                assert path.read_bytes() == FILES[path.name]
    pulling.join()
    assert len(seen) > 2


def test_folders_and_globs_on_the_hub(hub: Hub, tmp_path: Path) -> None:
    files = {f"data/en/{n}.txt": b"english " * (n + 9) for n in range(3)}
    files |= {"data/de/0.txt": b"deutsch " * 9, ".gitattributes": b"x", "README.md": b"about"}
    hub.add_dataset("some/texts", files)
    run("hf://datasets/some/texts/data/*/0.txt", tmp_path / "glob")
    found = sorted(
        p.relative_to(tmp_path / "glob").as_posix() for p in (tmp_path / "glob").rglob("*.txt")
    )
    assert found == ["de/0.txt", "en/0.txt"]
    run("hf://datasets/some/texts@main/data/en", tmp_path / "folder")
    assert len(list((tmp_path / "folder").glob("*.txt"))) == 3
    run("hf://datasets/some/texts", tmp_path / "all")
    assert (tmp_path / "all/README.md").read_bytes() == b"about"
    with pytest.raises(SourceError, match="no object matches"):
        run("hf://datasets/some/texts/data/*.parquet", tmp_path / "none")
    with pytest.raises(SourceError, match="does not exist"):
        run("hf://datasets/some/texts/nope", tmp_path / "none")


def test_flags_that_do_not_belong_to_addresses(urls: list[str], tmp_path: Path) -> None:
    for more in ({"shards": "..8"}, {"config": "x"}, {"base_url": "http://h"}):
        with pytest.raises(ConfigError, match="have a name"):
            run(urls, tmp_path, **more)
    with pytest.raises(ConfigError, match="goes alone"):
        run([*urls, "tinystories"], tmp_path)
    with pytest.raises(ConfigError, match="workers 0 is below 1"):
        pull(urls, tmp_path, workers=0)
    with pytest.raises(ConfigError, match="a path on this machine"):
        pull(urls, "s3://bucket/out")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="is a file"):
        pull(urls, tmp_path / "file")


def test_passwords_go_nowhere_else(server: Server, tmp_path: Path) -> None:
    login = "Basic bWU6c2VjcmV0"  # me:secret
    url = server.add("locked.txt", b"text" * 50, login=login)
    with pytest.raises(SourceError, match="401"):
        run(url, tmp_path)
    run(url.replace("http://", "http://me:secret@") + "?signature=hidden", tmp_path)
    assert contents(tmp_path) == {"locked.txt": b"text" * 50}
    everything = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert b"secret" not in everything
    assert b"hidden" not in everything


def test_redirects_do_not_carry_passwords(server: Server, tmp_path: Path) -> None:
    from loopback import serving

    with serving() as other:
        target = other.add("b.txt", b"text" * 50)
        url = server.add("b.txt", b"", redirect=target)
        run(url.replace("http://", "http://me:secret@"), tmp_path)
        assert contents(tmp_path) == {"b.txt": b"text" * 50}
        assert all("authorization" not in each.headers for each in other.requests)
    for target in ("file:///etc/passwd", "ftp://127.0.0.1/x"):
        server.add("c.txt", b"", redirect=target)
        with pytest.raises(SourceError, match="no web address"):
            run(f"{server.url}/c.txt", tmp_path)
    server.add("d.txt", b"", redirect=f"{server.url}/d.txt")
    with pytest.raises(SourceError, match="redirected more than"):
        run(f"{server.url}/d.txt", tmp_path)
