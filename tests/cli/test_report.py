"""`tokenmill report`: what it prints, where, and with which exit code."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import tokenmill as tm
from tokenmill.cli.main import app
from tokenmill.cli.report_options import named, named_tokenizers, spread_texts
from tokenmill.errors import ConfigError

REPOSITORY = Path(__file__).parents[2]
DOCUMENTS = [f"low lower lowest newer newest number {n}" for n in range(50)]
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")


def run(*args: object) -> Result:
    return CliRunner().invoke(app, [str(arg) for arg in args])


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "a.txt"
    file.write_text("<|endoftext|>".join(DOCUMENTS))
    return file


@pytest.fixture
def tokenizer(text: Path, tmp_path: Path) -> Path:
    return tm.train(text, vocab_size=300).save(tmp_path / "tok")


def throughput_json(*args: object) -> dict[str, Any]:
    done = run("report", "throughput", *args, "--json", "--threads", 1, "--rounds", 1)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_throughput_prints_the_block(text: Path, tokenizer: Path) -> None:
    done = run(
        "report", "throughput", tokenizer, "--text", text, "--batch-size", 8, "--batches", 3,
        "--seed", 5, "--threads", 1, "--extrapolate", "825GB", "--compare", "tiktoken,tokenizers",
        "--validate",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    number = r"[\d,.]+"
    cells = rf" +{number} +{number} +{number} +{number}"
    for line in (
        rf"sampled  24 documents of 50, {number} bytes on average, {number} \w+, seed 5",
        rf"tokens   {number}, {number} bytes/token",
        r"timed    3 calls of up to 8 documents, 1 thread, 1 cold round, 3 warm rounds",
        r" +batch ms +document µs +MB/s +tokens/s",
        rf"encode cold{cells}",
        rf"encode warm{cells}",
        rf"decode cold{cells}",
        rf"decode warm{cells}",
        rf"table +{number} kB{cells}",
        rf"dictionary +{number} kB{cells}",
        rf"pair expansion +{number} kB{cells}",
        r"held     vocab .*, merges .*, cache .*, decoder .*",
        r"compared with tiktoken [\d.]+: same ids, [\d.]+ times (fast|slow)er .* cold\), decoding .*",
        r"compared with tokenizers [\d.]+: same ids, [\d.]+ times (fast|slow)er .*",
        rf"825 GB   warm: 825,000,000,000 bytes / {number} bytes/s = {number} s = .+",
        rf"825 GB   cold: 825,000,000,000 bytes / {number} bytes/s = {number} s = .+",
    ):
        assert re.search(rf"^{line}$", done.stdout, re.M), f"{line}\n{done.stdout}"


def test_throughput_json(text: Path, tokenizer: Path) -> None:
    value = throughput_json(
        tokenizer, "--text", text, "--compare", "rustbpe,tiktoken", "--extrapolate", "1MB"
    )
    assert value["tokenizer"] == str(tokenizer)
    assert value["sample"]["documents"] == value["sample"]["documents_read"] == 50
    assert value["batch_size"] == 512
    assert value["batches"] == 1
    assert value["encode"]["warm"]["megabytes_per_second"] > 0
    assert len(value["decode"]["cold"]["rounds_seconds"]) == 1
    assert [each["name"] for each in value["decoders"]] == ["table", "dictionary", "pair expansion"]
    rustbpe, tiktoken = value["peers"]
    assert rustbpe["refused"]
    assert rustbpe["times_faster"] is None
    assert tiktoken["same_ids"] is None
    assert tiktoken["times_faster"]["decode_cold"] > 0
    assert value["extrapolation"]["bytes"] == 1_000_000


def test_throughput_reads_like_count(tokenizer: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"body": DOCUMENTS}), tmp_path / "rows.parquet")
    value = throughput_json(
        tokenizer, "--text", tmp_path / "rows.parquet", "--field", "body", "--doc-cap", 3
    )
    assert (value["sample"]["documents"], value["sample"]["bytes"]) == (50, 150)
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join(DOCUMENTS))
    value = throughput_json(tokenizer, "--text", lines, "--separator", r"\n", "--max-bytes", 100)
    assert value["sample"]["documents"] == 2


def test_texts_up_to_the_next_flag(text: Path, tokenizer: Path, tmp_path: Path) -> None:
    other = tmp_path / "b.txt"
    other.write_text("one more")
    assert throughput_json(tokenizer, "--text", text, other)["sample"]["documents"] == 51
    done = run(
        "report", "throughput", "--json", "--rounds", 1, "--text", text, other, "--", tokenizer
    )
    assert json.loads(done.stdout)["sample"]["documents"] == 51


def test_different_ids_are_exit_1(
    text: Path, tokenizer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tokenmill.report import peers

    class Liar(peers.TiktokenPeer):
        def encode(self, texts: list[str]) -> list[list[int]]:
            return [[*ids, 0] for ids in super().encode(texts)]

    monkeypatch.setitem(peers.PEERS, "tiktoken", Liar)
    command = ("report", "throughput", tokenizer, "--text", text, "--compare", "tiktoken")
    done = run(*command, "--validate")
    assert done.exit_code == 1
    assert re.search(
        r"^compared with tiktoken [\d.]+: other ids at document 0: \d+ tokens here, \d+ there$",
        done.stdout,
        re.M,
    )
    assert run(*command).exit_code == 0
    silent = run(*command, "--validate", "--quiet")
    assert (silent.exit_code, silent.stdout) == (1, "")


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        ([], 2, "at least one `--text INPUT` is needed"),
        (["--text", "missing.txt"], 1, "`missing.txt`"),
        (["--text", "empty.txt"], 1, "no document, so there is nothing to measure on"),
        (["--text", "a.txt", "--threads", "0"], 1, "threads is 0, not between 1 and 1024"),
        (["--text", "a.txt", "--batches", "0"], 1, "batches 0 is below 1"),
        (["--text", "a.txt", "--validate"], 1, "`--compare` is missing"),
        (["--text", "a.txt", "--compare", "tictoken"], 1, "unknown peer `tictoken`"),
        (["--text", "a.txt", "--extrapolate", "much"], 1, "`much` is no size"),
        (["--text", "a.txt", "--seed", "x"], 2, "--seed"),
    ],
)
def test_throughput_misuse(
    text: Path,
    tokenizer: Path,
    monkeypatch: pytest.MonkeyPatch,
    args: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(text.parent)
    Path("empty.txt").touch()
    done = run("report", "throughput", tokenizer, *args)
    assert done.exit_code == code, done.output
    assert message in done.stderr
    assert done.stdout == ""


def test_a_tokenizer_that_is_none(text: Path) -> None:
    for command in ("throughput", "compression"):
        done = run("report", command, text.parent / "nothing", "--text", text)
        assert done.exit_code == 1
        assert "nothing" in done.stderr
        assert run("report", command, "--text", text).exit_code == 2


def test_compression_of_several_on_several(text: Path, tokenizer: Path, tmp_path: Path) -> None:
    numbers = tmp_path / "numbers.txt"
    numbers.write_text("1 22 333 4444 日本")
    tm.train(numbers, vocab_size=257).save(tmp_path / "small")
    done = run(
        "report", "compression", tokenizer, f"tiny={tmp_path / 'small'}",
        "--text", f"words={text}", numbers, "--threads", 1,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == "measured all documents"
    assert re.search(rf"^{re.escape(str(numbers))} +1 +20 +16 +6$", done.stdout, re.M)
    assert re.search(
        r"^text +tokenizer +bytes/token +tokens +tokens/word +single-token words$",
        done.stdout,
        re.M,
    )
    assert re.search(r"^words +tok +\d\.\d{3}\* +\d+\* +\d\.\d+\* +[\d.]+%\*$", done.stdout, re.M)
    assert re.search(r"^ +tiny +1\.000 +[\d,]+ +\d\.\d+ +[\d.]+%$", done.stdout, re.M)
    assert re.search(r"^all +tok +\d\.\d{3}\* ", done.stdout, re.M)


def test_ranks_without_a_pattern(text: Path, tokenizer: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.tiktoken"
    bare.write_bytes((tokenizer / "ranks.tiktoken").read_bytes())
    for command in ("throughput", "compression"):
        assert "--pattern" in run("report", command, bare, "--text", text).stderr
        refused = run("report", command, tokenizer, "--text", text, "--pattern", "gpt4")
        assert refused.exit_code == 1
        assert "pattern" in refused.stderr
        assert run("report", command, bare, "--text", text, "--pattern", "gpt4").exit_code == 0
    done = run(
        "report", "compression", bare, tokenizer, "--text", text, "--pattern", "gpt4", "--json"
    )
    one, other = json.loads(done.stdout)["texts"][0]["tokenizers"]
    assert (one["tokenizer"], one["tokens"]) == ("bare.tiktoken", other["tokens"])


def test_compression_json(text: Path, tokenizer: Path) -> None:
    done = run(
        "report", "compression", tokenizer, "--text", text, "--sample", 10, "--seed", 42, "--json"
    )
    value = json.loads(done.stdout)
    (row,) = value["texts"]
    assert (row["documents"], row["documents_read"], row["text"]) == (10, 50, str(text))
    assert value["bytes_per_token"] == row["tokenizers"][0]["bytes_per_token"]
    assert row["tokenizers"][0]["bytes_per_token"] == row["bytes"] / row["tokenizers"][0]["tokens"]
    again = run(
        "report", "compression", tokenizer, "--text", text, "--sample", 10, "--seed", 42, "--json"
    )
    assert json.loads(again.stdout) == value


def test_compression_by_label(tokenizer: Path, tmp_path: Path) -> None:
    rows = pa.table({"text": DOCUMENTS[:4], "lang": ["en", "de", "en", "fr"]})
    pq.write_table(rows, tmp_path / "a.parquet")
    done = run(
        "report",
        "compression",
        tokenizer,
        "--text",
        tmp_path / "a.parquet",
        "--label-field",
        "lang",
        "--json",
    )
    assert done.exit_code == 0, done.output
    assert [(row["text"], row["documents"]) for row in json.loads(done.stdout)["texts"]] == [
        ("de", 1),
        ("en", 2),
        ("fr", 1),
    ]


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        ([], 2, "at least one `--text INPUT` is needed"),
        (["--text", "missing.txt"], 1, "`missing.txt`"),
        (["--text", "a.txt", "a.txt"], 1, "the text `a.txt` is given twice"),
        (["--text", "a.txt", "--sample", "many"], 1, "neither a number of documents nor `all`"),
        (["--text", "a.txt", "--sample", "0"], 1, "sample 0 is below 1"),
        (["--text", "a.txt", "--threads", "-1"], 1, "threads is -1, not between 1 and 1024"),
        (["--text", "a.txt", "--label-field", "lang"], 1, "plain text, which has no fields"),
    ],
)
def test_compression_misuse(
    text: Path,
    tokenizer: Path,
    monkeypatch: pytest.MonkeyPatch,
    args: list[str],
    code: int,
    message: str,
) -> None:
    monkeypatch.chdir(text.parent)
    done = run("report", "compression", tokenizer, *args)
    assert done.exit_code == code, done.output
    assert message in done.stderr


def test_train_times_what_it_trained_on(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "new"
    command = ("train", text, "--vocab-size", 290, "--out", out, "--threads", 1)
    done = run(*command, "--time-encode-decode")
    assert done.exit_code == 0, done.output
    trained, _, timed = done.stdout.partition("\n\n")
    assert "wrote    " in trained
    assert timed.startswith("sampled  50 documents of 50, ")
    assert "pair expansion" in timed
    # The tokenizer is there already: it is loaded and timed.
    again = run(*command, "--time-encode-decode", "--json")
    value = json.loads(again.stdout)
    assert value["already_done"]
    assert value["throughput"]["sample"]["documents"] == 50
    assert value["throughput"]["threads"] == 1
    assert "throughput" not in json.loads(run(*command, "--json").stdout)


def test_train_cannot_time_what_it_reads_once(text: Path, tmp_path: Path) -> None:
    counts = tmp_path / "counts.parquet"
    tm.count(text).save(counts)
    done = run("train", "--counts", counts, "--vocab-size", 290, "--time-encode-decode")
    assert done.exit_code == 1
    assert "needs text, but the training starts from counts" in done.stderr
    done = run("train", "-", "--input-format", "txt", "--time-encode-decode")
    assert done.exit_code == 1
    assert "`<stdin>` can be read once" in done.stderr


def test_reports_come_through_a_pipe(text: Path, tokenizer: Path) -> None:
    """In a process of its own: libraries loaded, threads set, nothing on stderr."""
    command = [
        sys.executable,
        "-m",
        "tokenmill",
        "report",
        "throughput",
        str(tokenizer),
        "--text",
        "-",
    ]
    done = subprocess.run(
        [
            *command,
            "--input-format",
            "txt",
            "--compare",
            "gigatoken",
            "--validate",
            "--threads",
            "2",
        ],
        input=text.read_text(),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "NO_COLOR": "1"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "same ids" in done.stdout


def test_words_after_text() -> None:
    assert spread_texts(["--text", "-", "b", "-q", "c"]) == [
        "--text",
        "-",
        "--text",
        "b",
        "-q",
        "c",
    ]
    assert spread_texts(["--text", "a", "--", "--text", "b"]) == [
        "--text",
        "a",
        "--",
        "--text",
        "b",
    ]
    assert spread_texts(["--text", "--json"]) == ["--text", "--json"]


def test_names_of_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert named("en=a.txt") == ("en", "a.txt")
    assert named("data/en=1/a.txt") == (None, "data/en=1/a.txt")
    odd = tmp_path / "x=y.txt"
    odd.touch()
    monkeypatch.chdir(tmp_path)
    assert named("x=y.txt") == (None, "x=y.txt")
    assert named_tokenizers(["a/tok", "b/tok", "c"]) == [
        ("a/tok", "a/tok"),
        ("b/tok", "b/tok"),
        ("c", "c"),
    ]
    with pytest.raises(ConfigError, match="two tokenizers are called `x`"):
        named_tokenizers(["x=a", "x=b"])


def test_the_page_names_every_flag() -> None:
    """docs/measuring.md and `--help` of both reports, both ways."""
    page = (REPOSITORY / "docs/measuring.md").read_text(encoding="utf-8")
    flags: set[str] = set()
    for command in ("throughput", "compression"):
        flags |= set(FLAG.findall(run("report", command, "--help").stdout))
    train = set(FLAG.findall(run("train", "--help").stdout))
    named_there = set(FLAG.findall(page))
    assert flags - named_there == {"--help"}
    assert named_there - flags - train == set()
    assert "--time-encode-decode" in named_there
