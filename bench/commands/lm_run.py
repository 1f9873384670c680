"""Everything `bench lm` measures, in order: texts cut, vocabs trained, ids written, one record after another."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from bench.cases import LmPostTrainingCase, LmQuick
from bench.commands.lm import Ids, generate_record, step_record
from bench.commands.lm_post_training import Base, post_training_record
from bench.commands.lm_trained import Texts, checkpoint_record, english_record, small_world_record
from bench.commands.setting import Setting
from bench.corpora import Corpus
from bench.documents import stream_documents, write_documents
from bench.tables import Record
from bench.vocabularies import train_vocabulary


@dataclass(frozen=True)
class LmRun:
    """What to measure; everything is written below `folder`."""

    corpus: Corpus
    chosen: Sequence[str]
    presets: Sequence[str]
    folder: Path
    quick: LmQuick | None
    """Instead of the cases' own amounts."""


def lm_run(run: LmRun, setting: Setting) -> Iterator[Record]:
    cases, quick = setting.cases, run.quick
    for preset in run.presets:
        if cases.lm_step.name in run.chosen:
            steps = quick.steps if quick else cases.lm_step.steps[preset]
            ids = _ids(preset, run, setting)
            yield step_record(ids, steps, setting, with_compiled=quick is None)
        if cases.lm_generate.name in run.chosen:
            tokens = quick.tokens if quick else cases.lm_generate.tokens
            yield generate_record(preset, tokens, run.corpus, setting)
    if cases.lm_checkpoint.name in run.chosen:
        ids = _ids(cases.lm_checkpoint.preset, run, setting)
        yield checkpoint_record(ids.path, run.corpus, run.folder, setting)
    if cases.lm_small_world.name in run.chosen:
        about = cases.lm_small_world
        seconds = quick.seconds if quick else about.seconds
        yield small_world_record(_stories(run, setting), seconds, run.folder, setting)
    if cases.lm_english.name in run.chosen:
        seconds = quick.seconds if quick else cases.lm_english.seconds
        yield english_record(_english(run, setting), seconds, run.folder, setting)
    for about in (cases.lm_sft, cases.lm_dpo):
        if about.name in run.chosen:
            about = (
                replace(about, steps=quick.steps, documents=2 * about.batch_size * quick.steps)
                if quick
                else about
            )
            yield post_training_record(_base(about, run, setting), about, run.folder, setting)


def _base(about: LmPostTrainingCase, run: LmRun, setting: Setting) -> Base:
    """A model of the case's preset that knows nothing, with a tokenizer that has the tokens of a conversation, as transformers opens both."""
    from tokenmill.chat import prepare_tokenizer
    from tokenmill.lm.export import export_model
    from tokenmill.lm.model import Model
    from tokenmill.lm.model_config import preset
    from tokenmill.lm.open_model import LoadedModel

    folder = run.folder / f"base-{about.preset}"
    text = _beginning(run, setting.cases.lm.training_bytes, setting)
    vocabulary = train_vocabulary(
        text,
        run.folder / f"vocab-{about.preset}",
        vocab_size=preset(about.preset).vocab_size,
        pattern=setting.cases.lm.pattern,
        special_tokens=setting.cases.lm.special_tokens,
    )
    tokenizer = prepare_tokenizer(vocabulary.tokenizer, "chat")
    if not folder.exists():
        model = Model(preset(about.preset, vocab_size=tokenizer.vocab_size), seed=0)
        export_model(LoadedModel(model, tokenizer, 0, folder, tokenizer.sha256), folder)
    return Base(run.corpus, text.path, folder, tokenizer)


def _ids(preset: str, run: LmRun, setting: Setting) -> Ids:
    """The beginning of the corpus in a vocab of the preset's size, as one .npy."""
    import numpy as np

    from tokenmill.lm.model_config import preset as shape_of

    size = shape_of(preset).vocab_size
    path = run.folder / f"ids-{size}.npy"
    if not path.exists():
        about = setting.cases.lm
        text = _beginning(run, about.training_bytes, setting)
        vocabulary = train_vocabulary(
            text,
            run.folder / f"vocab-{size}",
            vocab_size=size,
            pattern=about.pattern,
            special_tokens=about.special_tokens,
        )
        if vocabulary.size != size:
            setting.plan.say(f"{run.corpus.name} gives {vocabulary.size:,} tokens, not {size:,}")
        ids = vocabulary.tokenizer.encode(
            text.path.read_text(encoding="utf-8"), allowed_special="all"
        )
        np.save(path, np.asarray(ids, dtype=np.uint16))
    return Ids(run.corpus, preset, path)


def _beginning(run: LmRun, num_bytes: int, setting: Setting) -> Corpus:
    path = run.folder / "beginning.txt"
    if not path.exists():
        separator, left = setting.cases.separator, num_bytes

        def documents() -> Iterator[str]:
            nonlocal left
            for document in stream_documents(run.corpus.path, separator):
                if left <= 0:
                    return
                left -= len(document.encode())
                yield document

        write_documents(path, documents(), separator)
    return Corpus(run.corpus.name, path, path.stat().st_size)


def _stories(run: LmRun, setting: Setting) -> Texts:
    """Stories of the small world; the held-out ones have numbers that training never reaches."""
    from tokenmill.lm.model_config import preset
    from tokenmill.lm.small_world import stories

    about, separator = setting.cases.lm_small_world, setting.cases.separator
    training, held_out = run.folder / "stories.txt", run.folder / "held-out-stories.txt"
    write_documents(training, stories(1, about.stories), separator)
    write_documents(held_out, stories(1, about.held_out, start=about.stories), separator)
    return _encoded("stories", training, held_out, preset(about.preset).vocab_size, run, setting)


def _english(run: LmRun, setting: Setting) -> Texts:
    """The corpus without some of its documents, taken from all over it."""
    from tokenmill.lm.model_config import preset

    about, separator = setting.cases.lm_english, setting.cases.separator
    total = sum(1 for _ in stream_documents(run.corpus.path, separator))
    every = max(2, total // about.held_out)
    training, held_out = run.folder / "training.txt", run.folder / "held-out.txt"

    def documents(*, held: bool) -> Iterator[str]:
        for number, document in enumerate(stream_documents(run.corpus.path, separator)):
            if (number % every == every - 1) == held:
                yield document

    write_documents(training, documents(held=False), separator)
    write_documents(held_out, islice(documents(held=True), about.held_out), separator)
    size = preset(about.preset).vocab_size
    return _encoded(run.corpus.name, training, held_out, size, run, setting)


def _encoded(
    name: str, training: Path, held_out: Path, vocab_size: int, run: LmRun, setting: Setting
) -> Texts:
    import tokenmill as tm

    about = setting.cases.lm
    corpus = Corpus(name, training, training.stat().st_size)
    folder = run.folder / f"{name}-vocab"
    vocabulary = train_vocabulary(
        corpus,
        folder,
        vocab_size=vocab_size,
        pattern=about.pattern,
        special_tokens=about.special_tokens,
    )
    ids, held_out_ids = run.folder / f"{name}-ids", run.folder / f"{name}-held-out-ids"
    for text, out in ((training, ids), (held_out, held_out_ids)):
        tm.encode_dataset(text, vocabulary.tokenizer, out, progress=False)
    return Texts(corpus, training, held_out, ids, held_out_ids, folder)
