"""What `count` and `train` print. Computes nothing."""

import contextlib
import sys
from collections.abc import Generator
from dataclasses import asdict
from pathlib import Path

import typer

from tokenmill.cli.console import line, print_json
from tokenmill.progress import size
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.train.count import CountRun
from tokenmill.train.count_job import CountPlan
from tokenmill.train.counts import PretokenCounts
from tokenmill.train.report import ReadReport, TrainingReport
from tokenmill.train.run import STOPPED, TrainingRun
from tokenmill.train.work_folder import units_done, work_folder_of


@contextlib.contextmanager
def resume_hint(out: Path | None) -> Generator[None]:
    """Say after Ctrl-C how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        done = units_done(out) if out is not None else None
        if out is None or done is None:
            print("interrupted; nothing was written", file=sys.stderr)
        else:
            print(
                f"interrupted; {done[0]} of {done[1]} units are counted in `{work_folder_of(out)}`",
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
        line("added", f"{size(counts.total_bytes)}, {len(counts):,} distinct pretokens")
    if counts.is_cut:
        line(
            "cut", f"pretokens that occur fewer than {counts.origin.min_count:,} times are left out"
        )
    if out is not None:
        line("wrote", str(out))


def show_training(tokenizer: Tokenizer, out: Path | None, *, as_json: bool) -> None:
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
            }
        )
        return
    if report is None:
        line("done", f"already: `{out}` holds this tokenizer")
        return
    if report.read is not None:
        _show_read(report.read, report.distinct_pretokens, report.counting_seconds)
    else:
        line("loaded", f"{report.distinct_pretokens:,} distinct pretokens", report.counting_seconds)
    threads = f"{report.threads} thread{'s' if report.threads > 1 else ''}"
    engine = f"on cpu, {threads}" if report.engine == "rust" else "with the reference engine"
    line("merged", f"{report.merges:,} merges {engine}", report.merging_seconds)
    if out is not None:
        line("wrote", f"{out}/", report.saving_seconds)
    _show_end(report)


def _show_read(report: ReadReport, distinct: int, seconds: float) -> None:
    documents = f"{report.documents:,} document{'' if report.documents == 1 else 's'}"
    line("counted", f"{size(report.bytes)}, {documents}, {distinct:,} distinct pretokens", seconds)
    if report.limit_reached:
        line("limit", "reached: reading stopped before the end of the inputs")
    if report.capped_documents:
        line("capped", f"{report.capped_documents:,} documents")
    if report.replaced_sequences:
        line("replaced", f"{report.replaced_sequences:,} invalid UTF-8 sequences by U+FFFD")
    if report.unmatched:
        line("between", f"{report.unmatched:,} pretokens lie between matches of the pattern")
    if report.skipped_records:
        line("skipped", f"{report.skipped_records:,} records, such as {report.skipped[0]}")


def _show_end(report: TrainingReport) -> None:
    if report.stopped != "full":
        line("stopped", f"early at {report.vocab_size:,} tokens: {STOPPED[report.stopped]}")
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
    line("vocab", f"{report.vocab_size:,} tokens, {size(report.vocab_bytes)}{compression}")
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
        line("load", f"counts of {len(run.counts):,} distinct pretokens")
    else:
        _show_plan(plan)
    line(
        "train",
        f"{run.settings.vocab_size:,} ids, pattern `{settings['pattern']}`, ties `{settings['ties']}`",
    )
    line("write", "nothing" if run.out is None else f"{run.out}/")


def _show_plan(plan: CountPlan) -> None:
    known = "of unknown size" if plan.input_bytes is None else size(plan.input_bytes)
    line("read", f"{plan.num_inputs:,} input{'' if plan.num_inputs == 1 else 's'}, {known}")
    if plan.units is not None:
        line("resume", f"{plan.units_done:,} of {plan.units:,} units are done")
    line("use", f"{plan.threads} thread{'' if plan.threads == 1 else 's'} on cpu")
