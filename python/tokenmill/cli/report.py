"""`tokenmill report`: what tokenizers do to a text, in numbers."""

from typing import TYPE_CHECKING

import typer

from tokenmill.cli import options as flags
from tokenmill.cli import report_options as own
from tokenmill.cli.console import answering_errors, print_json, set_up_logging
from tokenmill.errors import ConfigError
from tokenmill.report.settings import CompressionSettings, ThroughputSettings
from tokenmill.storage.files import local_path

if TYPE_CHECKING:
    from tokenmill.report.throughput import ThroughputReport
    from tokenmill.tokenizer.tokenizer import Tokenizer
    from tokenmill.train.run import TrainingRun

report = typer.Typer(
    name="report",
    help="Measure tokenizers: how fast they are, how few tokens they need.",
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@report.command(cls=own.TextsCommand)
@answering_errors
def throughput(
    tokenizer: own.TokenizerPath,
    text: own.Texts = None,
    pattern: own.TokenizerPattern = None,
    batch_size: own.BatchSize = ThroughputSettings.batch_size,
    batches: own.Batches = ThroughputSettings.batches,
    rounds: own.Rounds = ThroughputSettings.rounds,
    seed: own.Seed = ThroughputSettings.seed,
    compare: own.Compare = None,
    validate: own.Validate = False,
    extrapolate: own.Extrapolate = None,
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
    json: flags.Json = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = 0,
) -> None:
    """Time encoding and decoding, alone or beside others.

    TOKENIZER is a folder or a file: tokenizer.json, a tiktoken file, vocab.json with merges.txt.
    """
    from tokenmill.report.peers import require_peers
    from tokenmill.report.sizes import parse_size
    from tokenmill.report.throughput import throughput_on
    from tokenmill.sources.options import ReadOptions
    from tokenmill.tokenizer.tokenizer import Tokenizer

    set_up_logging(verbose)
    if not text:
        raise typer.BadParameter("at least one `--text INPUT` is needed")
    if validate and not compare:
        raise ConfigError(
            "`--validate` compares ids with other libraries, but `--compare` is missing"
        )
    settings = ThroughputSettings(batch_size, batches, rounds, seed, threads)
    peers = require_peers(name.strip() for name in compare.split(",")) if compare else []
    num_bytes = None if extrapolate is None else parse_size(extrapolate)
    options = ReadOptions.from_keywords(
        flags.read_keywords(
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
    )
    measured = throughput_on(
        text,
        Tokenizer.load(tokenizer, pattern=pattern),
        settings,
        options=options,
        peers=peers,
        validate=validate,
        progress=not quiet,
    )
    if json:
        print_json({"tokenizer": tokenizer, **measured.as_json(num_bytes)})
    elif not quiet:
        show_throughput(measured, num_bytes)
    if not measured.all_the_same:
        raise typer.Exit(1)


def show_throughput(measured: "ThroughputReport", extrapolate_bytes: int | None = None) -> None:
    from tokenmill.report.render.terminal import throughput_lines

    for line in throughput_lines(measured, extrapolate_bytes):
        print(line)


def require_text_twice(run: "TrainingRun") -> None:
    """ConfigError unless what `run` trains on can be read again for `--time-encode-decode`."""
    from tokenmill.sources.inputs import find_inputs
    from tokenmill.sources.stored_files import is_stored

    if run.inputs is None:
        raise ConfigError("`--time-encode-decode` needs text, but the training starts from counts")
    for source in find_inputs(run.inputs, run.options):
        if not is_stored(source):
            raise ConfigError(
                f"`--time-encode-decode` reads the text again, but `{source.name}` can be read once"
            )


def time_training(tokenizer: "Tokenizer", run: "TrainingRun") -> "ThroughputReport":
    """What `tokenmill report throughput` would measure on the text just trained on."""
    from tokenmill.report.throughput import throughput_on

    assert run.inputs is not None, "require_text_twice was asked before"
    settings = ThroughputSettings(threads=run.threads)
    return throughput_on(
        run.inputs, tokenizer, settings, options=run.options, progress=run.progress
    )


def load_tokenizers(paths: list[tuple[str, str]], pattern: str | None) -> "dict[str, Tokenizer]":
    """Name → tokenizer. `pattern` goes to the files that have none; ConfigError if all have one."""
    from tokenmill.tokenizer.formats.detect import detect
    from tokenmill.tokenizer.tokenizer import Tokenizer

    loaded: dict[str, Tokenizer] = {}
    used = False
    for name, path in paths:
        lacks = pattern is not None and detect(local_path(path)).kind != "huggingface"
        loaded[name] = Tokenizer.load(path, pattern=pattern if lacks else None)
        used |= lacks
    if pattern is not None and not used:
        raise ConfigError("every tokenizer says its own pattern, so `--pattern` has no use")
    return loaded


@report.command(cls=own.TextsCommand)
@answering_errors
def compression(
    tokenizers: own.TokenizerPaths,
    text: own.NamedTexts = None,
    pattern: own.TokenizerPattern = None,
    sample: own.SampleSize = "all",
    seed: own.Seed = CompressionSettings.seed,
    label_field: own.LabelField = None,
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
    json: flags.Json = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = 0,
) -> None:
    """Compare how many tokens tokenizers need for the same texts.

    TOKENIZER are folders or files, each also as NAME=PATH. All see the same documents.
    """
    from tokenmill.report.compression import measure_compression
    from tokenmill.report.render.terminal import compression_lines
    from tokenmill.sources.options import ReadOptions

    set_up_logging(verbose)
    if not text:
        raise typer.BadParameter("at least one `--text INPUT` is needed")
    settings = CompressionSettings(own.sample_size(sample), seed, label_field, threads)
    texts = own.named_texts(text)
    options = ReadOptions.from_keywords(
        flags.read_keywords(
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
    )
    loaded = load_tokenizers(own.named_tokenizers(tokenizers), pattern)
    measured = measure_compression(loaded, texts, settings, options=options, progress=not quiet)
    if json:
        print_json(measured.as_json())
    elif not quiet:
        for line in compression_lines(measured):
            print(line)
