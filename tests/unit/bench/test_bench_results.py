"""Stored results, the history and README's table, on made-up numbers."""

import json
from pathlib import Path
from typing import Any

import pytest
from bench.history import history_text, write_history
from bench.job import BenchError
from bench.machine import Commit, Machine
from bench.readme_table import END, START, readme_table, update_readme, with_table
from bench.results import load_results, store
from bench.tables import entrants_table, fastest, markdown_table, numbers_table

MACHINE = Machine("AMD EPYC(TM) 9B14 Processor @ 2.6GHz", 2, 8 << 30, "Linux", "3.11.9")
COMMIT = Commit("0123456789abcdef", "2026-11-15T20:00:00+00:00", dirty=False)


def entrant(name: str, seconds: list[float], **more: Any) -> dict[str, Any]:
    plain = {"version": "1.0", "threads": 2, "peak_bytes": 80_000_000, "answer": "", "equal": None}
    return {"name": name, "seconds": seconds, "failure": None, **plain, **more}


def record(seconds: float, corpus: str = "en", vocab_size: int = 32768) -> dict[str, Any]:
    return {
        "kind": "train",
        "case": "train-gpt4",
        "pattern": "gpt4",
        "corpus": {"name": corpus, "bytes": 100_000_000},
        "vocab_size": vocab_size,
        "command": "python -m bench train en.txt",
        "entrants": [
            entrant("tokenmill", [seconds]),
            entrant("rustbpe", [8.0], equal=True),
            entrant("gigatoken", [3.0], threads=1, equal=True),
            entrant("gigatoken", [4.0], equal=True),
            entrant("fast-bpe-rs", [9.0], equal=False),
            entrant("bpeasy", [], peak_bytes=None, failure="not available: no wheel"),
        ],
        "numbers": [{"what": "w", "wanted": "≥ 7×", "measured": "16.0×", "reached": True}],
    }


def test_the_machine_and_commit_name_the_file(tmp_path: Path) -> None:
    path = store([record(0.5)], MACHINE, COMMIT, tmp_path)
    assert path.name == "amd-epyc-9b14-2c-0123456789.json"
    assert store([], MACHINE, Commit("ab" * 20, "", dirty=True), tmp_path).name.endswith(
        "-dirty.json"
    )


def test_measuring_again_replaces_one_record_and_keeps_the_others(tmp_path: Path) -> None:
    store([record(0.5), record(0.7, "multi")], MACHINE, COMMIT, tmp_path)
    path = store([record(0.4)], MACHINE, COMMIT, tmp_path)
    stored = json.loads(path.read_text(encoding="utf-8"))["records"]
    times = {each["corpus"]["name"]: each["entrants"][0]["seconds"] for each in stored}
    assert times == {"en": [0.4], "multi": [0.7]}


def test_the_history_grows_by_a_row_per_commit_oldest_first(tmp_path: Path) -> None:
    later = Commit("fedcba9876543210", "2026-11-16T20:00:00+00:00", dirty=True)
    store([record(0.4)], MACHINE, later, tmp_path)
    store([record(0.5)], MACHINE, COMMIT, tmp_path)
    lines = write_history(tmp_path).read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ") and "EPYC" in line]
    assert [row.split()[1] for row in rows] == ["0123456789", "fedcba9876*"]
    assert "en: 0.500 s, 80 MB · 16.0× rustbpe · 6.0× gigatoken · 18.0× fast-bpe-rs" in rows[0]


def test_a_history_without_results_is_an_empty_table() -> None:
    assert history_text([]).count("\n| ") == 2


def test_the_better_thread_count_speaks_for_a_peer() -> None:
    found = fastest(record(0.5), "gigatoken")
    assert found is not None
    assert found["threads"] == 1
    assert fastest(record(0.5), "bpeasy") is None


def test_readme_table_shows_every_trainer_and_marks_the_one_that_differs(tmp_path: Path) -> None:
    store([record(0.5), record(1.0, "multi")], MACHINE, COMMIT, tmp_path)
    table = readme_table(load_results(tmp_path))
    head, _, ours, *others = table.splitlines()
    assert "en 100 MB, gpt4" in head
    assert "multi 100 MB, gpt4" in head
    assert ours.startswith("| **tokenmill** ")
    assert "0.500 s, 80 MB" in ours
    by_name = {line.split("|")[1].strip(): line for line in others if line.startswith("|")}
    assert "8.000 s (16.0×), 80 MB" in by_name["rustbpe 1.0"]
    assert "–" in by_name["bpeasy 1.0"]
    assert "fast-bpe-rs 1.0†" in by_name
    assert "0123456789" in others[-1]


def test_results_at_another_vocab_size_stay_out_of_the_readme(tmp_path: Path) -> None:
    store([record(0.5, vocab_size=1000)], MACHINE, COMMIT, tmp_path)
    with pytest.raises(BenchError, match="bench train"):
        readme_table(load_results(tmp_path))


def test_check_tells_and_update_writes(tmp_path: Path) -> None:
    store([record(0.5)], MACHINE, COMMIT, tmp_path)
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{START}\nold\n{END}\nafter\n", encoding="utf-8")
    results = load_results(tmp_path)
    assert not update_readme(readme, results, check=True)
    assert "old" in readme.read_text(encoding="utf-8")
    assert not update_readme(readme, results, check=False)
    text = readme.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{START}\n| vocab 32,768")
    assert text.endswith(f"\n{END}\nafter\n")
    assert update_readme(readme, results, check=True)


def test_missing_markers_are_an_error() -> None:
    with pytest.raises(BenchError, match="once each"):
        with_table(f"{START} but no end", "table")


def test_tables_tell_failures_and_verdicts() -> None:
    drawn = entrants_table(record(0.5))
    assert "not available: no wheel" in drawn
    assert "16.00×" in drawn
    assert "reached" in numbers_table([record(0.5)])


def test_columns_line_up() -> None:
    table = markdown_table(["a", "b"], [["long name", "1"], ["x", "1,000"]])
    assert table.splitlines() == [
        "| a         |     b |",
        "| --------- | ----: |",
        "| long name |     1 |",
        "| x         | 1,000 |",
    ]
