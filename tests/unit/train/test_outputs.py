"""A finished output is loaded, another one refused, and nothing of anybody else's is touched."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tokenmill as tm
from tokenmill.errors import ConfigError


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "a.txt"
    file.write_text("low lower lowest newer newest " * 5)
    return file


def folder_bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_same_training_again_is_already_done(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "tok"
    first = tm.train(text, vocab_size=270, out=out)
    assert first.training is not None
    before = folder_bytes(out)
    again = tm.train(text, vocab_size=270, out=out, threads=1)
    assert again == first
    assert again.training is None, "it was loaded, not trained"
    os.utime(text, ns=(0, 0))
    moved = text.rename(tmp_path / "moved.txt")
    assert tm.train(moved, vocab_size=270, out=out).training is None, "a text is known by its bytes"
    assert folder_bytes(out) == before
    assert sorted(os.listdir(tmp_path)) == ["moved.txt", "tok"]


@pytest.mark.parametrize(
    "change",
    [
        {"vocab_size": 271},
        {"pattern": "gpt2"},
        {"ties": "greatest-bytes"},
        {"special_tokens": []},
        {"doc_cap": 9},
    ],
)
def test_another_training_is_refused_unless_forced(
    text: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    out = tmp_path / "tok"
    tm.train(text, vocab_size=270, out=out)
    before = folder_bytes(out)
    keywords: dict[str, Any] = {"vocab_size": 270, **change}
    with pytest.raises(ConfigError, match="holds a tokenizer that was trained with") as caught:
        tm.train(text, out=out, **keywords)
    assert "--force" in str(caught.value.hint)
    assert folder_bytes(out) == before
    forced = tm.train(text, out=out, force=True, **keywords)
    assert tm.Tokenizer.load(out) == forced


def test_another_text_of_the_same_size_is_another_training(text: Path, tmp_path: Path) -> None:
    tm.train(text, vocab_size=270, out=tmp_path / "tok")
    text.write_text(text.read_text().replace("low", "lot"))
    with pytest.raises(ConfigError, match="from other text"):
        tm.train(text, vocab_size=270, out=tmp_path / "tok")


def test_a_stream_cannot_be_compared(tmp_path: Path) -> None:
    tm.train(iter(["low lower"]), vocab_size=260, out=tmp_path / "tok")
    with pytest.raises(ConfigError, match="cannot be compared"):
        tm.train(iter(["low lower"]), vocab_size=260, out=tmp_path / "tok")


def test_what_a_limit_left_unread_is_not_hashed_and_does_not_count(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text(f"low lower {number} " * 10)
    keywords: dict[str, Any] = {"max_chars": 200, "vocab_size": 262, "out": tmp_path / "tok"}
    tm.train(f"{tmp_path}/*.txt", **keywords)
    parents = json.loads((tmp_path / "tok" / "manifest.json").read_text())["parents"]
    assert [record["name"] for record in parents["inputs"]] == ["0.txt", "1.txt"]
    assert parents["inputs_unread"] == 2
    (tmp_path / "3.txt").write_text("never read")
    assert tm.train(f"{tmp_path}/*.txt", **keywords).training is None
    (tmp_path / "1.txt").write_text("LOW LOWER 1 " * 10)
    with pytest.raises(ConfigError, match="from other text"):
        tm.train(f"{tmp_path}/*.txt", **keywords)
    counts = tm.count(f"{tmp_path}/*.txt", max_chars=200, out=tmp_path / "counts")
    in_memory = tm.count(f"{tmp_path}/*.txt", max_chars=200)
    in_memory.save(tmp_path / "again")
    assert counts.origin.inputs_unread == 2
    assert (tmp_path / "counts").read_bytes() == (tmp_path / "again").read_bytes()
    assert tm.count(f"{tmp_path}/*.txt", max_chars=200, out=tmp_path / "counts").report is None


def test_from_counts_too(tmp_path: Path) -> None:
    counts = tm.count(iter(["low lower"]))
    assert tm.train(counts=counts, vocab_size=260, out=tmp_path / "tok").training is not None
    assert tm.train(counts=counts, vocab_size=260, out=tmp_path / "tok").training is None
    with pytest.raises(ConfigError, match="from other text"):
        tm.train(counts=counts + counts, vocab_size=260, out=tmp_path / "tok")


def test_counts_files_too(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "counts.parquet"
    first = tm.count(text, out=out)
    again = tm.count(text, out=out)
    assert first == again
    assert first.report is not None
    assert again.report is None
    for change in ({"pattern": "gpt2"}, {"min_count": 2}, {"doc_cap": 9}):
        with pytest.raises(ConfigError, match="from other text or with other settings"):
            tm.count(text, out=out, **change)  # pyright: ignore[reportArgumentType]
    assert tm.count(text, out=out, pattern="gpt2", force=True).pattern == "gpt2"
    out.write_bytes(b"something else")
    with pytest.raises(ConfigError, match="made by something else"):
        tm.count(text, out=out)
    (tmp_path / "folder").mkdir()
    with pytest.raises(ConfigError, match="is a folder"):
        tm.count(text, out=tmp_path / "folder", force=True)


def test_strangers_files_are_safe_even_from_force(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "tok"
    out.mkdir()
    (out / "thesis.tex").write_text("years of work")
    for force in (False, True):
        with pytest.raises(ConfigError, match="is not a tokenizer folder"):
            tm.train(text, out=out, force=force)
    (out / "thesis.tex").unlink()
    tm.train(text, vocab_size=270, out=out)
    (out / "thesis.tex").write_text("years of work")
    with pytest.raises(ConfigError, match=r"`thesis\.tex`"):
        tm.train(text, vocab_size=280, out=out, force=True)
    assert (out / "thesis.tex").read_text() == "years of work"
    with pytest.raises(ConfigError, match="not a tokenizer folder"):
        tm.train(text, out=text)


def test_the_manifest_names_settings_and_parents_but_no_place(text: Path, tmp_path: Path) -> None:
    tm.train(text, vocab_size=270, out=tmp_path / "tok", threads=2)
    manifest = json.loads((tmp_path / "tok" / "manifest.json").read_text())
    assert manifest["settings"]["vocab_size"] == 270
    assert manifest["settings"]["read"]["field"] == "text"
    assert [record["name"] for record in manifest["parents"]["inputs"]] == ["a.txt"]
    assert len(manifest["parents"]["inputs"][0]["sha256"]) == 64
    assert str(tmp_path) not in json.dumps(manifest)


def test_a_full_disk_leaves_no_half_counts(tmp_path: Path) -> None:
    program = (
        "import random, resource, sys\n"
        "import tokenmill as tm\n"
        "from tokenmill.errors import TokenmillError\n"
        "rng = random.Random(1)\n"
        "text = ' '.join(''.join(rng.choices('abcdefghijklmnop', k=12)) for _ in range(5000))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, resource.RLIM_INFINITY))\n"
        "try:\n    tm.count(iter([text]), out=sys.argv[1])\n"
        "except TokenmillError as error:\n    print(error)\n"
    )
    command = [sys.executable, "-W", "error", "-c", program, str(tmp_path / "counts.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("no room to write")
    assert done.stderr == ""
    assert os.listdir(tmp_path) == []
