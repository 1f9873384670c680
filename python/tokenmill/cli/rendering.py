"""What `count` and `train` print. Computes nothing."""

import contextlib
import sys
from collections.abc import Generator, Mapping
from dataclasses import asdict
from pathlib import Path

import typer

from tokenmill.cli.console import line, print_json
from tokenmill.progress import quantity, size
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.train.count import CountRun
from tokenmill.train.count_job import CountPlan
from tokenmill.train.counts import PretokenCounts
from tokenmill.train.report import TrainingReport
from tokenmill.train.run import STOPPED, TrainingRun
from tokenmill.work.folder import units_done, work_folder_of
from tokenmill.work.read_report import ReadReport


@contextlib.contextmanager
def resume_hint(out: Path | None, done_to_units: str = "counted") -> Generator[None]:
    """Say after Ctrl-C how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        done = units_done(out) if out is not None else None
        if out is None or done is None:
            print("interrupted; nothing was written", file=sys.stderr)
        else:
            print(
                f"interrupted; {done[0]:,} of {quantity(done[1], 'unit')} {done_to_units} in `{work_folder_of(out)}`",
                file=sys.stderr,
            )
            print("hint: run the same command again to go on from there", file=sys.stderr)
        raise typer.Exit(130) from None


def show_counts(
    counts: PretokenCounts, out: Path | None, *, already_done: bool, as_json: bool
) -> None:
    report = counts.report
    if as_json:
        print_json(
            {
                "out": None if out is None else str(out),
                "already_done": already_done,
                "pattern": counts.pattern,
                "special_tokens": counts.special_tokens,
                "distinct_pretokens": len(counts),
                "occurrences": counts.occurrences,
                "bytes": counts.total_bytes,
                "min_count": counts.origin.min_count,
                "read": None if report is None else asdict(report),
            }
        )
        return
    if already_done:
        line("done", f"already: `{out}` holds these counts")
        return
    if report is not None:
        _show_read(report, len(counts), report.seconds)
    else:
        line("added", f"{size(counts.total_bytes)}, {quantity(len(counts), 'distinct pretoken')}")
    if counts.is_cut:
        line(
            "cut", f"pretokens that occur fewer than {counts.origin.min_count:,} times are left out"
        )
    if out is not None:
        line("wrote", str(out))


def show_training(
    tokenizer: Tokenizer,
    out: Path | None,
    *,
    as_json: bool,
    more: Mapping[str, object] | None = None,
) -> None:
    """`more` are further keys of the machine output."""
    report: TrainingReport | None = tokenizer.training
    if as_json:
        print_json(
            {
                "out": None if out is None else str(out),
                "already_done": report is None,
                "vocab_size": tokenizer.vocab_size,
                "pattern": tokenizer.pattern,
                "special_tokens": tokenizer.special_tokens,
                "report": None if report is None else report.as_json(),
                **(more or {}),
            }
        )
        return
    if report is None:
        line("done", f"already: `{out}` holds this tokenizer")
        return
    if report.read is not None:
        _show_read(report.read, report.distinct_pretokens, report.counting_seconds)
    else:
        pretokens = quantity(report.distinct_pretokens, "distinct pretoken")
        line("loaded", pretokens, report.counting_seconds)
    threads = quantity(report.threads, "thread")
    engine = f"on cpu, {threads}" if report.engine == "rust" else "with the reference engine"
    line("merged", f"{quantity(report.merges, 'merge')} {engine}", report.merging_seconds)
    if out is not None:
        line("wrote", f"{out}/", report.saving_seconds)
    _show_end(report)


def _show_read(report: ReadReport, distinct: int, seconds: float) -> None:
    documents = quantity(report.documents, "document")
    pretokens = quantity(distinct, "distinct pretoken")
    line("counted", f"{size(report.bytes)}, {documents}, {pretokens}", seconds)
    if report.limit_reached:
        line("limit", "reached: reading stopped before the end of the inputs")
    if report.capped_documents:
        line("capped", quantity(report.capped_documents, "document"))
    if report.replaced_sequences:
        sequences = quantity(report.replaced_sequences, "invalid UTF-8 sequence")
        line("replaced", f"{sequences} by U+FFFD")
    if report.unmatched:
        line("between", f"matches of the pattern: {quantity(report.unmatched, 'pretoken')}")
    if report.skipped_records:
        line(
            "skipped", f"{quantity(report.skipped_records, 'record')}, such as {report.skipped[0]}"
        )


def _show_end(report: TrainingReport) -> None:
    if report.stopped != "full":
        line(
            "stopped", f"early at {quantity(report.vocab_size, 'token')}: {STOPPED[report.stopped]}"
        )
    if report.first_shared_merge is not None:
        line(
            "shared",
            f"merge {report.first_shared_merge:,} spells an earlier token; rustbpe's ids differ from there",
        )
    compression = (
        ""
        if report.bytes_per_token is None
        else f", {report.bytes_per_token:.2f} bytes/token on this text"
    )
    tokens = quantity(report.vocab_size, "token")
    line("vocab", f"{tokens}, {size(report.vocab_bytes)}{compression}")
    line(
        "took",
        f"{report.wall_seconds:.2f} s wall, {report.user_seconds:.2f} s user, "
        f"{report.system_seconds:.2f} s system, peak memory {size(report.peak_memory_bytes)}",
    )


def show_count_plan(run: CountRun, *, as_json: bool) -> None:
    plan = run.plan()
    if as_json:
        print_json({"plan": asdict(plan), "out": None if run.out is None else str(run.out)})
        return
    _show_plan(plan)
    line("split", f"by `{run.job.origin.pattern}`")
    line("write", "nothing" if run.out is None else str(run.out))


def show_training_plan(run: TrainingRun, *, as_json: bool) -> None:
    plan = run.plan()
    settings = run.settings.as_settings()
    if as_json:
        print_json(
            {
                "plan": None if plan is None else asdict(plan),
                "settings": settings,
                "out": None if run.out is None else str(run.out),
            }
        )
        return
    if plan is None:
        assert run.counts is not None
        line("load", f"counts of {quantity(len(run.counts), 'distinct pretoken')}")
    else:
        _show_plan(plan)
    line(
        "train",
        f"{quantity(run.settings.vocab_size, 'id')}, pattern `{settings['pattern']}`, ties `{settings['ties']}`",
    )
    line("write", "nothing" if run.out is None else f"{run.out}/")


def _show_plan(plan: CountPlan) -> None:
    known = "of unknown size" if plan.input_bytes is None else size(plan.input_bytes)
    line("read", f"{quantity(plan.num_inputs, 'input')}, {known}")
    if plan.units is not None:
        line("resume", f"{plan.units_done:,} of {quantity(plan.units, 'unit')} done")
    line("use", f"{quantity(plan.threads, 'thread')} on cpu")
