"""`tokenmill convert`: what it prints and writes, and with which exit code."""

import io
import json
import os
import pickletools
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tokenmill.cli.convert import special_tokens
from tokenmill.cli.main import app
from tokenmill.errors import ConfigError
from tokenmill.tokenizer.artifact import read_tokenizer, write_tokenizer
from tokenmill.tokenizer.vocab import vocab_from_bytes

BYTES = {byte: bytes([byte]) for byte in range(256)}
SPECIALS = ["<|endoftext|>", "<|bos|>"]


def run(*args: object) -> Result:
    return CliRunner().invoke(app, [str(arg) for arg in args])


@pytest.fixture
def tok(tmp_path: Path) -> Path:
    vocab = BYTES | {256: b"th", 257: b"the"}
    pairs = [(b"t", b"h"), (b"th", b"e")]
    write_tokenizer(vocab_from_bytes(vocab, pairs, SPECIALS, "gpt4"), tmp_path / "tok")
    return tmp_path / "tok"


def test_it_says_what_it_read_and_wrote(tok: Path, tmp_path: Path) -> None:
    out = tmp_path / "hf"
    done = run("convert", tok, "--to", "hf", "--out", out)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        f"read     {tok}: 260 tokens, 2 special tokens, pattern `gpt4`",
        f"wrote    {out}/tokenizer.json, {out}/tokenizer_config.json",
    ]
    assert done.stderr == ""
    again = run("convert", tok, "--to", "hf", "--out", out)
    assert again.exit_code == 0
    assert again.stdout.splitlines()[1] == f"done     already: `{out}` holds this"


def test_notes_stand_below(tok: Path, tmp_path: Path) -> None:
    done = run("convert", tok, "--to", "gpt2", "--out", tmp_path / "out")
    notes = [line for line in done.stdout.splitlines() if line.startswith("note     ")]
    assert len(notes) == 2
    assert "no split pattern" in notes[0]


def test_check(tok: Path, tmp_path: Path) -> None:
    done = run("convert", tok, "--to", "tiktoken", "--out", tmp_path / "x.tiktoken", "--check")
    assert done.exit_code == 0, done.output
    assert re.search(r"^checked  2,\d+ texts: same ids as tiktoken 0\.14\.0$", done.stdout, re.M)
    refused = run("convert", tok, "--to", "gguf", "--out", tmp_path / "x.gguf", "--check")
    assert refused.exit_code == 1
    assert refused.stderr.startswith("error: `--check` knows no Python library")
    assert not (tmp_path / "x.gguf").exists()


def test_json_and_quiet(tok: Path, tmp_path: Path) -> None:
    done = run("convert", tok, "--to", "gguf", "--out", tmp_path / "x.gguf", "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["files"] == [str(tmp_path / "x.gguf")]
    assert (report["vocab_size"], report["pattern"]) == (260, "gpt4")
    assert report["special_tokens"] == {"<|endoftext|>": 258, "<|bos|>": 259}
    assert report["already_done"] is False
    assert report["checked"] is None
    assert len(report["notes"]) == 1
    done = run("convert", tok, "--to", "hf", "--out", tmp_path / "hf", "--check", "--json")
    assert json.loads(done.stdout)["checked"]["library"] == "tokenizers"
    assert run("convert", tok, "--to", "gpt2", "--out", tmp_path / "g", "-q").output == ""


def test_files_that_do_not_say_it_are_told(tok: Path, tmp_path: Path) -> None:
    ranks = tmp_path / "alone.tiktoken"
    ranks.write_bytes((tok / "ranks.tiktoken").read_bytes())
    refused = run("convert", ranks, "--to", "hf", "--out", tmp_path / "hf")
    assert refused.exit_code == 1
    assert "say nothing about the split pattern" in refused.stderr
    given = ["--pattern", "gpt4", "--special", "<|endoftext|>=258", "--special", "<|bos|>=259"]
    done = run("convert", ranks, "--to", "hf", "--out", tmp_path / "hf", *given)
    assert done.exit_code == 0, done.output
    assert read_tokenizer(tmp_path / "hf").core == read_tokenizer(tok).core


def test_special_tokens_as_given() -> None:
    assert special_tokens(None) is None
    assert special_tokens(["none"]) == []
    assert special_tokens(["<a>", "<b>"]) == ["<a>", "<b>"]
    assert special_tokens(["<a>=3", "b=c=4"]) == {"<a>": 3, "b=c": 4}
    with pytest.raises(ConfigError, match="some special tokens an id and some none"):
        special_tokens(["<a>=3", "<b>"])
    with pytest.raises(ConfigError, match="`<a>` is given twice"):
        special_tokens(["<a>=3", "<a>=4"])


def test_refusals_and_misuse(tok: Path, tmp_path: Path) -> None:
    custom = vocab_from_bytes(BYTES, [], [], r"\p{L}+|[^\p{L}]")
    write_tokenizer(custom, tmp_path / "custom")
    refused = run("convert", tmp_path / "custom", "--to", "gguf", "--out", tmp_path / "x.gguf")
    assert refused.exit_code == 1
    assert "llama.cpp has no name for the split pattern" in refused.stderr
    assert "hint: `--to hf` keeps everything" in refused.stderr
    (tmp_path / "there").write_text("mine")
    refused = run("convert", tok, "--to", "gguf", "--out", tmp_path / "there")
    assert refused.exit_code == 1
    assert "exists and holds something else" in refused.stderr
    assert (tmp_path / "there").read_text() == "mine"
    forced = run("convert", tok, "--to", "gguf", "--out", tmp_path / "there", "--force")
    assert forced.exit_code == 0
    assert run("convert", tok, "--to", "hf").exit_code == 2
    assert run("convert", tok, "--to", "onnx", "--out", tmp_path / "x").exit_code == 1
    missing = run("convert", tmp_path / "nowhere", "--to", "hf", "--out", tmp_path / "x")
    assert missing.exit_code == 1
    assert "does not exist" in missing.stderr
    assert "Traceback" not in missing.output
    assert sorted(os.listdir(tmp_path)) == ["custom", "there", "tok"]


def test_nothing_is_unpickled_and_neither_tiktoken_nor_torch_is_needed(
    tok: Path, tmp_path: Path
) -> None:
    out = tmp_path / "nanochat"
    program = (
        "import pickle, sys\n"
        "def refuse(*args, **kwargs): raise SystemExit('unpickled')\n"
        "pickle.load = pickle.loads = pickle.Unpickler = refuse\n"
        f"sys.argv = ['tokenmill', 'convert', {str(tok)!r}, '--to', 'nanochat', '--out', {str(out)!r}]\n"
        "from tokenmill.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert end.code == 0, end.code\n"
        "print([name for name in ('tiktoken', 'torch', 'tokenizers') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "[]"
    pickletools.dis((out / "tokenizer.pkl").read_bytes(), out=io.StringIO())
