"""README's table of encoding, from the newest result that has one: works down, libraries across."""

from collections.abc import Sequence
from typing import Any

from bench.cases import load_cases
from bench.encoders import tokenmill
from bench.tables import Record, fastest, label, markdown_table, median, slowest_run, speed
from bench.vocabularies import TRAINED

WORKS = {
    "encode documents": ("encode-batch-cold", "encode-batch-steady"),
    "encode one text": ("encode-text-cold", "encode-text-steady"),
    "decode documents": ("decode-batch",),
    "decode one text": ("decode-text",),
    "one call": ("call",),
    "as tiktoken, encode": ("compat-tiktoken-encode",),
    "as tiktoken, one call": ("compat-tiktoken-call",),
    "as tokenizers, with offsets": ("compat-tokenizers-offsets",),
    "as tokenizers, one call": ("compat-tokenizers-call",),
    "load": ("load",),
}
"""What a row says → the cases in its cells. Two of them are one text cold and another steady."""
BETWEEN = " · "


def encode_table(results: Sequence[dict[str, Any]]) -> str:
    """Empty when no stored result has encoded anything yet."""
    found = _newest(results)
    if found is None:
        return ""
    result, records = found
    peers = _peers(records)
    header = ["one thread", f"**{tokenmill.NAME}**", *(label(peer) for peer in peers)]
    rows: list[list[str]] = []
    for work, cases in WORKS.items():
        for corpus in dict.fromkeys(record["corpus"]["name"] for record in records):
            chosen = [_find(records, case, corpus) for case in cases]
            present = [record for record in chosen if record is not None]
            if present:
                rows.append([_name(work, present[0]), *_cells(present, peers)])
    return f"{markdown_table(header, rows)}\n\n{_foot(result, records)}"


def _newest(results: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[Record]] | None:
    for result in sorted(results, key=lambda result: result["date"], reverse=True):
        records = [record for record in result["records"] if _is_shown(record)]
        if any(record["kind"] == "encode" for record in records):
            return result, records
    return None


def _is_shown(record: Record) -> bool:
    """With vocabs trained here at the usual size; loading has a larger one."""
    if record.get("vocabulary") != TRAINED:
        return False
    return record["kind"] == "load" or record["vocab_size"] == load_cases().encode.vocab_size


def _peers(records: Sequence[Record]) -> list[Record]:
    """One entrant of each peer, in the order of the first record of encoding."""
    encoded = next(record for record in records if record["kind"] == "encode")
    peers = {entrant["name"]: entrant for entrant in encoded["entrants"]}
    peers.pop(tokenmill.NAME, None)
    return list(peers.values())


def _find(records: Sequence[Record], case: str, corpus: str) -> Record | None:
    same = (r for r in records if r["case"] == case and r["corpus"]["name"] == corpus)
    return next(same, None)


def _name(work: str, record: Record) -> str:
    if record["kind"] == "load":
        return f"load {record['vocab_size']:,} tokens, first ids"
    return f"{work}, {record['corpus']['name']}"


def _cells(records: Sequence[Record], peers: Sequence[Record]) -> list[str]:
    """Ours, then each peer's with how many times ours it takes."""
    ours = BETWEEN.join(speed(record, record["entrants"][0]) for record in records)
    return [_once(ours), *(_cell(records, peer["name"]) for peer in peers)]


def _cell(records: Sequence[Record], name: str) -> str:
    speeds: list[str] = []
    ratios: list[str] = []
    for record in records:
        theirs, own = fastest(record, name), median(record["entrants"][0])
        if theirs is None or not own:
            return "–"
        speeds.append(speed(record, theirs))
        ratios.append(f"{(median(theirs) or 0.0) / own:.1f}×")
    return f"{_once(BETWEEN.join(speeds))} ({BETWEEN.join(ratios)})"


def _once(speeds: str) -> str:
    """`12 MB/s · 13 MB/s` with its unit said once."""
    unit = " MB/s"
    return speeds.replace(f"{unit}{BETWEEN}", BETWEEN)


def _foot(result: dict[str, Any], records: Sequence[Record]) -> str:
    machine, commit = result["machine"], result["commit"]
    commands = dict.fromkeys(record["command"] for record in records)
    encoded = next(record for record in records if record["kind"] == "encode")
    chars = load_cases().call.chars
    runs = [slowest_run(record) for record in records if record["kind"] == "pathological"]
    worst = f" Slowest of eight kinds of 8 MB runs: {runs[0]} than 1 MB." if runs else ""
    return (
        f"Vocab of {encoded['vocab_size']:,} tokens, pattern `{encoded['pattern']}`, measured on documents that are in neither its "
        f"training text nor any cache: by a fresh process, and (after the dot) by one that has encoded others. In brackets how many "
        f"times our time; every id compared before timing; a call is {chars} characters.{worst} "
        f"{machine['cpu']}, {machine['cores']} cores, commit `{commit['hash'][:10]}`, "
        f"{', '.join(f'`{command}`' for command in commands)}."
    )
