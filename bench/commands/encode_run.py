"""Everything `bench encode` measures, in order: corpora cut, vocabs made, one record after another."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.commands.encode import Case, call_record, compat_records, decode_records, encode_records
from bench.commands.encode_stages import load_record, pathological_record
from bench.commands.setting import Setting
from bench.corpora import Corpus
from bench.split import Parts, split_corpus
from bench.tables import Record
from bench.vocabularies import Vocabulary, read_vocabulary, train_vocabulary


@dataclass(frozen=True)
class Run:
    """What to measure. `rank_files` are real vocabularies by name, beside those trained here."""

    corpora: Sequence[Corpus]
    rank_files: Mapping[str, Path]
    chosen: Sequence[str]
    measured_bytes: int
    seed: int
    folder: Path
    training_bytes: int | None = None


def encode_run(run: Run, setting: Setting) -> Iterator[Record]:
    """Encode, decode, call and compat on every corpus with every vocab; load and runs with every vocab."""
    real = [read_vocabulary(name, file, run.folder / name) for name, file in run.rank_files.items()]
    trained: list[Vocabulary] = []
    training: list[Corpus] = []
    for corpus in run.corpora:
        parts = _parts(corpus, run, setting)
        training.append(parts.training)
        trained.append(_trained(parts.training, setting.vocab_size, run, setting))
        for vocabulary in (trained[-1], *real):
            yield from _case_records(Case(parts, vocabulary, run.folder), run, setting)
    if setting.cases.load.name in run.chosen:
        large = _trained(training[0], setting.cases.load.vocab_size, run, setting)
        for vocabulary in (large, *real):
            yield load_record(vocabulary, training[0], run.folder, setting)
    if setting.cases.pathological.name in run.chosen:
        for vocabulary in (trained[0], *real):
            yield pathological_record(vocabulary, run.folder, setting)


def _case_records(case: Case, run: Run, setting: Setting) -> Iterator[Record]:
    if "encode" in run.chosen:
        yield from encode_records(case, setting)
    if "decode" in run.chosen:
        yield from decode_records(case, setting)
    if setting.cases.call.name in run.chosen:
        yield call_record(case, setting)
    if setting.cases.compat.name in run.chosen:
        yield from compat_records(case, setting)


def _parts(corpus: Corpus, run: Run, setting: Setting) -> Parts:
    folder = run.folder / corpus.name
    folder.mkdir()
    setting.plan.say(f"cutting {corpus.name}")
    return split_corpus(
        corpus,
        folder,
        separator=setting.cases.separator,
        measured_bytes=run.measured_bytes,
        seed=run.seed,
        training_bytes=run.training_bytes,
    )


def _trained(text: Corpus, vocab_size: int, run: Run, setting: Setting) -> Vocabulary:
    about = setting.cases.encode
    setting.plan.say(f"training {vocab_size:,} tokens on the training part of {text.name}")
    return train_vocabulary(
        text,
        run.folder / f"{text.name}-{vocab_size}",
        vocab_size=vocab_size,
        pattern=about.pattern,
        special_tokens=about.special_tokens,
    )
