"""The commands on a small text, with the peers our tests install anyway."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from bench.commands.equality import explain
from bench.environments import NotAvailable, last_line, python_for
from bench.job import Job
from bench.machine import REPOSITORY
from bench.peers import PEERS
from bench.peers.peer import Peer

TEXT = (
    "low lower lowest, the newest and the widest; aaaa bbb 1234 don't\n\n  indented été 漢字かな\n"
)


def text_file(folder: Path) -> Path:
    path = folder / "small.txt"
    path.write_text("<|endoftext|>".join(TEXT * n for n in (1, 3, 2)), encoding="utf-8")
    return path


def many_documents(folder: Path) -> Path:
    """Enough of them to train on some and to measure others."""
    path = folder / "many.txt"
    documents = (f"{number} {TEXT * (3 + number % 3)}" for number in range(60))
    path.write_text("<|endoftext|>".join(documents), encoding="utf-8")
    return path


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


def test_equality_with_both_peers_under_both_patterns(tmp_path: Path) -> None:
    done = bench("equality", str(text_file(tmp_path)), "--vocab-size", "300", "--pattern", "both")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    assert all(line.endswith("all 44 merges equal") for line in lines)


def test_train_stores_what_it_prints(tmp_path: Path) -> None:
    options = ["--vocab-size", "290", "--runs", "1", "--peers", "gigatoken,rustbpe", "--json"]
    cases = ["--cases", "train-gpt2", "--results", str(tmp_path / "results")]
    done = bench("train", str(text_file(tmp_path)), *options, *cases)
    assert done.returncode == 0, done.stderr
    (record,) = json.loads(done.stdout)
    answers = {entrant["name"]: entrant["answer"] for entrant in record["entrants"]}
    assert answers["gigatoken"] == answers["rustbpe"] == "all 34 merges equal"
    assert {number["wanted"] for number in record["numbers"]} == {"≥ 3×"}
    assert str(tmp_path) not in done.stdout
    (stored,) = (tmp_path / "results").glob("*.json")
    assert json.loads(stored.read_text(encoding="utf-8"))["records"] == [record]
    assert "rustbpe" in (tmp_path / "results" / "history.md").read_text(encoding="utf-8")


def test_threads_give_the_same_merges_and_a_serial_share(tmp_path: Path) -> None:
    options = ["--threads", "1,2", "--vocab-size", "290", "--runs", "1"]
    done = bench(
        "threads", str(text_file(tmp_path)), *options, "--results", str(tmp_path / "results")
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("same merges") == 2
    assert "serial share" in done.stdout


def test_encode_stores_what_it_prints(tmp_path: Path) -> None:
    options = ["--vocab-size", "300", "--runs", "1", "--peers", "tiktoken", "--json"]
    cases = ["--cases", "call,decode", "--results", str(tmp_path / "results")]
    done = bench("encode", str(many_documents(tmp_path)), *options, *cases)
    assert done.returncode == 0, done.stderr
    records = json.loads(done.stdout)
    assert [record["case"] for record in records] == ["decode-batch", "decode-text", "call"]
    assert all(entrant["equal"] for record in records for entrant in record["entrants"])
    batch, _, call = records
    assert [(e["name"], e["form"]) for e in batch["entrants"]] == [
        ("tokenmill", ""),
        ("tokenmill", "lists"),
        ("tiktoken", ""),
    ]
    assert [number["wanted"] for number in batch["numbers"]] == ["≥ 10×"]
    assert [number["wanted"] for number in call["numbers"]] == ["≥ 5×"]
    assert call["calls"] > 5
    assert str(tmp_path) not in done.stdout
    (stored,) = (tmp_path / "results").glob("*.json")
    assert len(json.loads(stored.read_text(encoding="utf-8"))["records"]) == 3


def test_a_quick_run_encodes_and_stores_nothing(tmp_path: Path) -> None:
    options = ["--vocab-size", "300", "--quick", "--peers", "none", "--cases", "encode"]
    done = bench(
        "encode", str(many_documents(tmp_path)), *options, "--results", str(tmp_path / "results")
    )
    assert done.returncode == 0, done.stderr
    for case in ("batch-cold", "batch-steady", "text-cold", "text-steady"):
        assert f"encode-{case}, many" in done.stdout
    assert done.stdout.count("same, ") == 4 * 2
    assert not (tmp_path / "results").exists()


def test_encode_equality_names_what_was_compared(tmp_path: Path) -> None:
    options = ["--vocab-size", "300", "--pattern", "gpt4,cl100k", "--no-wheels", "--threads", "2"]
    done = bench("encode-equality", str(many_documents(tmp_path)), *options)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2 * 3
    assert all(line.endswith("0 mismatches") for line in lines)
    assert sum("60 documents" in line for line in lines) == 4
    assert sum("one text, 1 and 2 threads" in line for line in lines) == 2


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["encode", "missing.txt"], 1, "`missing.txt` is not a file"),
        (["encode", "missing.txt", "--cases", "train"], 2, "train"),
        (["encode-equality", "pyproject.toml", "--pattern", "gpt9"], 2, "gpt9"),
        (["encode-equality", "pyproject.toml", "--vocab", "gpt9=x"], 1, "NAME=FILE"),
        (["train", "missing.txt"], 1, "`missing.txt` is not a file"),
        (["train", "pyproject.toml"], 1, "neither `.txt` nor `.txt.zst`"),
        (["train", "missing.txt", "--peers", "sentencepiece"], 2, "sentencepiece"),
        (["threads", "missing.txt", "--threads", "1,x"], 2, "1,x"),
    ],
)
def test_misuse_is_told(arguments: list[str], code: int, message: str) -> None:
    done = bench(*arguments)
    assert done.returncode == code
    assert message in done.stderr


def test_a_difference_names_both_merges_with_their_counts(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("ab ab ab cd cd", encoding="utf-8")
    job = Job("", str(path), threads=1, pattern="gpt2")
    told = explain([(b"a", b"b")], [(b"cd",)], 0, job)
    assert "tokenmill: b'ab' (b'a' + b'b' × 3)" in told
    assert "peer: b'cd' (b'c' + b'd' × 2)" in told


def test_an_installed_peer_runs_where_it_is(tmp_path: Path) -> None:
    assert python_for(PEERS["rustbpe"], tmp_path) == Path(sys.executable)
    assert list(tmp_path.iterdir()) == []


def test_a_peer_that_cannot_be_installed_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    peer = Peer("ghost", "tokenmill-ghost-peer", "1.0", "bench.peers.ghost", "lowest-ids")
    with pytest.raises(NotAvailable, match="`uv` was not found"):
        python_for(peer, tmp_path / "environments")


def test_the_last_line_of_an_error_is_the_one_that_tells() -> None:
    assert (
        last_line("  × No solution\n  ╰─▶ because x was not found\n\n") == "because x was not found"
    )
    assert last_line("") == "no message"
