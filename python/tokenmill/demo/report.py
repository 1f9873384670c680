"""The report of a demo: what its journal and the metrics of its runs say in, `report.md` and `report.html` out."""

from collections.abc import Mapping, Sequence
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tokenmill import _core
from tokenmill.demo.chart import Curve, chart
from tokenmill.demo.journal import Journal
from tokenmill.lm.metrics import read_metrics
from tokenmill.lm.small_world_questions import CHANCE
from tokenmill.progress import duration
from tokenmill.storage.files import write_atomically

Table = tuple[Sequence[str], Sequence[Sequence[str]]]
NAMES = {"base": "base (stories only)", "sft": "after SFT", "dpo": "after DPO"}
TIMED = {
    "text": "write the text",
    "tokenizer": "train the tokenizer",
    "stories": "encode the stories",
    "pretrain": "pretrain",
    "pretrain-measured": "measure the base model",
    "sft": "fine-tune (SFT)",
    "sft-measured": "measure",
    "dpo": "preferences (DPO)",
    "dpo-measured": "measure",
    "export": "export",
}


def results(journal: Journal) -> dict[str, Any]:
    """The numbers of a finished demo, for machines."""
    parts = journal.parts
    base, sft, dpo = (parts[f"{stage}-measured"] for stage in ("pretrain", "sft", "dpo"))
    return {
        "answers_right": {
            "chance": CHANCE,
            "base": base["right"],
            "sft": sft["right"],
            "dpo": dpo["right"],
        },
        "preference_accuracy": {
            "sft": sft["preference_accuracy"],
            "dpo": dpo["preference_accuracy"],
        },
        "bits_per_byte": {"base": base["bits_per_byte"], "entropy": base["entropy"]},
        "seconds": {name: part["seconds"] for name, part in parts.items()},
        "total_seconds": sum(part["seconds"] for part in parts.values()),
        "tokenizer_sha256": parts["tokenizer"]["sha256"],
        "weights_sha256": {
            "base": base["weights_sha256"],
            "sft": sft["weights_sha256"],
            "dpo": dpo["weights_sha256"],
        },
        "settings": journal.settings.as_json(),
    }


def write_report(folder: Path, journal: Journal) -> tuple[Path, Path]:
    """Write both forms; where they are."""
    report = _Report(folder, journal)
    page, text = folder / "report.html", folder / "report.md"
    write_atomically(page, report.html().encode())
    write_atomically(text, report.markdown().encode())
    return page, text


class _Report:
    def __init__(self, folder: Path, journal: Journal) -> None:
        self.folder, self.parts = folder, journal.parts
        self.settings, self.results = journal.settings, results(journal)
        self.metrics = {stage: read_metrics(folder / stage) for stage in ("base", "sft", "dpo")}

    @property
    def summary(self) -> str:
        right, ranked = self.results["answers_right"], self.results["preference_accuracy"]
        total = duration(self.results["total_seconds"])
        return (
            f"In {total}, text became a tokenizer, a language model, and an assistant. It answers {right['dpo']:.0%} of questions about "
            f"facts that it never saw together in training; guessing would get {right['chance']:.1%}, and the base model got "
            f"{right['base']:.0%}. Asked which of two answers is better, it agrees with the preferences in {ranked['dpo']:.0%} of "
            f"pairs, up from {ranked['sft']:.0%} before DPO."
        )

    # Tables

    def scores(self) -> Table:
        right, ranked = self.results["answers_right"], self.results["preference_accuracy"]
        rows = [
            ("a guess", f"{right['chance']:.1%}", "50.0%"),
            (NAMES["base"], f"{right['base']:.1%}", "–"),
            (NAMES["sft"], f"{right['sft']:.1%}", f"{ranked['sft']:.1%}"),
            (NAMES["dpo"], f"{right['dpo']:.1%}", f"{ranked['dpo']:.1%}"),
        ]
        return ("model", "held-out questions right", "held-out pairs ranked right"), rows

    def answers(self) -> Table:
        of = {
            stage: self.parts[name]["answers"]
            for stage, name in zip(
                NAMES, ("pretrain-measured", "sft-measured", "dpo-measured"), strict=True
            )
        }
        rows = [
            (base["prompt"], _short(base["answer"]), sft["answer"], dpo["answer"])
            for base, sft, dpo in zip(of["base"], of["sft"], of["dpo"], strict=True)
        ]
        return ("question", *NAMES.values()), rows

    def sizes(self) -> Table:
        s, parts = self.settings, self.parts
        base = self.parts["pretrain-measured"]
        rows = [
            ("text", f"{s.stories:,} stories, {parts['text']['bytes']:,} bytes"),
            ("tokenizer", f"byte-level BPE, vocab {parts['tokenizer']['vocab_size']:,}"),
            (
                "tokens",
                f"{parts['stories']['tokens']:,}, {parts['stories']['bytes_per_token']:.2f} bytes each",
            ),
            (
                "model",
                f"{base['parameters']:,} parameters, {s.num_layers} layers, context {s.context}",
            ),
            (
                "bits per byte",
                f"{base['bits_per_byte']:.4f} on stories never seen; the world's entropy is {base['entropy']:.4f}",
            ),
            ("SFT", f"{s.conversations:,} conversations, {parts['sft']['steps']:,} steps"),
            ("DPO", f"{s.pairs:,} pairs, {parts['dpo']['steps']:,} steps, β 0.1"),
        ]
        return ("what", "how much"), rows

    def times(self) -> Table:
        rows = [(text, f"{self.parts[name]['seconds']:.1f} s") for name, text in TIMED.items()]
        return ("part", "time"), [*rows, ("all", f"{self.results['total_seconds']:.1f} s")]

    def hashes(self) -> Table:
        weights = self.results["weights_sha256"]
        rows = [("tokenizer", self.results["tokenizer_sha256"])]
        rows += [(f"weights, {NAMES[stage]}", weights[stage]) for stage in NAMES]
        return ("of", "sha256"), rows

    def versions(self) -> str:
        found = [
            f"tokenmill {_core.__version__}",
            *map(_version, ("torch", "numpy", "safetensors")),
        ]
        return ", ".join(found) + f"; seed {self.settings.seed}"

    # Curves

    def curves(self) -> list[str]:
        base, sft, dpo = (self.metrics[stage] for stage in NAMES)
        stories = self.parts["pretrain-measured"]
        least = stories["entropy"]
        last = max((record["step"] for record in base), default=1)
        return [
            chart(
                "pretraining: bits per byte of unseen stories",
                [Curve("model", _points(base, "validation", "bits_per_byte"))],
                floor=Curve("entropy of the world", [(0, least), (last, least)]),
            ),
            chart(
                "pretraining: loss, nats a token",
                [Curve("training", _points(base, "train", "loss"))],
            ),
            chart(
                "SFT: loss of the assistant's tokens",
                [Curve("training", _points(sft, "train", "loss"))],
            ),
            chart(
                "DPO: rewards",
                [
                    Curve("chosen", _points(dpo, "train", "rewards/chosen")),
                    Curve("rejected", _points(dpo, "train", "rewards/rejected")),
                    Curve("margin", _points(dpo, "train", "rewards/margins")),
                ],
            ),
        ]

    # Forms

    def markdown(self) -> str:
        stories = [f"**{when}**: {_short(text, 600)}" for when, text in self.stories()]
        parts = [
            "# From text to assistant",
            self.summary,
            _markdown_table(self.scores()),
            "## What it answers",
            _markdown_table(self.answers()),
            "## What the base model writes",
            "\n\n".join(stories),
            "## What was made",
            _markdown_table(self.sizes()),
            "## Time",
            _markdown_table(self.times()),
            "## Hashes",
            _markdown_table(self.hashes()),
            self.versions(),
            "## Go on",
            "\n".join(f"    {command}" for command in self.commands()),
        ]
        return "\n\n".join(parts) + "\n"

    def html(self) -> str:
        stories = "".join(
            f"<dt>{escape(when)}</dt><dd>{escape(text)}</dd>" for when, text in self.stories()
        )
        charts = "".join(f"<figure>{each}</figure>" for each in self.curves())
        commands = escape("\n".join(self.commands()))
        body = f"""<h1>From text to assistant</h1>
<p class="lead">{escape(self.summary)}</p>
{_html_table(self.scores(), "scores")}
<h2>How it learned</h2>
<div class="charts">{charts}</div>
<h2>What it answers</h2>
<p>Held-out questions: no conversation and no pair of the training data had these two facts together.</p>
{_html_table(self.answers(), "answers")}
<h2>What the base model writes</h2>
<dl>{stories}</dl>
<div class="columns"><section><h2>What was made</h2>{_html_table(self.sizes())}</section>
<section><h2>Time</h2>{_html_table(self.times(), "times")}</section></div>
<h2>Hashes</h2>
{_html_table(self.hashes(), "hashes")}
<p>{escape(self.versions())}</p>
<h2>Go on</h2>
<pre>{commands}</pre>"""
        return _PAGE.replace("{body}", body)

    def stories(self) -> list[tuple[str, str]]:
        """What the base model wrote before it was trained, and after."""
        return [
            ("before pretraining", _short(self.parts["pretrain"]["untrained_story"], 120)),
            ("after pretraining", self.parts["pretrain-measured"]["story"]),
        ]

    def commands(self) -> list[str]:
        folder = self.folder
        return [
            f"tokenmill lm chat {folder / 'dpo'}",
            f"tokenmill lm evaluate {folder / 'dpo'} --questions {folder / 'text' / 'questions.jsonl'}",
            f"tokenmill lm evaluate {folder / 'sft'} --prefs {folder / 'text' / 'test-pairs.jsonl'}",
            f"tokenmill inspect {folder / 'data' / 'conversations'}",
        ]


def _points(
    records: Sequence[Mapping[str, Any]], kind: str, name: str
) -> list[tuple[float, float]]:
    return [
        (record["step"], record[name])
        for record in records
        if record["kind"] == kind and isinstance(record.get(name), int | float)
    ]


def _short(text: str, most: int = 80) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _version(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"{name} –"


def _markdown_table(table: Table) -> str:
    head, rows = table
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in (head, *rows)]
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def _html_table(table: Table, kind: str = "") -> str:
    head, rows = table
    first = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    rest = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f'<table class="{kind}"><thead><tr>{first}</tr></thead><tbody>{rest}</tbody></table>'


_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>tokenmill demo</title>
<style>
:root { --ink: #1d2733; --soft: #5d6b7a; --line: #d9e0e7; --page: #fff; --card: #f6f8fa;
  --c0: #1f6feb; --c1: #cf5c00; --c2: #1a7f4b; --floor: #8250df }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --soft: #9aa7b4; --line: #30363d; --page: #0d1117;
  --card: #161b22; --c0: #58a6ff; --c1: #f0883e; --c2: #3fb950; --floor: #bc8cff } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.9rem; margin-bottom: .3rem } h2 { font-size: 1.2rem; margin: 2rem 0 .6rem }
.lead { font-size: 1.1rem } p, dd { color: var(--ink) } dt { color: var(--soft); margin-top: .6rem } dd { margin: 0; overflow-wrap: anywhere }
table { border-collapse: collapse; width: 100%; font-size: .93rem }
th { text-align: left; color: var(--soft); font-weight: 600 } th, td { padding: .35rem .7rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
.scores td { font-size: 1.05rem; font-variant-numeric: tabular-nums } .scores tr:last-child td { font-weight: 700 }
.times td:last-child { text-align: right; font-variant-numeric: tabular-nums } .times tr:last-child td { font-weight: 700 }
.hashes td:last-child, pre { font-family: ui-monospace, monospace; font-size: .82rem; word-break: break-all }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(22rem, 1fr)); gap: 1rem }
.columns { display: grid; grid-template-columns: 1.6fr 1fr; gap: 2.5rem } @media (max-width: 44rem) { .columns { grid-template-columns: 1fr } }
figure { margin: 0; background: var(--card); border-radius: 8px; padding: .6rem } svg { width: 100%; height: auto }
svg text { fill: var(--ink); font: 13px system-ui, sans-serif } svg .small { font-size: 10.5px; fill: var(--soft) }
svg .right { text-anchor: end } svg .middle { text-anchor: middle } svg .grid { stroke: var(--line) }
polyline, svg line { fill: none; stroke-width: 1.8 } .c0 { stroke: var(--c0) } .c1 { stroke: var(--c1) } .c2 { stroke: var(--c2) }
.floor { stroke: var(--floor); stroke-dasharray: 5 4 }
pre { background: var(--card); border-radius: 8px; padding: .8rem; overflow-x: auto; white-space: pre-wrap }
</style>
<body>
{body}
</body>
</html>
"""
