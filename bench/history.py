"""bench/results/history.md: a row per commit and machine, made anew from the JSON results each time."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.cases import load_cases
from bench.results import RESULTS, load_results
from bench.tables import (
    NO_CONTEST,
    SPEED_KINDS,
    Record,
    fastest,
    in_megabytes,
    in_seconds,
    markdown_table,
    median,
    slowest_run,
    speed,
)

HISTORY = RESULTS / "history.md"
COLUMNS = ["train-gpt4", "train-gpt2", "count", "merge-scaling", "parquet-train", "parquet-count"]
COLUMNS += ["encode-batch-cold", "encode-text-cold", "decode-batch", "call", "load", "pathological"]
COLUMNS += ["dataset-text", "dataset-parquet", "dataset-sft", "dataset-memory", "dataset-open"]
COLUMNS += ["lm-step-1m", "lm-step-17m", "lm-generate-1m", "lm-generate-17m", "lm-checkpoint"]
COLUMNS += ["lm-small-world", "lm-english", "lm-sft", "lm-dpo"]


def history_text(results: Sequence[dict[str, Any]]) -> str:
    rows = [_row(result) for result in results]
    header = ["commit", "date", "machine", *COLUMNS]
    table = markdown_table(header, rows, left=range(len(header)))
    return (
        "# Measured, commit by commit\n\n"
        "Made by `python -m bench table` from the JSON files beside it. Medians; how many times the peer's\n"
        "time is ours; ratios as docs/benchmarks.md defines them.\n\n"
        f"{table}\n"
    )


def write_history(folder: Path = RESULTS) -> Path:
    path = folder / HISTORY.name
    path.write_text(history_text(load_results(folder)), encoding="utf-8")
    return path


def _row(result: dict[str, Any]) -> list[str]:
    commit, machine = result["commit"], result["machine"]
    name = commit["hash"][:10] + ("*" if commit["dirty"] else "")
    cells = [
        "<br>".join(_cell(record) for record in result["records"] if record["case"] == case)
        for case in COLUMNS
    ]
    return [name, commit["date"][:10], f"{machine['cpu']}, {machine['cores']} cores", *cells]


def _cell(record: Record) -> str:
    if record["kind"] == "train":
        usual = record["vocab_size"] == load_cases().vocab_size
        size = "" if usual else f", vocab {record['vocab_size']:,}"
        return f"{record['corpus']['name']}{size}: {_train_cell(record)}"
    if record["kind"] == "pathological":
        return f"{record['vocabulary']}: {slowest_run(record)}"
    if record["kind"] in SPEED_KINDS and record["kind"] not in NO_CONTEST:
        return f"{record['corpus']['name']}, {record['vocabulary']}: {_speed_cell(record)}"
    return " ".join(number["measured"] for number in record["numbers"])


def _train_cell(record: Record) -> str:
    ours = fastest(record, "tokenmill")
    if ours is None:
        return "failed"
    first = f"{in_seconds(median(ours) or 0.0)}, {in_megabytes(ours['peak_bytes'])}"
    return " · ".join([first, *_ratios(record, ours)])


def _speed_cell(record: Record) -> str:
    ours = record["entrants"][0]
    return " · ".join([speed(record, ours), *_ratios(record, ours)])


def _ratios(record: Record, ours: Record) -> list[str]:
    """How many times our time each peer took, at its best."""
    own = median(ours) or 0.0
    names = dict.fromkeys(entrant["name"] for entrant in record["entrants"][1:])
    peers = {name: fastest(record, name) for name in names if name != ours["name"]}
    return [
        f"{(median(peer) or 0.0) / own:.1f}× {name}"
        for name, peer in peers.items()
        if peer is not None
    ]
