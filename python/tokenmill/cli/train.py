"""`tokenmill train`: text or counts in, a tokenizer folder out."""

import typer

from tokenmill.cli import options as flags
from tokenmill.cli import train_options as own
from tokenmill.cli.console import answering_errors, set_up_logging


@answering_errors
def train(
    inputs: flags.Inputs = None,
    counts: own.Counts = None,
    out: own.OutFolder = None,
    vocab_size: own.VocabSize = None,
    pattern: flags.Pattern = None,
    special: flags.Special = None,
    special_placement: own.SpecialPlacement = None,
    reserve: own.Reserve = None,
    profile: own.Profile = None,
    ties: own.Ties = None,
    min_count: own.MinCount = None,
    max_token_bytes: own.MaxTokenBytes = None,
    engine: own.Engine = "rust",
    field: flags.Field = None,
    separator: flags.Separator = None,
    input_format: flags.InputFormat = None,
    shards: flags.Shards = None,
    doc_cap: flags.DocCap = None,
    max_chars: flags.MaxChars = None,
    max_bytes: flags.MaxBytes = None,
    on_error: flags.OnError = None,
    invalid_utf8: flags.InvalidUtf8 = None,
    threads: flags.Threads = None,
    time_encode_decode: own.TimeEncodeDecode = False,
    force: flags.Force = False,
    dry_run: flags.DryRun = False,
    json: flags.Json = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = 0,
) -> None:
    """Train a tokenizer on text, or on counts made by `tokenmill count`.

    INPUT are files, folders, globs, addresses (http, https, hf, s3, gs) or `-`: .txt, .jsonl,
    .parquet, .arrow, each also .gz, .zst, .bz2.
    """
    from tokenmill.cli import rendering
    from tokenmill.cli.report import require_text_twice, show_throughput, time_training
    from tokenmill.train.merges import prepare_training

    set_up_logging(verbose)
    if not inputs and counts is None:
        raise typer.BadParameter("at least one INPUT is needed, or `--counts`")
    run = prepare_training(
        inputs or None,
        counts=counts,
        vocab_size=vocab_size,
        pattern=pattern,
        special_tokens=flags.special_tokens(special),
        special_placement=special_placement,
        reserve=reserve,
        ties=ties,
        min_count=min_count,
        max_token_bytes=max_token_bytes,
        profile=profile,
        engine=engine,
        threads=threads,
        out=out,
        force=force,
        progress=not quiet,
        **flags.read_keywords(
            field,
            separator,
            input_format,
            shards,
            doc_cap,
            max_chars,
            max_bytes,
            on_error,
            invalid_utf8,
        ),
    )
    if time_encode_decode:
        require_text_twice(run)
    if dry_run:
        rendering.show_training_plan(run, as_json=json)
        return
    with rendering.resume_hint(out):
        tokenizer = run.run()
    timed = time_training(tokenizer, run) if time_encode_decode else None
    if quiet:
        return
    more = {} if timed is None else {"throughput": timed.as_json()}
    rendering.show_training(tokenizer, out, as_json=json, more=more)
    if timed is not None and not json:
        print()
        show_throughput(timed)
