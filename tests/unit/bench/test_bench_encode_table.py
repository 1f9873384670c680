"""What the tables say about encoding, on made-up numbers."""

from pathlib import Path
from typing import Any

from bench.history import write_history
from bench.machine import Commit, Machine
from bench.readme_encode_table import encode_table
from bench.readme_table import END, START, update_readme
from bench.results import load_results, store
from bench.tables import entrants_table, in_rate, in_small_units, slowest_run, speed, title

MACHINE = Machine("AMD EPYC", 2, 8 << 30, "Linux", "3.11.9")
COMMIT = Commit("0123456789abcdef", "2026-11-15T20:00:00+00:00", dirty=False)


def entrant(name: str, seconds: list[float], **more: Any) -> dict[str, Any]:
    plain = {
        "version": "1.0",
        "threads": 1,
        "peak_bytes": 80_000_000,
        "answer": "same",
        "equal": True,
    }
    return {"name": name, "seconds": seconds, "failure": None, "form": "", **plain, **more}


def record(kind: str, case: str, seconds: float, **more: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "case": case,
        "pattern": "gpt4",
        "corpus": {"name": "en", "bytes": 10_000_000},
        "vocabulary": "trained",
        "vocab_size": 32768,
        "command": "python -m bench encode en.txt",
        "entrants": [
            entrant("tokenmill", [seconds]),
            entrant("tokenmill", [seconds * 3], form="lists"),
            entrant("tiktoken", [seconds * 20]),
            entrant("gigatoken", [], failure="refused the pattern", peak_bytes=None),
        ],
        "numbers": [{"what": "w", "wanted": "≥ 10×", "measured": "20.0×", "reached": True}],
        **more,
    }


def runs() -> dict[str, Any]:
    entrants = [
        entrant("one letter, 1 MB", [0.01], bytes=1_000_000),
        entrant("one letter, 8 MB", [0.2], bytes=8_000_000),
        entrant("spaces, 1 MB", [0.1], bytes=1_000_000),
        entrant("spaces, 8 MB", [0.5], bytes=8_000_000),
    ]
    corpus = {"name": "runs", "bytes": 8_000_000}
    return record("pathological", "pathological", 1.0, entrants=entrants, corpus=corpus)


def stored(folder: Path) -> list[dict[str, Any]]:
    records = [
        record("encode", "encode-batch-cold", 0.05),
        record("encode", "encode-batch-steady", 0.04),
        record("encode", "encode-batch-cold", 0.06, vocabulary="cl100k", vocab_size=100277),
        record("decode", "decode-batch", 0.01),
        record("call", "call", 0.01, calls=10_000),
        record("load", "load", 0.1, vocab_size=100_000),
        runs(),
    ]
    store(records, MACHINE, COMMIT, folder)
    return load_results(folder)


def test_speeds_are_rates_or_times_of_one_call() -> None:
    batch, call = record("encode", "c", 0.05), record("call", "c", 0.01, calls=10_000)
    assert speed(batch, batch["entrants"][0]) == "200 MB/s"
    assert speed(call, call["entrants"][0]) == "1 µs"
    assert speed(batch, batch["entrants"][3]) == ""
    assert in_rate(5_550_000) == "5.5 MB/s"
    assert (in_small_units(0.12), in_small_units(3)) == ("120 ms", "3.000 s")


def test_a_record_shows_speed_and_form() -> None:
    drawn = entrants_table(record("encode", "encode-batch-cold", 0.05))
    assert "tokenmill 1.0, lists" in drawn
    assert "200 MB/s" in drawn
    assert "20.00×" in drawn
    assert "refused the pattern" in drawn
    assert title(record("encode", "c", 1.0)) == "c, en (10 MB), trained 32,768"


def test_the_slowest_run_and_the_one_that_grows_most_are_named() -> None:
    assert slowest_run(runs()) == "16 MB/s (spaces), at most 20.0× longer (one letter)"


def test_readme_has_cold_and_steady_in_one_cell(tmp_path: Path) -> None:
    table = encode_table(stored(tmp_path))
    head, _, *rows = [line for line in table.splitlines() if line.startswith("|")]
    assert [cell.strip() for cell in head.split("|")[1:-1]] == [
        "one thread",
        "**tokenmill**",
        "tiktoken 1.0",
        "gigatoken 1.0",
    ]
    cells = {row.split("|")[1].strip(): [c.strip() for c in row.split("|")[2:-1]] for row in rows}
    assert cells["encode documents, en"] == ["200 · 250 MB/s", "10 · 12 MB/s (20.0× · 20.0×)", "–"]
    assert cells["one call, en"][0] == "1 µs"
    assert cells["load 100,000 tokens, first ids"][0] == "100 ms"
    assert "cl100k" not in table
    assert "16 MB/s (spaces)" in table
    assert "`python -m bench encode en.txt`" in table


def test_vocabs_share_a_file_and_a_history(tmp_path: Path) -> None:
    stored(tmp_path)
    history = write_history(tmp_path).read_text(encoding="utf-8")
    assert "en, trained: 200 MB/s · 20.0× tiktoken" in history
    assert "en, cl100k: 167 MB/s · 20.0× tiktoken" in history
    assert "trained: 16 MB/s (spaces)" in history


def test_without_encoding_there_is_no_table(tmp_path: Path) -> None:
    assert encode_table([]) == ""
    store([record("encode", "encode-batch-cold", 0.05, vocab_size=1000)], MACHINE, COMMIT, tmp_path)
    assert encode_table(load_results(tmp_path)) == ""


def test_both_tables_stand_between_the_markers(tmp_path: Path) -> None:
    train = record("train", "train-gpt4", 0.5)
    del train["vocabulary"]
    store([train], MACHINE, COMMIT, tmp_path)
    results = stored(tmp_path)
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{START}\nold\n{END}\nafter\n", encoding="utf-8")
    assert not update_readme(readme, results, check=False)
    text = readme.read_text(encoding="utf-8")
    assert text.index("vocab 32,768") < text.index("| one thread") < text.index(END)
    assert update_readme(readme, results, check=True)
