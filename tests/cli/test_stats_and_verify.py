"""`tokenmill stats`, `tokenmill verify` and `tokenmill decode` of datasets, as people call them."""

import json
from pathlib import Path

import numpy as np
import pytest
from make_dataset import EOS, TEXTS, encoded, make_dataset, masked, small_tokenizer
from typer.testing import CliRunner, Result

from tokenmill.cli.main import app

TOKENIZER = small_tokenizer()
DOCUMENTS = encoded(TOKENIZER, TEXTS)


def run(*args: object) -> Result:
    return CliRunner().invoke(app, [str(arg) for arg in args])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    splits = {"train": DOCUMENTS, "validation": DOCUMENTS[:2]}
    return make_dataset(tmp_path / "ids", TOKENIZER, splits)


def test_stats(path: Path) -> None:
    done = run("stats", path)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    tokens = [sum(len(each.ids) for each in split) for split in (DOCUMENTS, DOCUMENTS[:2])]
    assert lines[0].split() == ["split", "tokens", "documents", "bytes/token", "dtype"]
    assert lines[1].split()[:3] == ["train", f"{tokens[0]:,}", "6"]
    assert lines[3].split()[:3] == ["total", f"{sum(tokens):,}", "8"]
    assert "most frequent tokens" in done.stdout
    assert "never used" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize("command", ["stats", "inspect"])
def test_the_folder_of_a_split_leads_to_its_dataset(command: str, path: Path) -> None:
    done = run(command, path / "validation")
    assert done.exit_code == 1
    assert f"`{path / 'validation'}` is a split of the dataset `{path}`" in done.stderr
    assert "pass `--split validation`" in done.stderr


def test_stats_as_json(path: Path) -> None:
    done = run("stats", path, path, "--json", "--top", 2)
    found = json.loads(done.stdout)
    assert len(found["datasets"]) == 2
    train = found["datasets"][0]["splits"]["train"]
    assert train["tokens"] == sum(len(each.ids) for each in DOCUMENTS)
    assert train["document_tokens"]["percentiles"]["100"] == max(len(d.ids) for d in DOCUMENTS)
    assert len(found["datasets"][0]["usage"]["top"]) == 2
    assert found["total"]["documents"] == 16


def test_stats_of_a_split_that_is_not_there(path: Path) -> None:
    done = run("stats", path, "--split", "train", "--split", "test")
    assert done.exit_code == 0
    assert f"warning: `{path}` has no split `test`" in done.stderr
    assert "validation" not in done.stdout


def test_stats_without_reading_ids(path: Path) -> None:
    done = run("stats", path, "--lengths-only")
    assert "most frequent" not in done.stdout
    assert "tokens of a document" in done.stdout


def test_verify(path: Path) -> None:
    done = run("verify", path)
    assert done.exit_code == 0, done.output
    assert "nothing differs" in done.stdout
    assert run("verify", path, "--quiet").stdout == ""
    file = path / "train/tokens-00000.npy"
    data = bytearray(file.read_bytes())
    data[200] ^= 4
    file.write_bytes(bytes(data))
    (path / "stray").write_text("")
    done = run("verify", path)
    assert done.exit_code == 1
    assert done.stdout == ""
    assert "error: `train/tokens-00000.npy` has sha256" in done.stderr
    assert "warning: `stray` is not in the manifest" in done.stderr
    found = json.loads(run("verify", path, "--json").stdout)
    assert found["sound"] is False
    assert [each["file"] for each in found["problems"]] == ["train/tokens-00000.npy"]


def test_verify_against_another_tokenizer(path: Path, tmp_path: Path) -> None:
    other = small_tokenizer(280)
    other.save(tmp_path / "other")
    done = run("verify", path, "--tokenizer", tmp_path / "other")
    assert done.exit_code == 1
    assert other.sha256 in done.stderr
    assert TOKENIZER.sha256 in done.stderr


def test_verify_what_is_nothing(tmp_path: Path) -> None:
    done = run("verify", tmp_path / "nowhere")
    assert done.exit_code == 1
    assert "does not exist" in done.stderr


def test_decode_gives_the_text_back(path: Path, tmp_path: Path) -> None:
    done = run("decode", path)
    assert done.exit_code == 0, done.output
    assert done.stdout_bytes == EOS.join(TEXTS).encode()
    assert run("decode", path, "--split", "val").stdout_bytes == EOS.join(TEXTS[:2]).encode()
    assert run("decode", path, "--document", 2).stdout_bytes == TEXTS[2].encode()
    assert (
        run("decode", path, "--separator", r"\n--\n").stdout_bytes == "\n--\n".join(TEXTS).encode()
    )
    done = run("decode", path, "--out", tmp_path / "x.txt", "--json")
    assert json.loads(done.stdout)["documents"] == 6
    assert (tmp_path / "x.txt").read_bytes() == EOS.join(TEXTS).encode()


def test_decode_keeps_other_special_tokens(tmp_path: Path) -> None:
    tokenizer = TOKENIZER.with_special_tokens(["<|user|>"])
    rows = masked(tokenizer, [("", "hi")])
    rows[0].ids.insert(0, tokenizer.special_tokens["<|user|>"])
    (rows[0].mask or []).insert(0, 0)
    path = make_dataset(tmp_path / "ids", tokenizer, {"train": rows}, mode="sft")
    assert run("decode", path).stdout_bytes == b"<|user|>hi"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--document", "6"], "document 6 of split `train`: it has 6"),
        (["--split", "test"], "has no split `test`"),
    ],
)
def test_decode_what_is_not_there(path: Path, args: list[str], message: str) -> None:
    done = run("decode", path, *args)
    assert done.exit_code == 1
    assert message in done.stderr


def test_decode_flags_that_do_not_go_together(path: Path, tmp_path: Path) -> None:
    assert "is for files of ids" in run("decode", path, "--start", 3).stderr
    np.save(tmp_path / "x.npy", np.array([1, 2], "uint16"))
    done = run("decode", tmp_path / "x.npy", "--document", 0)
    assert done.exit_code == 2
    assert "is for datasets" in done.stderr
    done = run("decode", tmp_path / "x.npy")
    assert done.exit_code == 2
    assert "`--tokenizer` is needed" in done.stderr
