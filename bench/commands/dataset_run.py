"""Everything `bench dataset` measures, in order: texts made, vocabs trained, one record after another."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.commands.dataset import Case, parquet_record, text_record
from bench.commands.dataset_chats import chat_case, sft_record
from bench.commands.dataset_stages import memory_record, open_record
from bench.commands.setting import Setting
from bench.conversations import write_conversations
from bench.corpora import Corpus
from bench.repeated import repeat_corpus
from bench.tables import Record
from bench.vocabularies import Vocabulary, train_vocabulary


@dataclass(frozen=True)
class DatasetRun:
    """What to measure; everything is written below `folder`."""

    corpora: Sequence[Corpus]
    chosen: Sequence[str]
    folder: Path
    seed: int
    text_bytes: int
    content_bytes: int
    gigabytes: Sequence[float]
    token_bytes: int
    documents: int


def dataset_run(run: DatasetRun, setting: Setting) -> Iterator[Record]:
    """Text, Parquet and conversations of every corpus; memory and opening with the first."""
    cases = setting.cases
    firsts: list[Case] = []
    for corpus in run.corpora:
        case = Case(corpus, _trained(corpus, run, setting), run.folder)
        firsts.append(case)
        yield from _speed_records(case, run, setting)
        if cases.dataset_sft.name in run.chosen:
            yield sft_record(_chats(case, run, setting), setting)
    if cases.dataset_memory.name in run.chosen:
        yield memory_record(firsts[0], run.gigabytes, setting)
    if cases.dataset_open.name in run.chosen:
        yield open_record(firsts[0], run.token_bytes, run.documents, setting)


def _speed_records(case: Case, run: DatasetRun, setting: Setting) -> Iterator[Record]:
    cases, corpus = setting.cases, case.text
    wanted = {cases.dataset_text.name, cases.dataset_parquet.name} & set(run.chosen)
    if not wanted:
        return
    setting.plan.say(f"repeating {corpus.name} to {run.text_bytes / 1e6:,.0f} MB")
    path = run.folder / f"{corpus.name}-repeated.txt"
    text = repeat_corpus(
        corpus, path, separator=cases.separator, num_bytes=run.text_bytes, seed=run.seed
    )
    longer = Case(text, case.vocabulary, case.folder)
    if cases.dataset_text.name in wanted:
        yield text_record(longer, setting)
    if cases.dataset_parquet.name in wanted:
        yield parquet_record(longer, setting)
    path.unlink()


def _chats(case: Case, run: DatasetRun, setting: Setting) -> Case:
    conversations = write_conversations(
        case.text,
        run.folder / f"{case.text.name}-chats.jsonl",
        separator=setting.cases.separator,
        num_bytes=run.content_bytes,
        seed=run.seed,
    )
    return chat_case(case, conversations)


def _trained(corpus: Corpus, run: DatasetRun, setting: Setting) -> Vocabulary:
    """On the whole corpus, as people do who encode what they trained on."""
    about = setting.cases.dataset
    setting.plan.say(f"training {setting.vocab_size:,} tokens on {corpus.name}")
    return train_vocabulary(
        corpus,
        run.folder / f"{corpus.name}-vocab",
        vocab_size=setting.vocab_size,
        pattern=about.pattern,
        special_tokens=about.special_tokens,
    )
