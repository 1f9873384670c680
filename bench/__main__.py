"""The command line of the bench: parse, call, print. Tables on stdout, progress on stderr."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from bench.cases import TrainCase, load_cases
from bench.commands.dataset_run import DatasetRun, dataset_run
from bench.commands.encode_equality import check_encoders, vocabularies
from bench.commands.encode_run import Run, encode_run
from bench.commands.equality import EXACT_PEERS, check_equality
from bench.commands.lm_run import LmRun, lm_run
from bench.commands.setting import Setting, as_json, keep, named_patterns
from bench.commands.stages import count_record, merge_record, parquet_records
from bench.commands.threads import threads_record
from bench.commands.train import train_record
from bench.corpora import Corpus, open_corpora
from bench.encoders import ENCODERS
from bench.environments import DEFAULT_FOLDER
from bench.history import write_history
from bench.job import BenchError
from bench.machine import REPOSITORY, available_cores, this_commit, this_machine
from bench.peers import PEERS
from bench.readme_table import update_readme
from bench.results import RESULTS, load_results
from bench.rounds import Plan
from bench.stages import post_train_trl, transformers_chats
from bench.tables import Record, entrants_table, numbers_table, title
from bench.vocabularies import REAL, given_rank_files, installed_rank_files

CASES = load_cases()
CORES = available_cores()
LM_PEERS = (transformers_chats.LIBRARY.name, post_train_trl.LIBRARY.name)
DATASET_PEERS = ("tiktoken", transformers_chats.LIBRARY.name)
PATTERNS = {case.pattern: (case.pattern,) for case in CASES.train} | {
    "both": tuple(case.pattern for case in CASES.train)
}

Paths = Annotated[list[Path], typer.Argument(metavar="PATH…", help="`.txt` or `.txt.zst` files")]
VocabSize = Annotated[int, typer.Option(min=257, help="bytes included; no special tokens")]
WholeVocabSize = Annotated[
    int, typer.Option("--vocab-size", min=257, help="of what is trained here, all tokens included")
]
Pattern = Annotated[str, typer.Option(help=" | ".join(PATTERNS))]
Runs = Annotated[int, typer.Option(min=1, help="timed runs of each entrant")]
Warmup = Annotated[
    int, typer.Option(min=0, help="untimed runs before them; the first brings the answer")
]
Threads = Annotated[int, typer.Option(min=1, help="threads for every entrant")]
Results = Annotated[Path, typer.Option(help="folder of the JSON results and history.md")]
EnvDir = Annotated[Path, typer.Option(help="where peers are installed")]
Json = Annotated[bool, typer.Option("--json", help="records on stdout instead of tables")]
Vocabs = Annotated[
    list[str] | None,
    typer.Option("--vocab", metavar="NAME=FILE", help=f"a rank file; NAME of {', '.join(REAL)}"),
]

app = typer.Typer(
    help="Measure tokenmill beside its peers.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.command()
def train(
    paths: Paths,
    vocab_size: VocabSize = CASES.vocab_size,
    pattern: Pattern = "both",
    runs: Runs = 3,
    warmup: Warmup = 1,
    threads: Threads = CORES,
    peers: Annotated[str, typer.Option(help=f"of {', '.join(PEERS)}; `none` for none")] = "",
    cases: Annotated[str, typer.Option(help=f"of {', '.join(CASES.names)}; all by default")] = "",
    env_dir: EnvDir = DEFAULT_FOLDER,
    results: Results = RESULTS,
    json: Json = False,
) -> None:
    """Train beside the peers, time the stages, print every ratio and store the results."""
    chosen = _chosen(cases, CASES.names, "case") if cases else CASES.names
    setting = Setting(
        cases=CASES,
        plan=Plan(runs, warmup, CASES.timeout_seconds),
        vocab_size=vocab_size,
        threads=threads,
        env_dir=env_dir,
        peers=_chosen(peers, list(PEERS), "peer") if peers else None,
    )
    wanted = [case for case in CASES.train if case.pattern in _patterns(pattern)]
    with open_corpora(paths) as corpora:
        trained = _train_records(corpora, [case for case in wanted if case.name in chosen], setting)
        staged = _stage_records(corpora, chosen, setting)
        _report(chain(trained, staged), results, as_json_text=json)


def _train_records(
    corpora: Sequence[Corpus], cases: Sequence[TrainCase], setting: Setting
) -> Iterator[Record]:
    for corpus in corpora:
        for case in cases:
            yield train_record(case, corpus, setting)


def _stage_records(
    corpora: Sequence[Corpus], chosen: Sequence[str], setting: Setting
) -> Iterator[Record]:
    """Counting on every corpus; the two cases that ask about size or format, on the first."""
    if CASES.count.name in chosen:
        for corpus in corpora:
            yield count_record(corpus, setting)
    if CASES.merge.name in chosen:
        yield merge_record(corpora[0], setting)
    if CASES.parquet.name in chosen:
        yield from parquet_records(corpora[0], setting)


@app.command()
def equality(
    paths: Paths,
    vocab_size: VocabSize = CASES.vocab_size,
    pattern: Pattern = "gpt4",
    threads: Threads = CORES,
    peers: Annotated[str, typer.Option(help=f"of {', '.join(PEERS)}")] = ",".join(EXACT_PEERS),
    env_dir: EnvDir = DEFAULT_FOLDER,
) -> None:
    """Check that every merge equals the peers' on whole files; exit 1 naming the first that does not."""
    plan = Plan(runs=1, warmup=1, timeout_seconds=CASES.timeout_seconds)
    setting = Setting(CASES, plan, vocab_size, threads, env_dir)
    names = _chosen(peers, list(PEERS), "peer")
    failed = False
    with open_corpora(paths) as corpora:
        for corpus in corpora:
            for each in _patterns(pattern):
                for verdict in check_equality(corpus, each, setting, names):
                    print(verdict.line, flush=True)
                    failed = failed or not verdict.equal
    if failed:
        raise typer.Exit(1)


@app.command()
def threads(
    paths: Paths,
    thread_counts: Annotated[
        str, typer.Option("--threads", help="thread counts to compare")
    ] = "1,2,4,8",
    vocab_size: VocabSize = CASES.vocab_size,
    pattern: Pattern = "gpt4",
    runs: Runs = 3,
    warmup: Warmup = 1,
    results: Results = RESULTS,
    json: Json = False,
) -> None:
    """Train with several thread counts; print the serial share by Amdahl's law and store the results."""
    counts = _whole_numbers(thread_counts)
    plan = Plan(runs, warmup, CASES.timeout_seconds)
    setting = Setting(CASES, plan, vocab_size, max(counts), DEFAULT_FOLDER)
    with open_corpora(paths) as corpora:
        records = (
            threads_record(corpus, each, counts, setting)
            for corpus in corpora
            for each in _patterns(pattern)
        )
        _report(records, results, as_json_text=json)


@app.command()
def encode(
    paths: Paths,
    vocab: Vocabs = None,
    vocab_size: WholeVocabSize = CASES.encode.vocab_size,
    runs: Runs = 3,
    warmup: Warmup = 1,
    peers: Annotated[str, typer.Option(help=f"of {', '.join(ENCODERS)}; `none` for none")] = "",
    cases: Annotated[
        str, typer.Option(help=f"of {', '.join(CASES.encode_names)}; all by default")
    ] = "",
    measured_bytes: Annotated[
        int, typer.Option(min=1, help="of each corpus, never more than a quarter; half cold")
    ] = CASES.encode.measured_bytes,
    seed: Annotated[int, typer.Option(help="which documents are measured")] = CASES.encode.seed,
    quick: Annotated[
        bool, typer.Option("--quick", help="little text, one run, nothing stored")
    ] = False,
    env_dir: EnvDir = DEFAULT_FOLDER,
    results: Results = RESULTS,
    json: Json = False,
) -> None:
    """Encode and decode beside the peers on documents nobody trained on; print and store every ratio."""
    plan = Plan(CASES.quick.runs if quick else runs, warmup, CASES.timeout_seconds)
    setting = Setting(
        cases=CASES,
        plan=plan,
        vocab_size=vocab_size,
        threads=CASES.encode.threads,
        env_dir=env_dir,
        peers=_chosen(peers, list(ENCODERS), "peer") if peers else None,
    )
    names = CASES.encode_names
    chosen = _chosen(cases, names, "case") if cases else names
    rank_files = given_rank_files(vocab or [])
    with open_corpora(paths) as corpora, TemporaryDirectory(prefix="tokenmill-bench-") as folder:
        run = Run(
            corpora=corpora,
            rank_files=rank_files,
            chosen=chosen,
            measured_bytes=min(measured_bytes, CASES.quick.measured_bytes)
            if quick
            else measured_bytes,
            seed=seed,
            folder=Path(folder),
            training_bytes=CASES.quick.training_bytes if quick else None,
        )
        _report(encode_run(run, setting), None if quick else results, as_json_text=json)


@app.command()
def encode_equality(
    paths: Paths,
    vocab: Vocabs = None,
    vocab_size: WholeVocabSize = CASES.encode.vocab_size,
    pattern: Annotated[
        str, typer.Option(help="of the vocabs trained here: names, `all` or `none`")
    ] = "all",
    threads: Threads = CORES,
    wheels: Annotated[
        bool, typer.Option(help="look for real vocabs in installed wheels that carry them")
    ] = True,
    quick: Annotated[
        bool, typer.Option("--quick", help="only the first megabytes of each corpus")
    ] = False,
) -> None:
    """Check that every id equals the peers' on whole files; exit 1 naming the first that does not."""
    plan = Plan(runs=1, warmup=1, timeout_seconds=CASES.timeout_seconds)
    setting = Setting(CASES, plan, vocab_size, threads, DEFAULT_FOLDER)
    known = list(named_patterns())
    patterns = known if pattern == "all" else _chosen(pattern, known, "pattern")
    files = (installed_rank_files() if wheels else {}) | given_rank_files(vocab or [])
    max_bytes = CASES.quick.measured_bytes if quick else None
    with open_corpora(paths) as corpora, TemporaryDirectory(prefix="tokenmill-bench-") as folder:
        for corpus in corpora:
            for each in vocabularies(corpus, patterns, files, Path(folder), setting):
                for agreement in check_encoders(corpus, each, setting, max_bytes=max_bytes):
                    print(agreement.line, flush=True)
                    if agreement.difference is not None:
                        raise typer.Exit(1)


@app.command()
def dataset(
    paths: Paths,
    vocab_size: WholeVocabSize = CASES.dataset.vocab_size,
    runs: Runs = 3,
    warmup: Warmup = 1,
    threads: Threads = CASES.dataset.threads,
    peers: Annotated[
        str, typer.Option(help=f"of {', '.join(DATASET_PEERS)}; `none` for none")
    ] = "",
    cases: Annotated[
        str, typer.Option(help=f"of {', '.join(CASES.dataset_names)}; all by default")
    ] = "",
    text_bytes: Annotated[
        int, typer.Option(min=1, help="each corpus is repeated to this size")
    ] = CASES.dataset.text_bytes,
    content_bytes: Annotated[
        int, typer.Option(min=1, help="of the conversations made from each corpus")
    ] = CASES.dataset_sft.content_bytes,
    stream_gb: Annotated[
        str, typer.Option(help="lengths of the streams for `memory`; one alone is held against 1")
    ] = ",".join(f"{length:g}" for length in CASES.dataset_memory.gigabytes),
    documents: Annotated[
        int, typer.Option(min=1, help="how many are read for `open`")
    ] = CASES.dataset_open.documents,
    seed: Annotated[int, typer.Option(help="order of documents, turns")] = CASES.dataset.seed,
    quick: Annotated[
        bool, typer.Option("--quick", help="little text, one run, nothing stored")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(help="where texts and datasets are written: a disk, or fsync costs nothing"),
    ] = None,
    env_dir: EnvDir = DEFAULT_FOLDER,
    results: Results = RESULTS,
    json: Json = False,
) -> None:
    """Encode to datasets on disk beside the peers; memory, opening; print and store every ratio."""
    little = CASES.dataset_quick
    setting = Setting(
        cases=CASES,
        plan=Plan(little.runs if quick else runs, warmup, CASES.timeout_seconds),
        vocab_size=vocab_size,
        threads=threads,
        env_dir=env_dir,
        peers=_chosen(peers, DATASET_PEERS, "peer") if peers else None,
    )
    chosen = _chosen(cases, CASES.dataset_names, "case") if cases else CASES.dataset_names
    gigabytes = _stream_lengths(stream_gb)
    with (
        open_corpora(paths) as corpora,
        TemporaryDirectory(prefix="tokenmill-bench-", dir=folder) as inside,
    ):
        run = DatasetRun(
            corpora=corpora,
            chosen=chosen,
            folder=Path(inside),
            seed=seed,
            text_bytes=little.text_bytes if quick else text_bytes,
            content_bytes=little.content_bytes if quick else content_bytes,
            gigabytes=little.gigabytes if quick else gigabytes,
            token_bytes=little.token_bytes if quick else CASES.dataset_open.token_bytes,
            documents=documents,
        )
        _report(dataset_run(run, setting), None if quick else results, as_json_text=json)


@app.command()
def lm(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="a `.txt` or `.txt.zst` file")],
    runs: Runs = 3,
    warmup: Warmup = 1,
    threads: Threads = CASES.lm.threads,
    peers: Annotated[str, typer.Option(help=f"of {', '.join(LM_PEERS)}; `none` for none")] = "",
    cases: Annotated[
        str, typer.Option(help=f"of {', '.join(CASES.lm_names)}; all by default")
    ] = "",
    presets: Annotated[str, typer.Option(help="what `step` and `generate` run")] = ",".join(
        CASES.lm_step.steps
    ),
    quick: Annotated[
        bool, typer.Option("--quick", help="few steps and tokens, one run, nothing stored")
    ] = False,
    folder: Annotated[
        Path | None, typer.Option(help="where ids and checkpoints are written: a disk")
    ] = None,
    env_dir: EnvDir = DEFAULT_FOLDER,
    results: Results = RESULTS,
    json: Json = False,
) -> None:
    """Train and generate beside transformers, fine-tune beside TRL; checkpoints; models of some minutes beside what is known; print and store."""
    setting = Setting(
        cases=CASES,
        plan=Plan(CASES.lm_quick.runs if quick else runs, warmup, CASES.timeout_seconds),
        vocab_size=0,
        threads=threads,
        env_dir=env_dir,
        peers=_chosen(peers, LM_PEERS, "peer") if peers else None,
    )
    chosen = _chosen(cases, CASES.lm_names, "case") if cases else tuple(CASES.lm_names)
    shapes = _chosen(presets, list(CASES.lm_step.steps), "preset")
    with (
        open_corpora([path]) as corpora,
        TemporaryDirectory(prefix="tokenmill-bench-", dir=folder) as inside,
    ):
        run = LmRun(corpora[0], chosen, shapes, Path(inside), CASES.lm_quick if quick else None)
        _report(lm_run(run, setting), None if quick else results, as_json_text=json)


@app.command()
def table(
    readme: Annotated[Path, typer.Option(help="file with the two marker comments")] = REPOSITORY
    / "README.md",
    check: Annotated[
        bool, typer.Option("--check", help="write nothing, exit 1 if it is out of date")
    ] = False,
    results: Results = RESULTS,
) -> None:
    """Put the newest result's table into the README and bring history.md up to date."""
    current = update_readme(readme, load_results(results), check=check)
    if check:
        print(
            f"{readme.name} holds the newest table" if current else f"{readme.name} is out of date"
        )
        raise typer.Exit(0 if current else 1)
    history = write_history(results)
    print(f"{readme.name} {'was up to date' if current else 'updated'}, wrote {history.name}")


def _report(records: Iterable[Record], folder: Path | None, *, as_json_text: bool) -> None:
    """Store and print each record as soon as it is measured: an interrupted run keeps what it has.

    Without a folder nothing is stored."""
    machine, commit = this_machine(), this_commit()
    done: list[Record] = []
    for record in records:
        done.append(record)
        if folder is not None:
            path = keep(record, machine, commit, folder)
            print(f"stored {record['case']} in {os.path.relpath(path)}", file=sys.stderr)
        if not as_json_text:
            print(f"\n{title(record)}\n\n{entrants_table(record)}\n", flush=True)
    print(as_json(done) if as_json_text else numbers_table(done))


def _patterns(name: str) -> tuple[str, ...]:
    if name not in PATTERNS:
        raise typer.BadParameter(
            f"`{name}` is none of {', '.join(PATTERNS)}", param_hint="--pattern"
        )
    return PATTERNS[name]


def _chosen(names: str, known: Sequence[str], kind: str) -> tuple[str, ...]:
    if names == "none":
        return ()
    chosen = tuple(name.strip() for name in names.split(","))
    for name in chosen:
        if name not in known:
            raise typer.BadParameter(f"unknown {kind} `{name}`; there are {', '.join(known)}")
    return chosen


def _whole_numbers(text: str) -> tuple[int, ...]:
    try:
        numbers = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        numbers = ()
    if not numbers or numbers[0] < 1:
        raise typer.BadParameter(
            f"`{text}` is not a list of whole numbers from 1", param_hint="--threads"
        )
    return numbers


def _stream_lengths(text: str) -> tuple[float, ...]:
    """In GB, the shortest first."""
    try:
        lengths = sorted({float(part) for part in text.split(",")})
    except ValueError:
        lengths = []
    if not lengths or not all(0 < length < 1e6 for length in lengths):
        raise typer.BadParameter(f"`{text}` is not a list of sizes in GB", param_hint="--stream-gb")
    return tuple(lengths) if len(lengths) > 1 else tuple(sorted({1.0, *lengths}))


def main() -> None:
    try:
        app()
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
