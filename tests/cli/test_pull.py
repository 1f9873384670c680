"""`tokenmill pull` as people type it: output, flags, exit codes, Ctrl-C."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from loopback import COMMIT, Hub, Server
from typer.testing import CliRunner

from tokenmill.cli.main import app

CONTENT = random.Random(8).randbytes(100_000)


def tokenmill(*arguments: object) -> tuple[int, str, str]:
    ended = CliRunner().invoke(app, ["pull", *map(str, arguments)])
    return ended.exit_code, ended.stdout, ended.stderr


@pytest.fixture
def stories(hub: Hub) -> Hub:
    hub.add_dataset(
        "roneneldan/TinyStories",
        {"TinyStoriesV2-GPT4-train.txt": CONTENT, "TinyStoriesV2-GPT4-valid.txt": CONTENT[:500]},
    )
    return hub


def test_pulling_by_name(stories: Hub, tmp_path: Path) -> None:
    code, out, _ = tokenmill("tinystories", "--to", tmp_path)
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["pulled", "licence", "wrote"]
    assert "2 files, 100 kB" in out
    assert (tmp_path / "train/TinyStoriesV2-GPT4-train.txt").read_bytes() == CONTENT
    code, out, _ = tokenmill("tinystories", "--to", tmp_path)
    assert code == 0
    assert out.startswith("done     already: 2 files, 100 kB")
    code, out, _ = tokenmill("tinystories", "--to", tmp_path, "--quiet")
    assert (code, out) == (0, "")


def test_machine_output(stories: Hub, tmp_path: Path) -> None:
    code, out, _ = tokenmill("tinystories", "--to", tmp_path, "--json", "--workers", 1)
    report = json.loads(out)
    assert code == 0
    assert report["fetched_bytes"] == report["bytes"] == 100_500
    assert report["revision"] == COMMIT
    assert report["splits"] == {"train": 1, "validation": 1}


def test_a_dry_run_shows_sizes_and_fetches_nothing(stories: Hub, tmp_path: Path) -> None:
    code, out, _ = tokenmill("tinystories", "--to", tmp_path / "out", "--dry-run")
    assert code == 0
    assert "train/TinyStoriesV2-GPT4-train.txt" in out
    assert "fetch    2 files, 100 kB" in out
    code, out, _ = tokenmill("tinystories", "--to", tmp_path / "out", "--dry-run", "--json")
    plan = json.loads(out)
    assert plan["bytes"] == 100_500
    assert len(plan["files"][0]["sha256"]) == 64
    assert stories.storage.requests == []
    assert not (tmp_path / "out").exists()


def test_the_catalogue() -> None:
    code, out, _ = tokenmill("--list")
    assert code == 0
    assert out.splitlines()[0].startswith("fineweb-edu")
    code, out, _ = tokenmill("--list", "--json")
    assert json.loads(out)["climbmix"]["address"] == "hf://datasets/karpathy/climbmix-400b-shuffle"


def test_failures_have_codes_and_hints(stories: Hub, server: Server, tmp_path: Path) -> None:
    code, _, err = tokenmill("tinystory", "--to", tmp_path)
    assert code == 1
    assert "unknown dataset `tinystory`; there are `fineweb-edu`" in err
    assert "hint: did you mean `tinystories`?" in err
    code, _, err = tokenmill(f"{server.url}/nope.txt", "--to", tmp_path, "--retries", 0)
    assert (code, "does not exist" in err) == (1, True)
    assert tokenmill("tinystories")[0] == 2
    assert tokenmill("--to", tmp_path)[0] == 2
    url = server.add("a.txt", CONTENT)
    code, _, err = tokenmill(url, "--to", tmp_path, "--sha256", "0" * 64)
    assert code == 1
    assert "0" * 64 in err
    assert not (tmp_path / "a.txt").exists()


def test_a_full_disk_is_told_and_what_arrived_stays(server: Server, tmp_path: Path) -> None:
    """A limit on file sizes stands in for a disk: the operating system says no in the middle."""
    url = server.add("a.txt", CONTENT * 30)
    program = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000));"
        "from tokenmill.cli.main import main; sys.argv[0] = 'tokenmill'; main()"
    )
    command = [sys.executable, "-c", program, "pull", url, "--to", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    assert ended.returncode == 1
    assert "no room to write" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "a.txt").exists()
    server.bytes_sent.clear()
    assert tokenmill(url, "--to", tmp_path)[0] == 0
    assert (tmp_path / "a.txt").read_bytes() == CONTENT * 30
    assert server.bytes_sent["/a.txt"] <= 2_000_000


def test_interrupted_it_says_how_to_go_on(server: Server, tmp_path: Path) -> None:
    server.bytes_a_second = 300_000
    url = server.add("a.txt", CONTENT * 5)
    command = [sys.executable, "-m", "tokenmill", "pull", url, "--to", str(tmp_path)]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as running:
        while server.bytes_sent.get("/a.txt", 0) < 100_000:
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=20)
    assert running.returncode == 130
    assert "interrupted; what has arrived is kept" in err
    assert "hint: run the same command again" in err
    kept = os.path.getsize(tmp_path / "a.txt.part")
    assert kept > 50_000
    server.bytes_a_second = None
    assert tokenmill(url, "--to", tmp_path)[0] == 0
    assert (tmp_path / "a.txt").read_bytes() == CONTENT * 5
    assert server.asked("GET", "a.txt")[-1].headers["range"] == f"bytes={kept}-"
