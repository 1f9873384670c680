"""README's tables, from the newest results: between two marker comments, nothing else is touched.

Training comes first, encoding (readme_encode_table.py) below it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.cases import load_cases
from bench.job import BenchError
from bench.readme_encode_table import encode_table
from bench.tables import Record, fastest, in_megabytes, in_seconds, label, markdown_table, median

START = "<!-- bench:start -->"
END = "<!-- bench:end -->"


def readme_table(results: Sequence[dict[str, Any]]) -> str:
    """Trainers down, corpora and patterns across; each cell median time, how many times ours, peak memory."""
    result, records = _newest(results)
    names = dict.fromkeys(entrant["name"] for record in records for entrant in record["entrants"])
    header = [f"vocab {records[0]['vocab_size']:,}", *map(_column, records)]
    rows = [[_name(records, name), *(_cell(record, name) for record in records)] for name in names]
    machine, commit = result["machine"], result["commit"]
    apart = "except †, " if any(name.endswith("†") for name, *_ in rows) else ""
    foot = (
        f"Median time, how many times ours, peak memory; every merge equal to ours {apart}checked before timing. "
        f"{machine['cpu']}, {machine['cores']} cores, commit `{commit['hash'][:10]}`, "
        f"`{records[0]['command']}`; how: [docs/benchmarks.md](docs/benchmarks.md)."
    )
    return f"{markdown_table(header, rows)}\n\n{foot}"


def with_table(text: str, table: str) -> str:
    """`text` with what lies between the markers replaced. BenchError when they are missing or doubled."""
    if text.count(START) != 1 or text.count(END) != 1:
        raise BenchError(f"the file needs `{START}` and `{END}` once each")
    before, rest = text.split(START)
    _old, after = rest.split(END)
    return f"{before}{START}\n{table}\n{END}{after}"


def update_readme(readme: Path, results: Sequence[dict[str, Any]], *, check: bool) -> bool:
    """Whether `readme` held the newest tables already. Writes them when not, unless `check`."""
    old = readme.read_text(encoding="utf-8")
    tables = (readme_table(results), encode_table(results))
    new = with_table(old, "\n\n".join(filter(None, tables)))
    if new != old and not check:
        readme.write_text(new, encoding="utf-8")
    return new == old


def _newest(results: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[Record]]:
    """The latest result with whole training runs at the usual vocab size, and those runs."""
    for result in sorted(results, key=lambda result: result["date"], reverse=True):
        if records := [record for record in result["records"] if _is_shown(record)]:
            return result, records
    raise BenchError("no stored result has trained anything yet: run `python -m bench train` first")


def _is_shown(record: Record) -> bool:
    return record["kind"] == "train" and record["vocab_size"] == load_cases().vocab_size


def _column(record: Record) -> str:
    corpus = record["corpus"]
    return f"{corpus['name']} {in_megabytes(corpus['bytes'])}, {record['pattern']}"


def _name(records: Sequence[Record], name: str) -> str:
    """The trainer's name and version, with a dagger when its merges are not ours."""
    entrants = [e for record in records for e in record["entrants"] if e["name"] == name]
    if name == "tokenmill":
        return f"**{name}**"
    return label(entrants[0]) + ("†" if any(e["equal"] is False for e in entrants) else "")


def _cell(record: Record, name: str) -> str:
    ours, theirs = fastest(record, "tokenmill"), fastest(record, name)
    if ours is None or theirs is None:
        return "–"
    own, other = median(ours) or 0.0, median(theirs) or 0.0
    ratio = "" if theirs is ours else f" ({other / own:.1f}×)"
    return f"{in_seconds(other)}{ratio}, {in_megabytes(theirs['peak_bytes'])}"
