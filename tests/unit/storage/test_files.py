"""Files are whole or absent, whatever happens while they are written."""

import errno
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tokenmill.errors import ConfigError, SourceError, TokenmillError
from tokenmill.storage.files import (
    file_state,
    local_path,
    open_atomically,
    remove_folder,
    require_unchanged,
    sha256_of,
    write_atomically,
    write_folder_atomically,
)


def test_a_written_file_holds_exactly_the_bytes_and_nothing_lies_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "er" / "file.bin"
    write_atomically(target, b"one")
    write_atomically(target, b"two")
    assert target.read_bytes() == b"two"
    assert os.listdir(target.parent) == ["file.bin"]
    assert target.stat().st_mode & 0o777 == 0o666 & ~_umask()


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "file.bin"
    write_atomically(target, b"old")

    def write_half() -> None:
        with open_atomically(target) as file:
            file.write(b"half of the n")
            raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"):
        write_half()
    assert target.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file.bin"]


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "folder"

    def fill_half() -> None:
        with write_folder_atomically(target) as filling:
            (filling / "a").write_bytes(b"1")
            assert filling.parent == tmp_path
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fill_half()
    assert os.listdir(tmp_path) == []
    with write_folder_atomically(target) as filling:
        (filling / "a").write_bytes(b"1")
        assert not target.exists()
    assert (target / "a").read_bytes() == b"1"
    with write_folder_atomically(target) as filling:
        (filling / "b").write_bytes(b"2")
    assert os.listdir(target) == ["b"], "the old folder is replaced as a whole"
    assert os.listdir(tmp_path) == ["folder"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_is_a_clean_error(tmp_path: Path, number: int) -> None:
    target = tmp_path / "file.bin"
    with (
        pytest.raises(TokenmillError, match=r"no room to write `.*file\.bin`") as caught,
        open_atomically(target),
    ):
        raise OSError(number, os.strerror(number))
    assert caught.value.hint is not None
    assert os.listdir(tmp_path) == []


def test_a_real_file_size_limit_is_a_clean_error(tmp_path: Path) -> None:
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
        "from tokenmill.errors import TokenmillError\n"
        "from tokenmill.storage.files import write_atomically\n"
        "try:\n    write_atomically(sys.argv[1], bytes(100_000))\n"
        "except TokenmillError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "file.bin")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("no room to write")
    assert os.listdir(tmp_path) == []


def test_an_unwritable_place_is_a_clean_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(TokenmillError, match="cannot be written"):
        write_atomically(tmp_path / "file" / "below", b"")


def test_sha256_and_its_stop(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"abc" * 1_000_000)
    assert sha256_of(file) == hashlib.sha256(b"abc" * 1_000_000).hexdigest()
    with pytest.raises(InterruptedError):
        sha256_of(file, stop=lambda: True)
    with pytest.raises(SourceError, match="does not exist"):
        sha256_of(tmp_path / "absent")


def test_a_changed_file_is_noticed_by_size_or_by_time(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"abc")
    before = file_state(file)
    require_unchanged(file, before)
    file.write_bytes(b"abcd")
    with pytest.raises(SourceError, match="3 bytes at first, 4 now"):
        require_unchanged(file, before)
    file.write_bytes(b"xyz")
    os.utime(file, ns=(0, before.mtime_ns + 1))
    with pytest.raises(SourceError, match="rewritten"):
        require_unchanged(file, before)


def test_a_missing_file_suggests_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_bytes(b"")
    with pytest.raises(SourceError, match="does not exist") as caught:
        file_state(tmp_path / "corpsu.txt")
    assert caught.value.hint == f"did you mean `{tmp_path / 'corpus.txt'}`?"


def test_addresses_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="`s3` address"):
        local_path("s3://bucket/key")
    assert local_path("a/b") == Path("a/b")


def test_removing_a_folder_twice_is_fine(tmp_path: Path) -> None:
    (tmp_path / "work" / "in").mkdir(parents=True)
    remove_folder(tmp_path / "work")
    remove_folder(tmp_path / "work")
    assert os.listdir(tmp_path) == []


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
