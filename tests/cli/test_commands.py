"""Commands: what they print, where, and with which exit code."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import tokenmill as tm
from tokenmill.cli.main import app
from tokenmill.cli.options import unescape
from tokenmill.errors import ConfigError

TEXT = "<|endoftext|>".join(f"low lower lowest newer newest {n}" for n in range(50))


def run(*args: object) -> Result:
    return CliRunner().invoke(app, [str(arg) for arg in args])


def process(*args: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tokenmill", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)  # pyright: ignore


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "a.txt"
    file.write_text(TEXT)
    return file


def test_help_lists_every_command_and_is_light() -> None:
    program = (
        "import sys; sys.argv = ['tokenmill', '--help']\n"
        "from tokenmill.cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('pyarrow', 'numpy', 'rich', 'torch') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    *shown, heavy = done.stdout.splitlines()
    assert heavy == "[]"
    assert {line.split()[0] for line in shown if re.match(r"  [a-z]", line)} >= {
        "demo",
        "count",
        "train",
    }


@pytest.mark.parametrize("command", ["count", "train"])
def test_help_says_what_an_input_is_without_its_python_type(command: str) -> None:
    shown = " ".join(run(command, "--help").stdout.split())
    assert "[INPUT]..." in shown
    assert "INPUT are files, folders, globs, addresses (http, https, hf, s3, gs) or `-`" in shown
    assert "list[" not in shown


def test_help_shows_the_defaults_of_the_settings() -> None:
    shown = " ".join(run("train", "--help").stdout.split())
    assert "[default: 32768]" in shown
    assert "[default: gpt4]" in shown
    assert "[default: <|endoftext|>]" in shown
    assert "lowest-ids|huggingface|greatest-bytes" in shown


def test_version_names_unicode_and_processor() -> None:
    assert re.fullmatch(
        rf"tokenmill {re.escape(tm.__version__)}, Unicode 16\.0\.0, \S+\n", run("--version").stdout
    )


def test_train_reports_and_writes(text: Path, tmp_path: Path) -> None:
    out = tmp_path / "tok"
    done = run("train", text, "--vocab-size", 270, "--out", out, "--threads", 2)
    assert done.exit_code == 0, done.output
    shown = done.stdout
    assert re.search(
        r"^counted  1\.\d kB, 50 documents, 56 distinct pretokens +[\d.]+ s$", shown, re.M
    )
    assert re.search(r"^merged   13 merges on cpu, 2 threads +[\d.]+ s$", shown, re.M)
    assert re.search(rf"^wrote    {out}/ +[\d.]+ s$", shown, re.M)
    assert re.search(
        r"^vocab    270 tokens, \d+ bytes, \d\.\d\d bytes/token on this text$", shown, re.M
    )
    assert re.search(
        # Of this process, which may hold what other tests have imported.
        r"^took     [\d.]+ s wall, [\d.]+ s user, [\d.]+ s system, peak memory [\d.]+ [MG]B$",
        shown,
        re.M,
    )
    assert done.stderr == ""
    assert tm.Tokenizer.load(out) == tm.train(text, vocab_size=270)
    again = run("train", text, "--vocab-size", 270, "--out", out)
    assert (again.exit_code, again.stdout) == (
        0,
        f"done     already: `{out}` holds this tokenizer\n",
    )
    refused = run("train", text, "--vocab-size", 271, "--out", out)
    assert refused.exit_code == 1
    assert refused.stdout == ""
    assert refused.stderr.startswith(
        f"error: `{out}` holds a tokenizer that was trained with vocab size `270`"
    )
    assert "\nhint: " in refused.stderr
    assert run("train", text, "--vocab-size", 271, "--out", out, "--force").exit_code == 0
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "tok"]


def test_early_stop_is_said_plainly(text: Path) -> None:
    shown = run("train", text).stdout
    assert re.search(r"^stopped  early at \d+ tokens: no pair is left to merge$", shown, re.M)


def test_json_is_one_object_on_stdout(text: Path, tmp_path: Path) -> None:
    done = run("train", text, "--vocab-size", 270, "--json", "--out", tmp_path / "tok")
    result = json.loads(done.stdout)
    assert result["vocab_size"] == 270
    assert result["already_done"] is False
    assert result["report"]["read"]["documents"] == 50
    assert result["report"]["merges_per_second"] > 0
    assert json.loads(
        run("train", text, "--vocab-size", 270, "--json", "--out", tmp_path / "tok").stdout
    )["already_done"]
    counted = json.loads(run("count", text, "--json").stdout)
    assert counted["read"]["documents"] == 50
    assert counted["distinct_pretokens"] == 56


def test_quiet_says_nothing(text: Path, tmp_path: Path) -> None:
    for command in (
        ["train", text, "--vocab-size", 270, "--out", tmp_path / "tok"],
        ["count", text],
    ):
        done = run(*command, "--quiet")
        assert (done.exit_code, done.output) == (0, "")


def test_dry_run_plans_and_writes_nothing(text: Path, tmp_path: Path) -> None:
    shown = run("train", text, "--out", tmp_path / "tok", "--dry-run", "--threads", 3).stdout
    assert shown.splitlines() == [
        f"read     1 input, {len(TEXT) / 1000:.1f} kB",
        "use      3 threads on cpu",
        "train    32,768 ids, pattern `gpt4`, ties `lowest-ids`",
        f"write    {tmp_path / 'tok'}/",
    ]
    assert "split    by `gpt2`" in run("count", text, "--pattern", "gpt2", "--dry-run").stdout
    planned = json.loads(run("train", text, "--dry-run", "--json").stdout)
    assert planned["plan"]["input_bytes"] == len(TEXT)
    assert os.listdir(tmp_path) == ["a.txt"]


def test_counts_are_written_merged_and_trained_from(text: Path, tmp_path: Path) -> None:
    first, second, both = (tmp_path / f"{name}.parquet" for name in ("first", "second", "both"))
    done = run("count", text, "--out", first)
    assert re.search(r"^counted .*\nwrote    .*first\.parquet$", done.stdout, re.M), done.output
    assert "already" in run("count", text, "--out", first).stdout
    (tmp_path / "b.txt").write_text("wider widest")
    run("count", tmp_path / "b.txt", "--out", second)
    assert run("count", "--merge", first, second, "--out", both).exit_code == 0
    merged = tm.PretokenCounts.load(both)
    assert merged == tm.count([text, tmp_path / "b.txt"])
    assert [record.name for record in merged.origin.inputs] == ["a.txt", "b.txt"]
    assert run("count", "--merge", first, second, "--out", both).exit_code == 1
    shown = run("train", "--counts", both, "--vocab-size", 270, "--out", tmp_path / "tok").stdout
    assert shown.startswith("loaded   58 distinct pretokens")
    assert tm.Tokenizer.load(tmp_path / "tok") == tm.train(
        [text, tmp_path / "b.txt"], vocab_size=270
    )
    run("count", text, "--pattern", "gpt2", "--out", tmp_path / "gpt2.parquet")
    failed = run("count", "--merge", first, tmp_path / "gpt2.parquet")
    assert failed.exit_code == 1
    assert "`gpt4` and `gpt2`" in failed.stderr
    cut = run("count", text, "--min-count", 40, "--out", tmp_path / "cut.parquet").stdout
    assert "cut      pretokens that occur fewer than 40 times are left out" in cut


def test_merging_foreign_counts_needs_a_pattern(tmp_path: Path) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"pretoken": ["low"], "count": [2]}), file)
    assert "which pattern" in run("count", "--merge", file, file).stderr
    assert run("count", "--merge", file, file, "--pattern", "gpt2").exit_code == 0


def test_flags_reach_the_library(tmp_path: Path) -> None:
    (tmp_path / "shard_0.jsonl").write_text('{"body": "low lower"}\nbroken\n')
    (tmp_path / "shard_1.jsonl").write_text('{"body": "newer"}\n')
    flags = [
        "--field",
        "body",
        "--shards",
        "0",
        "--on-error",
        "skip",
        "--doc-cap",
        5,
        "--special",
        "none",
    ]
    result = json.loads(run("train", tmp_path, *flags, "--vocab-size", 258, "--json").stdout)
    assert result["special_tokens"] == {}
    read = result["report"]["read"]
    assert (
        read["documents"],
        read["bytes"],
        read["skipped_records"],
        read["capped_documents"],
    ) == (1, 5, 1, 1)
    assert "shard_0.jsonl:2" in read["skipped"][0]
    shown = run("train", tmp_path, *flags, "--vocab-size", 258).stdout
    assert re.search(r"^skipped  1 record, such as .*shard_0\.jsonl:2", shown, re.M)
    last = json.loads(run("count", tmp_path, "--field", "body", "--shards", "-1", "--json").stdout)
    assert last["occurrences"] == 1
    special = [
        "--special",
        "<a>",
        "--special",
        "<b>",
        "--special-placement",
        "first",
        "--reserve",
        1,
    ]
    placed = json.loads(
        run("train", tmp_path, *flags[:6], *special, "--vocab-size", 260, "--json").stdout
    )
    assert placed["special_tokens"] == {"<a>": 0, "<b>": 1, "<|reserved_0|>": 2}
    profile = json.loads(run("train", tmp_path, *flags[:6], "--profile", "cs336", "--json").stdout)
    assert profile["pattern"] == "gpt2"


def test_separators_may_be_escaped(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"low\n\nlower\n\nlow")
    read = json.loads(run("count", tmp_path / "a.txt", "--separator", r"\n\n", "--json").stdout)[
        "read"
    ]
    assert read["documents"] == 3
    assert unescape(r"a\t\x00\\n\0") == b"a\t\x00\\n\x00"
    with pytest.raises(ConfigError, match=r"unknown escape `\\q`"):
        unescape(r"\q")


def test_the_reference_engine(text: Path) -> None:
    shown = run("train", text, "--vocab-size", 262, "--engine", "reference").stdout
    assert "merged   5 merges with the reference engine" in shown


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["train"], 2, "at least one INPUT is needed, or `--counts`"),
        (["count"], 2, "at least one INPUT is needed"),
        (["train", "absent.txt"], 1, "error: `absent.txt` does not exist"),
        (["train", "--vocab-size", "many"], 2, "Invalid value for '--vocab-size'"),
        (["train", "--vocab-sice", "5"], 2, "No such option"),
        (["frobnicate"], 2, "No such command"),
        (["train", "-"], 1, "error: cannot tell the format of `-`"),
        (["train", "a.txt", "--vocab-size", "100"], 1, "error: vocab size 100 is below 257"),
        (["train", "a.txt", "--special", "none", "--special", "<a>"], 1, "error: `--special none`"),
    ],
)
def test_misuse_and_failure_have_their_codes(
    text: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], code: int, message: str
) -> None:
    monkeypatch.chdir(text.parent)
    done = run(*args)
    assert (done.exit_code, done.stdout) == (code, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_standard_input(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tokenmill", "count", "-", "--input-format", "txt.gz", "--json"],
        input=gzip.compress(TEXT.encode()),
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout)["read"]["documents"] == 50


def test_log_levels(text: Path) -> None:
    plain = {**os.environ, "LOG_LEVEL": ""}
    quiet = process("train", text, "--vocab-size", 260, env=plain)
    assert quiet.stderr == ""
    told = process("train", text, "--vocab-size", 260, "-v", env=plain)
    assert re.search(
        r"^info: counted 50 documents, [\d,]+ bytes, 56 distinct pretokens", told.stderr, re.M
    )
    assert re.search(
        r"^info: 3 merges at [\d,]+ merges/s; [\d,]+ distinct pairs before the first; the vocab is full$",
        told.stderr,
        re.M,
    )
    assert "debug" not in told.stderr
    for chatty in (
        process("train", text, "--vocab-size", 260, "-vv", env=plain),
        process("train", text, "--vocab-size", 260, env={**os.environ, "LOG_LEVEL": "debug"}),
    ):
        assert "debug: pretoken b' low" in chatty.stderr
        assert re.search(r"^debug: pair b'.' b'.' occurs [\d,]+ times$", chatty.stderr, re.M)
        assert re.search(
            r"^debug: merge 2: b'.+' \+ b'.+' = b'.+', [\d,]+ times$", chatty.stderr, re.M
        )
    debugged = process("train", "absent.txt", env={**os.environ, "LOG_LEVEL": "DEBUG"})
    assert "Traceback" in debugged.stderr


def test_plain_training_loads_neither_arrow_nor_numpy(text: Path, tmp_path: Path) -> None:
    program = (
        "import sys, tokenmill as tm\n"
        "tm.train(sys.argv[1], vocab_size=270, out=sys.argv[2])\n"
        "print([name for name in ('pyarrow', 'numpy', 'rich', 'typer') if name in sys.modules])"
    )
    command = [sys.executable, "-c", program, str(text), str(tmp_path / "tok")]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_full_disk_is_a_clean_error_and_can_be_resumed(text: Path, tmp_path: Path) -> None:
    program = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, resource.RLIM_INFINITY))\n"
        "sys.argv[0] = 'tokenmill'\n"
        "from tokenmill.cli.main import main; main()"
    )
    out = tmp_path / "tok"
    words = " ".join(f"{n * n:x}" for n in range(3000))
    text.write_text(words)
    command = [
        sys.executable,
        "-c",
        program,
        "train",
        str(text),
        "--vocab-size",
        "2000",
        "--out",
        str(out),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: no room to write")
    assert "Traceback" not in done.stderr
    assert [name for name in os.listdir(tmp_path) if name not in ("a.txt", "tok.partial")] == []
    assert run("train", text, "--vocab-size", 2000, "--out", out).exit_code == 0
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "tok"]


@pytest.mark.parametrize("out", [False, True])
def test_ctrl_c_is_answered(tmp_path: Path, out: bool) -> None:
    """Interrupted while counting, a command ends with 130 and says how to go on."""
    file = tmp_path / "a.txt"
    os.mkfifo(file) if not out else file.write_text(TEXT * 40_000)
    args = ["--out", str(tmp_path / "counts.parquet")] if out else []
    command = [sys.executable, "-m", "tokenmill", "count", str(file), "--threads", "1", *args]
    job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if out:
        wait_for(tmp_path / "counts.parquet.partial" / "plan.json")
        time.sleep(0.2)
        job.send_signal(signal.SIGINT)
    else:
        with open(file, "wb") as pipe:
            pipe.write(TEXT.encode() * 100)
            pipe.flush()
            time.sleep(0.2)
            job.send_signal(signal.SIGINT)
            job.wait()
    stdout, stderr = job.communicate()
    assert job.returncode == 130, stderr
    assert stdout == ""
    assert stderr.startswith("interrupted; ")
    assert "Traceback" not in stderr
    if out:
        assert "0 of 1 unit counted" in stderr
        assert "hint: run the same command again to go on from there" in stderr
        assert not (tmp_path / "counts.parquet").exists()


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never appeared"
        time.sleep(0.01)


def test_one_is_one_in_every_report(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"ab\xff")
    shown = run(
        *("train", tmp_path / "a.txt", "--vocab-size", 258, "--special", "<a>", "--threads", 1),
        *("--invalid-utf8", "replace", "--doc-cap", 2),
    ).stdout
    assert re.search(r"^counted  2 bytes, 1 document, 1 distinct pretoken ", shown, re.M)
    assert re.search(r"^capped   1 document$", shown, re.M)
    assert re.search(r"^merged   1 merge on cpu, 1 thread ", shown, re.M)
    replaced = run("count", tmp_path / "a.txt", "--invalid-utf8", "replace").stdout
    assert "replaced 1 invalid UTF-8 sequence by U+FFFD\n" in replaced
    small = run("train", tmp_path / "a.txt", "--vocab-size", 256, "--special", "<a>").stderr
    assert "(256 bytes + 1 special token)" in small


def test_counts_that_do_not_fit_together_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("low lower")
    files = [tmp_path / f"{number}.parquet" for number in range(3)]
    for file, pattern in zip(files, ("gpt4", "gpt4", "gpt2"), strict=True):
        run("count", tmp_path / "a.txt", "--pattern", pattern, "--out", file)
    refused = run("count", "--merge", *files)
    assert refused.exit_code == 1
    assert refused.stderr.startswith(
        f"error: `{files[0]}` and `{files[2]}` differ in their pattern: `gpt4` and `gpt2`\n"
    )
