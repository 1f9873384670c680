"""Keep what was measured: one JSON file per machine and commit, records inside replaced by newer ones.

`<machine>-<commit>.json` holds the machine, the commit, versions and a list of records. A record is one case
on one corpus; measuring it again replaces it, other records stay.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.machine import REPOSITORY, Commit, Machine
from bench.tables import Record

RESULTS = REPOSITORY / "bench" / "results"
FORMAT = 1


def record_key(record: Record) -> tuple[Any, ...]:
    vocabulary = record.get("vocabulary", "")
    return (
        record["kind"],
        record["case"],
        record["corpus"]["name"],
        record["vocab_size"],
        vocabulary,
    )


def result_file(machine: Machine, commit: Commit, folder: Path = RESULTS) -> Path:
    return folder / f"{machine.slug}-{commit.name}.json"


def store(
    records: Sequence[Record], machine: Machine, commit: Commit, folder: Path = RESULTS
) -> Path:
    """Add `records` to this machine's file for this commit. The file is whole at every moment."""
    path = result_file(machine, commit, folder)
    kept = {record_key(record): record for record in _stored_records(path)}
    kept.update({record_key(record): record for record in records})
    result = {
        "format": FORMAT,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": asdict(machine),
        "commit": asdict(commit),
        "records": [kept[key] for key in sorted(kept)],
    }
    folder.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".json.partial")
    partial.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    partial.replace(path)
    return path


def _stored_records(path: Path) -> list[Record]:
    return json.loads(path.read_text(encoding="utf-8"))["records"] if path.exists() else []


def load_results(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """Every stored result, oldest commit first, then by when it was measured."""
    results = [
        json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))
    ]
    return sorted(results, key=lambda result: (result["commit"]["date"], result["date"]))
