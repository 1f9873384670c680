"""The cases of `bench encode` that time a part: loading a vocab, and runs that encoders dislike."""

from dataclasses import replace
from pathlib import Path

from bench.commands.setting import (
    Setting,
    entrant_record,
    make_record,
    number,
)
from bench.commands.side_by_side import Contest, contest_record, peer_entrants
from bench.corpora import Corpus
from bench.encoders import tokenmill
from bench.families import FAMILIES
from bench.job import BenchError, Job
from bench.rounds import Entrant, run_answers, run_rounds
from bench.stages import encode_texts, load_vocab
from bench.tables import Record, in_megabytes, median
from bench.vocabularies import Vocabulary

FIRST_TEXT = "A vocab is loaded when the first text has become ids: größer, 漢字, 12345.\n"

BEFORE_BYTES = 10_000
"""Of the same kind, encoded off the clock: what is set up once would make the smaller run look slow."""


def load_record(vocabulary: Vocabulary, corpus: Corpus, folder: Path, setting: Setting) -> Record:
    """Each in a fresh process: file → ids of a first text. Imports lie outside, but in one row inside."""
    about = setting.cases.load
    text = folder / "first.txt"
    text.write_text(FIRST_TEXT, encoding="utf-8")
    job = Job(
        program=load_vocab.PROGRAM,
        path=str(text),
        threads=1,
        vocab_size=vocabulary.size,
        encoder=tokenmill.PROGRAM,
        tokenizer=str(vocabulary.folder),
    )
    files = ("tokenizer.json", "ranks.tiktoken")
    ours = [
        Entrant(tokenmill.NAME, replace(job, form="folder")),
        *(
            Entrant(
                tokenmill.NAME, replace(job, form=file, tokenizer=str(vocabulary.folder / file))
            )
            for file in files
        ),
        Entrant(tokenmill.NAME, replace(job, form=load_vocab.WITH_IMPORT)),
    ]
    entrants, absent = peer_entrants(job, setting, setting.cases.encode.peers)
    contest = Contest(
        kind="load",
        case=about.name,
        corpus=corpus,
        vocabulary=vocabulary,
        entrants=(*ours, *entrants),
        absent=tuple(absent),
        goals={},
    )
    record = contest_record(contest, setting)
    timed = record["entrants"][: len(ours) - 1]
    slowest = max(timed, key=lambda entrant: median(entrant) or 0.0)
    seconds = median(slowest) or 0.0
    what = f"{vocabulary.name}: {vocabulary.size:,} tokens to the first ids, slowest: {slowest['form']}"
    goal = f"≤ {about.max_seconds * 1e3:.0f} ms"
    reached = seconds <= about.max_seconds
    return record | {"numbers": [number(what, goal, f"{seconds * 1e3:.0f} ms", reached)]}


def pathological_record(vocabulary: Vocabulary, folder: Path, setting: Setting) -> Record:
    """Every family at two sizes: how much longer the larger takes, and its megabytes a second."""
    about = setting.cases.pathological
    setting.plan.say(f"{about.name}, {vocabulary.name}")
    entrants: list[Entrant] = []
    sizes: list[int] = []
    for family, make in FAMILIES.items():
        before = _write_run(folder, family, make(BEFORE_BYTES))
        for size in about.sizes:
            path = _write_run(folder, family, make(size))
            job = Job(
                program=encode_texts.PROGRAM,
                path=str(path),
                threads=setting.threads,
                vocab_size=vocabulary.size,
                pattern=vocabulary.pattern,
                encoder=tokenmill.PROGRAM,
                tokenizer=str(vocabulary.folder),
                shape="text",
                warm_path=str(before),
            )
            entrants.append(Entrant(f"{family}, {in_megabytes(size)}", job))
            sizes.append(path.stat().st_size)
    tracks = run_answers(entrants, setting.plan)
    run_rounds(tracks, setting.plan)
    for track in tracks:
        if track.failure is not None:
            raise BenchError(f"{track.entrant.name} {track.failure}")
    records = [
        entrant_record(track, "", f"{int(track.answer[1][0]):,}") | {"bytes": size}
        for track, size in zip(tracks, sizes, strict=True)
    ]
    corpus = Corpus("runs", folder, max(about.sizes))
    record = make_record("pathological", about.name, corpus, setting, records)
    record |= {"vocabulary": vocabulary.name, "vocab_size": vocabulary.size}
    record |= {"pattern": vocabulary.pattern, "threads": setting.threads}
    return record | {"numbers": _run_numbers(records, vocabulary, setting)}


def _write_run(folder: Path, family: str, text: str) -> Path:
    path = folder / f"{family} {len(text)}.txt"
    path.write_text(text, encoding="utf-8", newline="")
    return path


def _run_numbers(records: list[Record], vocabulary: Vocabulary, setting: Setting) -> list[Record]:
    about = setting.cases.pathological
    numbers: list[Record] = []
    per_family = len(about.sizes)
    for index, family in enumerate(FAMILIES):
        small, *_, large = records[index * per_family : (index + 1) * per_family]
        seconds = median(large) or 0.0
        ratio, rate = seconds / (median(small) or 1.0), large["bytes"] / 1e6 / seconds
        what = f"{family}, {vocabulary.name} {vocabulary.size:,}"
        larger, smaller = in_megabytes(about.sizes[-1]), in_megabytes(about.sizes[0])
        within, fast = ratio <= about.max_ratio, rate >= about.min_megabytes_per_second
        numbers += [
            number(
                f"{what}: time of {larger} vs {smaller}",
                f"≤ {about.max_ratio:g}×",
                f"{ratio:.1f}×",
                within,
            ),
            number(
                f"{what}: {larger}",
                f"≥ {about.min_megabytes_per_second:g} MB/s",
                f"{rate:.0f} MB/s",
                fast,
            ),
        ]
    return numbers
