"""`tokenmill encode`: text and a tokenizer in, a dataset on disk out."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tokenmill.cli import encode_options as own
from tokenmill.cli import options as flags
from tokenmill.cli.console import answering_errors, line, print_json, set_up_logging
from tokenmill.progress import quantity, size

if TYPE_CHECKING:
    from tokenmill.dataset.encode import EncodePlan, EncodeResult


@answering_errors
def encode(
    inputs: flags.Inputs = None,
    tokenizer: Annotated[
        str,
        typer.Option(
            "--tokenizer",
            metavar="PATH",
            help="Folder or file of the tokenizer, in any format that `convert` reads.",
            show_default=False,
        ),
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="PATH",
            help="Folder for the dataset; a name ending in .npy or .bin makes one plain file.",
            show_default=False,
        ),
    ] = None,
    layout: own.Format = None,
    mode: own.Mode = None,
    profile: own.Profile = None,
    chat_template: own.ChatTemplate = None,
    shape: own.Shape = None,
    max_tokens: own.MaxTokens = None,
    too_long: own.TooLong = None,
    eos: own.Eos = None,
    bos: own.Bos = None,
    allow_special: own.AllowSpecial = None,
    val_fraction: own.ValFraction = None,
    seed: own.Seed = None,
    shard_tokens: own.ShardTokens = None,
    shuffle_documents: own.Shuffle = None,
    dtype: own.Dtype = None,
    append: own.Append = False,
    shard: own.Part = None,
    collect: own.Collect = False,
    field: flags.Field = None,
    separator: flags.Separator = None,
    input_format: flags.InputFormat = None,
    shards: flags.Shards = None,
    doc_cap: flags.DocCap = None,
    max_chars: flags.MaxChars = None,
    max_bytes: flags.MaxBytes = None,
    on_error: flags.OnError = None,
    invalid_utf8: flags.InvalidUtf8 = None,
    threads: own.Threads = None,
    force: flags.Force = False,
    dry_run: flags.DryRun = False,
    json: flags.Json = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = 0,
) -> None:
    """Encode documents into a dataset.

    INPUT are files, folders, globs, addresses (http, https, hf, s3, gs) or `-`: .txt, .jsonl,
    .parquet, .arrow, each also .gz, .zst, .bz2. Files and folders named train, validation, valid,
    val or test become splits.
    """
    from tokenmill.cli import rendering
    from tokenmill.dataset.encode import prepare_encode

    set_up_logging(verbose)
    if not inputs:
        raise typer.BadParameter("at least one INPUT is needed")
    if not tokenizer or out is None:
        raise typer.BadParameter("`--tokenizer` and `--out` are needed")
    read = flags.read_keywords(
        field,
        separator,
        input_format,
        shards,
        doc_cap,
        max_chars,
        max_bytes,
        on_error,
        invalid_utf8,
    )
    settings = own.settings_keywords(
        layout,
        mode,
        profile,
        chat_template,
        shape,
        max_tokens,
        too_long,
        eos,
        bos,
        allow_special,
        val_fraction,
        seed,
        shard_tokens,
        shuffle_documents,
        dtype,
    )
    run = prepare_encode(
        inputs,
        tokenizer,
        out,
        threads=threads,
        append=append,
        part=shard,
        collect=collect,
        force=force,
        progress=not quiet,
        **settings,
        **read,
    )
    if dry_run:
        _show_plan(run.plan(), out, as_json=json)
        return
    with rendering.resume_hint(out, "encoded"):
        result = run.run()
    if not quiet:
        _show(result, out, as_json=json)


def _show_plan(plan: "EncodePlan", out: Path, *, as_json: bool) -> None:
    if as_json:
        print_json({"out": str(out), **asdict(plan)})
        return
    for split, inputs in plan.inputs.items():
        line("read", f"{split}: {quantity(inputs, 'input')}")
    known = "of unknown size" if plan.input_bytes is None else size(plan.input_bytes)
    line("input", f"{known}, {quantity(plan.units, 'unit')}, {quantity(plan.threads, 'thread')}")
    if plan.units_done:
        line("resume", f"{plan.units_done:,} of {quantity(plan.units, 'unit')} done")
    line("write", f"{out}, ids as {plan.dtype}")


def _show(result: "EncodeResult", out: Path, *, as_json: bool) -> None:
    manifest, report = result.manifest, result.report
    if manifest is None:
        _show_part(result, out, as_json=as_json)
        return
    if as_json:
        print_json(
            {
                "out": str(out),
                "already_done": report is None,
                "layout": manifest.layout,
                "dtype": manifest.dtype,
                "tokenizer_sha256": manifest.tokenizer.sha256,
                "splits": {
                    name: {
                        "tokens": split.tokens,
                        "documents": split.documents,
                        "bytes": split.bytes,
                        "shards": len(split.shards),
                    }
                    for name, split in manifest.splits.items()
                },
                "report": dict(manifest.report),
                "seconds": result.seconds,
            }
        )
        return
    if report is None:
        line("done", f"{out} is there already, made from the same text with the same settings")
    else:
        rate = f", {size(report.read.bytes / result.seconds)}/s" if result.seconds > 0 else ""
        noun = "document" if manifest.mode == "pretrain" else "row"
        amounts = f"{size(report.read.bytes)}, {quantity(report.read.documents, noun)}{rate}"
        line("encoded", amounts, result.seconds)
        _show_remarks(manifest.report)
    for name, split in manifest.splits.items():
        shards = f", {quantity(len(split.shards), 'shard')}" if len(split.shards) > 1 else ""
        rate = f"{split.bytes / split.tokens:.3f} bytes/token" if split.tokens else "no tokens"
        tokens, documents = quantity(split.tokens, "token"), quantity(split.documents, "document")
        line("split", f"{name}: {tokens}, {documents}, {rate}{shards}")
    if report is not None:
        line("wrote", f"{out} ({manifest.dtype})")


def _show_part(result: "EncodeResult", out: Path, *, as_json: bool) -> None:
    assert result.report is not None
    read = result.report.read
    if as_json:
        print_json({"out": str(out), "part": True, "read": asdict(read), "seconds": result.seconds})
        return
    line("encoded", f"{size(read.bytes)}, {quantity(read.documents, 'document')}", result.seconds)
    line("next", "when all jobs are done: the same command with `--collect` for `--shard`")


def _show_remarks(report: Mapping[str, Any]) -> None:
    """What a person should know about the text, if there is anything."""
    for name, text in (
        ("skipped_records", "records skipped"),
        ("capped_documents", "documents cut at the cap"),
        ("replaced_sequences", "invalid sequences replaced"),
    ):
        if report[name]:
            line("note", f"{report[name]:,} {text}")
    for reason, found in report["left_out"].items():
        line("note", f"{quantity(found, 'row')} left out: {reason.replace('_', ' ')}")
    if report["truncated"]:
        line("note", f"{quantity(report['truncated'], 'document')} cut to the longest length")
    for token, found in report["special_lookalikes"].items():
        line(
            "note",
            f"`{token}` is spelled {quantity(found, 'time')} in the text and was encoded as text",
        )
    if report["limit_reached"]:
        line("note", "a limit ended reading before the inputs did")
