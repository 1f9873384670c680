"""`kill -9` at random moments of a real `tokenmill pull`: the next run goes on, nothing is fetched twice."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from loopback import Hub, Server

FILES = {f"part-{number}.txt": random.Random(number).randbytes(150_000) for number in range(12)}
WORKERS = 3


def start(*arguments: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "tokenmill", "pull", *arguments, "--workers", str(WORKERS)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def kill_at_random(moments: random.Random, command: list[str], server: Server) -> bool:
    """Start, wait for a random while from before the first request on, kill. Whether it was killed
    and not done before."""
    asked = len(server.requests)
    with start(*command) as running:
        if moments.random() < 0.8:
            while len(server.requests) == asked and running.poll() is None:
                time.sleep(0.001)
            time.sleep(moments.uniform(0.0, 0.25))
        else:
            time.sleep(moments.uniform(0.0, 0.3))
        running.kill()
        running.communicate()
    return running.returncode == -9


def pull_under_fire(num_kills: int, folder: Path, server: Server) -> None:
    moments = random.Random(num_kills)
    command = [server.add(name, content) for name, content in FILES.items()] + ["--to", str(folder)]
    # Slow enough to be killed on the way that often.
    server.bytes_a_second = sum(map(len, FILES.values())) / WORKERS / (0.07 * num_kills)
    kills = 0
    while kills < num_kills:
        finished = {name for name in FILES if (folder / name).exists()}
        for name in finished:
            assert (folder / name).read_bytes() == FILES[name]
        parts = {
            path.name.removesuffix(".part"): path.stat().st_size for path in folder.glob("*.part")
        }
        server.requests.clear()
        kills += kill_at_random(moments, command, server)
        asked = [(each.path.strip("/"), each.headers.get("range")) for each in server.asked("GET")]
        assert not {name for name, _ in asked} & finished
        # What had reached the disk is not asked for again, to the byte.
        for name, wanted in asked:
            kept = parts.get(name, 0)
            assert wanted == (f"bytes={kept}-" if kept else None)
        if finished == set(FILES):
            break
    server.bytes_a_second = None
    with start(*command, "--json") as last:
        report = json.loads(last.communicate()[0])
    assert last.returncode == 0
    assert {name: (folder / name).read_bytes() for name in FILES} == FILES
    assert report["files"] == len(FILES)
    assert not list(folder.glob("*.part"))
    assert sorted(path.name for path in folder.iterdir() if path.name.startswith(".")) == [".pull"]


def test_ten_kills(server: Server, tmp_path: Path) -> None:
    pull_under_fire(10, tmp_path, server)


@pytest.mark.slow
def test_a_hundred_kills(server: Server, tmp_path: Path) -> None:
    pull_under_fire(100, tmp_path, server)


@pytest.mark.parametrize("num_kills", [4, pytest.param(100, marks=pytest.mark.slow)])
def test_kills_while_rows_are_made(hub: Hub, tmp_path: Path, num_kills: int) -> None:
    examples = [{"instruction": f"do {n}", "input": "", "output": "x" * 100} for n in range(20_000)]
    content = json.dumps(examples).encode()
    hub.add_dataset("yahma/alpaca-cleaned", {"alpaca_data_cleaned.json": content})

    def tree(folder: Path) -> dict[str, bytes]:
        return {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in folder.glob("*/alpaca.jsonl")
        }

    with start("alpaca", "--to", str(tmp_path / "whole")) as undisturbed:
        undisturbed.communicate()
    whole = tree(tmp_path / "whole")
    assert len(whole) == 3
    moments = random.Random(num_kills)
    for number in range(num_kills):
        out = tmp_path / f"out-{number // 4}"
        kill_at_random(moments, ["alpaca", "--to", str(out)], hub)
        assert all(whole[path] == content for path, content in tree(out).items())
        if number % 4 == 3:
            with start("alpaca", "--to", str(out)) as last:
                last.communicate()
            assert last.returncode == 0
            assert tree(out) == whole
            # What the kills left of rows that were being written is hidden, and stays so.
            assert {path.name for path in out.iterdir() if path.name[0] != "."} == {
                "pull.json",
                "test",
                "train",
                "validation",
            }
