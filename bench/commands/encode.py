"""`bench encode`: encoding and decoding beside the peers, on documents that nobody has seen.

Each corpus is cut by a seed (bench/split.py). The vocab is trained on one part; a fresh process measures another,
cold, and a further one once its caches are warm, steady. No process encodes a text twice.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.commands.setting import Setting
from bench.commands.side_by_side import Contest, contest_record, our_entrants, peer_entrants
from bench.corpora import Corpus
from bench.documents import stream_documents
from bench.encoders import compat_tiktoken, compat_tokenizers, tokenmill
from bench.encoders.encoder import texts_answer, write_ids
from bench.job import BenchError, Job
from bench.rounds import Entrant
from bench.split import Parts
from bench.stages import decode_ids, encode_calls, encode_texts
from bench.tables import Record
from bench.vocabularies import Vocabulary

SHAPES = ("batch", "text")
OUR_FORMS = ("", "lists")
"""Arrays, which goals are about, and Python's lists, which is what most peers give and take."""


@dataclass(frozen=True)
class Case:
    """One corpus, cut, and one vocab to encode it with. `folder` is for what else the jobs read."""

    parts: Parts
    vocabulary: Vocabulary
    folder: Path

    @property
    def name(self) -> str:
        return f"{self.parts.cold.name}-{self.vocabulary.name}"


def encode_records(case: Case, setting: Setting) -> Iterator[Record]:
    for shape in SHAPES:
        for state in ("cold", "steady"):
            part = case.parts.cold if state == "cold" else case.parts.steady
            warm = "" if state == "cold" else str(case.parts.cold.path)
            job = replace(
                _job(case, encode_texts.PROGRAM, part, setting), warm_path=warm, shape=shape
            )
            yield _record(case, "encode", f"encode-{shape}-{state}", part, job, setting)


def decode_records(case: Case, setting: Setting) -> Iterator[Record]:
    """The ids of the cold part, as tokenmill encodes them; the answer is the text itself."""
    for shape in SHAPES:
        part = case.parts.cold
        documents = list(stream_documents(part.path, setting.cases.separator))
        texts = [encode_texts.BETWEEN.join(documents)] if shape == "text" else documents
        folder = case.folder / f"{case.name}-{shape}"
        _write_encoded(case.vocabulary, texts, folder)
        job = replace(_job(case, decode_ids.PROGRAM, part, setting), path=str(folder), shape=shape)
        right = texts_answer(texts)
        yield _record(case, "decode", f"decode-{shape}", part, job, setting, right_answer=right)


def _write_encoded(vocabulary: Vocabulary, texts: Sequence[str], folder: Path) -> None:
    batch = vocabulary.tokenizer.encode_batch(texts, disallowed_special=())
    ids = array("I", batch.ids.astype("uint32").tobytes())
    write_ids(folder, ids, array("q", batch.offsets.astype("int64").tobytes()))


def call_record(case: Case, setting: Setting) -> Record:
    """One call, one short text, both as people write it: every text is new."""
    about = setting.cases.call
    job, calls = _call_job(case, setting)
    entrants, absent = peer_entrants(job, setting, setting.cases.encode.peers)
    contest = Contest(
        kind="call",
        case=about.name,
        corpus=calls,
        vocabulary=case.vocabulary,
        entrants=(*our_entrants(job), *entrants),
        absent=tuple(absent),
        goals=about.faster_than,
    )
    return contest_record(contest, setting, calls=_num_texts(calls, setting))


def compat_records(case: Case, setting: Setting) -> Iterator[Record]:
    """The same code with the original and with the layer that takes its place."""
    encode = replace(
        _job(case, encode_texts.PROGRAM, case.parts.steady, setting),
        warm_path=str(case.parts.cold.path),
    )
    call, calls = _call_job(case, setting)
    decode_folder = case.folder / f"{case.name}-compat"
    cold = case.parts.cold
    documents = list(stream_documents(cold.path, setting.cases.separator))
    _write_encoded(case.vocabulary, documents, decode_folder)
    decode = replace(_job(case, decode_ids.PROGRAM, cold, setting), path=str(decode_folder))
    steady = case.parts.steady
    works = [
        ("encode", encode, steady, ""),
        ("call", call, calls, ""),
        ("decode", decode, cold, ""),
    ]
    yield from _compat(case, "tiktoken", compat_tiktoken.PROGRAM, works, setting)
    works[0] = ("encode", encode, steady, "encode_batch")
    works.insert(1, ("offsets", encode, steady, "offsets"))
    yield from _compat(case, "tokenizers", compat_tokenizers.PROGRAM, works, setting)


def _compat(
    case: Case,
    name: str,
    layer: str,
    works: Sequence[tuple[str, Job, Corpus, str]],
    setting: Setting,
) -> Iterator[Record]:
    about = setting.cases.compat
    for work, job, corpus, form in works:
        job = replace(job, form=form)
        ours = Entrant(f"{tokenmill.NAME}.compat", replace(job, encoder=layer))
        entrants, absent = peer_entrants(job, setting, [name])
        contest = Contest(
            kind=about.name,
            case=f"{about.name}-{name}-{work}",
            corpus=corpus,
            vocabulary=case.vocabulary,
            entrants=(ours, *entrants),
            absent=tuple(absent),
            goals={name: about.faster_than[name]},
        )
        calls = _num_texts(corpus, setting) if work == "call" else None
        yield contest_record(contest, setting, calls=calls)


def _record(
    case: Case, kind: str, name: str, part: Corpus, job: Job, setting: Setting, **more: object
) -> Record:
    about = setting.cases.encode
    entrants, absent = peer_entrants(job, setting, about.peers)
    contest = Contest(
        kind=kind,
        case=name,
        corpus=part,
        vocabulary=case.vocabulary,
        entrants=(*our_entrants(job, OUR_FORMS), *entrants),
        absent=tuple(absent),
        goals=about.faster_than,
        **more,  # pyright: ignore[reportArgumentType]
    )
    return contest_record(contest, setting, documents=_num_texts(part, setting))


def _job(case: Case, program: str, part: Corpus, setting: Setting) -> Job:
    return Job(
        program=program,
        path=str(part.path),
        threads=setting.threads,
        vocab_size=case.vocabulary.size,
        pattern=case.vocabulary.pattern,
        separator=setting.cases.separator,
        tokenizer=str(case.vocabulary.folder),
    )


def _call_job(case: Case, setting: Setting) -> tuple[Job, Corpus]:
    """Short texts from the steady part, and as many from the cold part to call with before."""
    about = setting.cases.call
    calls = _cut_texts(case.parts.steady, case, about.calls, setting)
    before = _cut_texts(case.parts.cold, case, about.warmup, setting)
    job = _job(case, encode_calls.PROGRAM, calls, setting)
    return replace(job, warm_path=str(before.path)), calls


def _cut_texts(part: Corpus, case: Case, number: int, setting: Setting) -> Corpus:
    """Up to `number` texts of so many characters, one from each document in turn, none with a special token: the
    defaults of two libraries refuse those."""
    chars, separator = setting.cases.call.chars, setting.cases.separator
    special = tuple(case.vocabulary.tokenizer.special_tokens)
    documents = [
        document
        for document in stream_documents(part.path, separator)
        if not any(token in document for token in special)
    ]
    if not documents:
        raise BenchError(f"every document of `{part.name}` has a special token")
    texts: list[str] = []
    for start in range(0, max(map(len, documents)), chars):
        cut = (document[start : start + chars] for document in documents)
        texts += [text for text in cut if len(text) == chars]
        if len(texts) >= number:
            break
    if not texts:
        raise BenchError(f"`{part.name}` has no document of {chars} characters")
    texts = list(dict.fromkeys(texts))[:number]
    path = case.folder / f"{case.name}-{part.path.stem}-calls.txt"
    path.write_text(separator.join(texts), encoding="utf-8", newline="")
    return Corpus(part.name, path, sum(len(text.encode()) for text in texts))


def _num_texts(part: Corpus, setting: Setting) -> int:
    return sum(1 for _ in stream_documents(part.path, setting.cases.separator))
