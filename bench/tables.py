"""Draw results as Markdown: records in, text out. Computes ratios, measures nothing."""

from collections.abc import Collection, Sequence
from typing import Any

from bench.summary import summarize

Record = dict[str, Any]
"""One case on one corpus, as results.py stores it."""
SPEED_KINDS = (
    *("encode", "decode", "call", "compat", "load", "pathological"),
    *("dataset", "dataset-stream"),
)
"""Kinds of records about text that is encoded or decoded: their tables have a column for the speed."""
NO_CONTEST = ("pathological", "dataset-stream", "dataset-open", "lm-trained")
"""Kinds whose entrants do different work: runs of letters and of digits, a model trained for minutes and n-grams counted."""


def markdown_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, left: Collection[int] = (0,)
) -> str:
    """Columns padded, so that it reads in a terminal too; those in `left` to the left, others to the right."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    dashes = [
        "-" * width if i in left else "-" * (width - 1) + ":" for i, width in enumerate(widths)
    ]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    return "\n".join([line(header), line(dashes), *map(line, rows)])


def in_seconds(seconds: float) -> str:
    return f"{seconds:.3f} s" if seconds < 10 else f"{seconds:.1f} s"


def in_small_units(seconds: float) -> str:
    """For what may last anything from a call to a minute."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.3g} µs"
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else in_seconds(seconds)


def in_megabytes(num_bytes: float) -> str:
    return f"{num_bytes / 1e6:,.0f} MB"


def label(entrant: Record) -> str:
    """Name and version as tables show them."""
    return f"{entrant['name']} {entrant['version']}".strip()


def speed(record: Record, entrant: Record) -> str:
    """What a reader wants to know instead of seconds: a rate where text was encoded, the time of one call."""
    seconds = median(entrant)
    if seconds is None or record["kind"] not in SPEED_KINDS:
        return ""
    if record["kind"] == "load":
        return in_small_units(seconds)
    if record.get("calls"):
        return in_small_units(seconds / record["calls"])
    return f"{in_rate(entrant.get('bytes', record['corpus']['bytes']) / seconds)}"


def slowest_run(record: Record) -> str:
    """Of a record of runs: the least megabytes a second and the most that the larger took longer, by family."""
    rates: dict[str, float] = {}
    times: dict[str, list[float]] = {}
    for entrant in record["entrants"]:
        family, seconds = entrant["name"].rpartition(",")[0], median(entrant) or 0.0
        rates[family] = entrant["bytes"] / seconds
        times.setdefault(family, []).append(seconds)
    slowest = min(rates, key=lambda family: rates[family])
    longer = {family: several[-1] / several[0] for family, several in times.items()}
    longest = max(longer, key=lambda family: longer[family])
    return (
        f"{in_rate(rates[slowest])} ({slowest}), at most {longer[longest]:.1f}× longer ({longest})"
    )


def in_rate(bytes_per_second: float) -> str:
    megabytes = bytes_per_second / 1e6
    return f"{megabytes:,.0f} MB/s" if megabytes >= 10 else f"{megabytes:.1f} MB/s"


def median(entrant: Record) -> float | None:
    return summarize(entrant["seconds"]).median if entrant["seconds"] else None


def fastest(record: Record, name: str) -> Record | None:
    """The entrant of that name with the best median: a peer may run with more than one thread count."""
    measured = [
        entrant for entrant in record["entrants"] if entrant["name"] == name and entrant["seconds"]
    ]
    return min(measured, key=lambda entrant: summarize(entrant["seconds"]).median, default=None)


def entrants_table(record: Record) -> str:
    """Every run of a record: spread, memory, the ratio to the first entrant, and what was compared."""
    header = ["", "threads", "mean ± σ", "min … max", "median", "ratio", "peak", "answers"]
    first = median(record["entrants"][0]) if record["kind"] not in NO_CONTEST else None
    rows = [_entrant_row(entrant, first) for entrant in record["entrants"]]
    if record["kind"] in SPEED_KINDS:
        header.insert(5, "speed")
        for row, entrant in zip(rows, record["entrants"], strict=True):
            row.insert(5, speed(record, entrant))
    return markdown_table(header, rows, left=(0, len(header) - 1))


def _entrant_row(entrant: Record, first: float | None) -> list[str]:
    threads = str(entrant["threads"])
    form = entrant.get("form", "")
    name = f"{label(entrant)}, {form}" if form else label(entrant)
    if entrant["failure"] is not None:
        return [name, threads, "", "", "", "", "", entrant["failure"]]
    summary = summarize(entrant["seconds"])
    return [
        name,
        threads,
        f"{in_seconds(summary.mean)} ± {summary.deviation:.3f}",
        f"{summary.minimum:.3f} … {summary.maximum:.3f}",
        in_seconds(summary.median),
        f"{summary.median / first:.2f}×" if first else "",
        in_megabytes(entrant["peak_bytes"]),
        entrant["answer"],
    ]


def numbers_table(records: Sequence[Record]) -> str:
    """What was aimed at, and what was measured."""
    rows = [
        [number["what"], number["wanted"], number["measured"], _verdict(number)]
        for record in records
        for number in record["numbers"]
    ]
    return markdown_table(["what", "wanted", "measured", ""], rows, left=(0, 3))


def _verdict(number: Record) -> str:
    if not number["measured"]:
        return "not measured"
    return {True: "reached", False: "missed", None: ""}[number["reached"]]


def title(record: Record) -> str:
    corpus = record["corpus"]
    vocabulary = (
        f", {record['vocabulary']} {record['vocab_size']:,}" if "vocabulary" in record else ""
    )
    return f"{record['case']}, {corpus['name']} ({in_megabytes(corpus['bytes'])}){vocabulary}"
