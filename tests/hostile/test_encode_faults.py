"""An encode that is killed, starved of room or denied a place loses nothing it had finished."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tokenmill as tm
from tokenmill.dataset.encode import prepare_encode
from tokenmill.work.folder import units_done, work_folder_of

UNIT_BYTES = 40_000
ENCODE = f"""
import sys
from tokenmill.dataset.encode import prepare_encode
data, tokenizer, out = sys.argv[1:4]
run = prepare_encode(data, tokenizer, out, progress=False, unit_bytes={UNIT_BYTES}, block_bytes=3000,
                     shard_tokens=30_000, val_fraction=0.1)
print("ready", flush=True)
run.run()
print("done", flush=True)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text of about sixty units, a tokenizer for it, and what an undisturbed run makes of both."""
    folder = tmp_path_factory.mktemp("faults")
    rng = random.Random(8)
    words = ["low", "lower", "lowest", "new", "newer", "wide", "世界", "\n", "12345"]
    for file in range(3):
        lines = []
        while sum(map(len, lines)) < 20 * UNIT_BYTES:
            text = " ".join(rng.choices(words, k=rng.randrange(1, 400)))
            lines.append(json.dumps({"text": text}) + "\n")
        (folder / "data").mkdir(exist_ok=True)
        (folder / "data" / f"{file}.jsonl").write_text("".join(lines))
    tm.train(folder / "data", vocab_size=320).save(folder / "tok")
    subprocess.run(command(folder, folder / "undisturbed"), check=True)
    return folder


def command(folder: Path, out: Path) -> list[str]:
    return [sys.executable, "-c", ENCODE, str(folder / "data"), str(folder / "tok"), str(out)]


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def kill_at_random(folder: Path, out: Path, rng: random.Random, longest: float) -> bool:
    """Start an encode and kill it at a random moment of its work; whether it was still there."""
    process = subprocess.Popen(command(folder, out), stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process, process.stdout:
        assert process.stdout.readline() == b"ready\n"
        time.sleep(rng.random() * longest)
        alive = process.poll() is None
        process.send_signal(signal.SIGKILL)
    return alive


def seconds_of_work(folder: Path, out: Path) -> float:
    """How long an undisturbed run takes once it is ready."""
    with subprocess.Popen(command(folder, out), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        started = time.monotonic()
        assert process.stdout.readline() == b"done\n"
        return time.monotonic() - started


def kill_again_and_again(folder: Path, tmp_path: Path, kills: int) -> None:
    rng = random.Random(kills)
    longest = seconds_of_work(folder, tmp_path / "timed") / 2
    killed = run = 0
    while killed < kills:
        out = tmp_path / f"out-{run}"
        run += 1
        while not out.exists():
            before = (units_done(out) or (0, 0))[0]
            killed += kill_at_random(folder, out, rng, longest)
            after = (units_done(out) or (0, 0))[0]
            assert out.exists() or after >= before, "finished units stay finished"
        # What was killed after the last rename is whole, too; the run that follows only tidies up.
        subprocess.run(command(folder, out), check=True)
        assert contents(out) == contents(folder / "undisturbed")
        assert not work_folder_of(out).exists()


def test_kill_and_resume(folder: Path, tmp_path: Path) -> None:
    kill_again_and_again(folder, tmp_path, 10)


@pytest.mark.slow
def test_kill_and_resume_a_hundred_times(folder: Path, tmp_path: Path) -> None:
    kill_again_and_again(folder, tmp_path, 100)


def test_only_units_in_flight_are_done_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    process = subprocess.Popen(command(folder, out))
    while (units_done(out) or (0, 0))[0] < 5:
        assert process.poll() is None, "killed in time"
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done, planned = units_done(out) or (0, 0)
    encoded: list[str] = []
    from tokenmill.dataset.encode_job import EncodeJob

    encode = EncodeJob._encode

    def watch(self, unit, *rest):  # pyright: ignore
        encoded.append(unit.unit.name)
        return encode(self, unit, *rest)

    monkeypatch.setattr(EncodeJob, "_encode", watch)
    prepare_encode(
        folder / "data",
        folder / "tok",
        out,
        progress=False,
        unit_bytes=UNIT_BYTES,
        block_bytes=3000,
        shard_tokens=30_000,
        val_fraction=0.1,
    ).run()
    assert len(encoded) == planned - done
    assert contents(out) == contents(folder / "undisturbed")


def test_no_room_is_a_clean_error(folder: Path, tmp_path: Path) -> None:
    """The system lets no file grow beyond a few kilobytes; afterwards the same command goes on."""
    out = tmp_path / "out"
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
    script = limit + "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    script += "from tokenmill.cli.main import main; main()"
    arguments = ["encode", str(folder / "data"), "--tokenizer", str(folder / "tok"), "--out"]
    full = subprocess.run(
        [sys.executable, "-c", script, *arguments, str(out)], capture_output=True, text=True
    )
    assert full.returncode == 1
    assert "no room to write" in full.stderr
    assert "run the same command again" in full.stderr
    assert "Traceback" not in full.stderr
    assert not out.exists()
    subprocess.run([sys.executable, "-m", "tokenmill", *arguments, str(out), "-q"], check=True)
    assert (out / "manifest.json").exists()


def test_a_place_that_cannot_be_written(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    run = prepare_encode(folder / "data", folder / "tok", tmp_path / "file/out", progress=False)
    with pytest.raises((tm.TokenmillError, OSError), match="file"):
        run.run()
    assert os.listdir(tmp_path) == ["file"]


def test_a_shard_cut_behind_our_back(folder: Path, tmp_path: Path) -> None:
    """What notes say is there must be there: a shorter file is an error, never a hole."""
    out = tmp_path / "out"
    process = subprocess.Popen(command(folder, out))
    while (units_done(out) or (0, 0))[0] < 5:
        assert process.poll() is None, "killed in time"
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    shards = sorted(work_folder_of(out).glob("shard-train-*.tokens"))
    os.truncate(shards[-1], 130)
    again = subprocess.run(command(folder, out), capture_output=True, text=True)
    assert again.returncode != 0
    assert "by now but has 130" in again.stderr
