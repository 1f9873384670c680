"""`bench dataset`, from text and from Parquet: a dataset on disk beside what it is made of and beside a peer.

Ids are compared before anything is timed. Ours includes all that `tokenmill encode` does; what it is held against is
encoding alone, with the documents in memory before and the ids in memory after.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.commands.setting import (
    Place,
    Setting,
    entrant_record,
    make_record,
    missing_record,
    number,
    package_version,
    place,
)
from bench.corpora import Corpus
from bench.documents import stream_documents
from bench.encoders import tiktoken
from bench.job import Answer, BenchError, Job
from bench.machine import file_system_of, installed_version
from bench.peers.peer import Library
from bench.rounds import Entrant, Track, run_answers, run_rounds
from bench.stages import encode_dataset, encode_memory, sum_lengths, tiktoken_memmap, write_alone
from bench.stages.parquet_shards import write_shards
from bench.tables import Record, fastest, in_megabytes, median
from bench.vocabularies import Vocabulary

KIND = "dataset"
OURS = "tokenmill"
IN_MEMORY = "tokenmill, in memory"
READ_ALONE = "pyarrow, lengths alone"
WRITE_ALONE = "write and fsync alone"


@dataclass(frozen=True)
class Case:
    """A text, a vocab to encode it with, and a folder to write to."""

    text: Corpus
    vocabulary: Vocabulary
    folder: Path

    def job(self, program: str, setting: Setting) -> Job:
        return Job(
            program=program,
            path=str(self.text.path),
            threads=setting.threads,
            vocab_size=self.vocabulary.size,
            pattern=self.vocabulary.pattern,
            separator=setting.cases.separator,
            tokenizer=str(self.vocabulary.folder),
            out=str(self.folder),
        )


def text_record(case: Case, setting: Setting) -> Record:
    """A text file to a dataset, beside encoding alone, tiktoken into a memmap, and writing alone."""
    about = setting.cases.dataset_text
    say_where(case, about.name, setting)
    ours = Entrant(OURS, case.job(encode_dataset.PROGRAM, setting))
    memory = Entrant(IN_MEMORY, case.job(encode_memory.PROGRAM, setting))
    peers, absent = peer_entrants(
        tiktoken.LIBRARY, case.job(tiktoken_memmap.PROGRAM, setting), [""], setting
    )
    tracks = run_answers([ours, memory, *peers], setting.plan)
    right = tracks[0].answer
    require_done(tracks[:2])
    require_text(case, right)
    for track in tracks[1:]:
        require_same(track, right[:2], track.answer)
    tracks.append(_write_track(case, right, setting))
    run_rounds(tracks, setting.plan)
    require_done(tracks[:2])
    versions = {tiktoken.LIBRARY.name: tiktoken.LIBRARY.version, WRITE_ALONE: ""}
    entrants = [_entrant(track, right, versions) for track in tracks]
    entrants[-1] |= {"answer": in_megabytes(tracks[-1].entrant.job.size), "equal": None}
    entrants[-1] |= {"bytes": tracks[-1].entrant.job.size}
    record = case_record(case, about.name, setting, entrants, absent)
    what = f"text to disk, {_what(case)}"
    shares = [share_number(f"{what}: of the speed in memory", record, IN_MEMORY, about.share)]
    return record | {"numbers": shares + faster_numbers(what, record, about.faster_than)}


def _write_track(case: Case, right: Answer, setting: Setting) -> Track:
    """As many bytes as the ids take."""
    width = 2 if case.vocabulary.size <= 1 << 16 else 4
    job = replace(case.job(write_alone.PROGRAM, setting), size=width * int(right[1][0]), threads=1)
    (track,) = run_answers([Entrant(WRITE_ALONE, job)], setting.plan)
    return track


def parquet_record(case: Case, setting: Setting) -> Record:
    """The same documents from Parquet shards, beside reading them alone and encoding alone."""
    about = setting.cases.dataset_parquet
    say_where(case, about.name, setting)
    shards = case.folder / f"{case.text.name}-shards"
    documents = stream_documents(case.text.path, setting.cases.separator)
    num_shards = write_shards(documents, shards, about)
    read = replace(case.job(sum_lengths.PROGRAM, setting), path=str(shards))
    entrants = [
        Entrant(OURS, replace(case.job(encode_dataset.PROGRAM, setting), path=str(shards))),
        Entrant(IN_MEMORY, case.job(encode_memory.PROGRAM, setting)),
        Entrant(READ_ALONE, read),
    ]
    tracks = run_answers(entrants, setting.plan)
    require_done(tracks)
    right = tracks[0].answer
    require_text(case, right)
    require_same(tracks[1], right[:2], tracks[1].answer)
    require_same(tracks[2], right[2:], tracks[2].answer)
    run_rounds(tracks, setting.plan)
    require_done(tracks)
    shutil.rmtree(shards)
    versions = {READ_ALONE: installed_version("pyarrow") or ""}
    records = [_entrant(track, right, versions) for track in tracks]
    records[-1] |= {"answer": f"same, {case.text.num_bytes:,} bytes"}
    record = case_record(case, about.name, setting, records, [], shards=num_shards)
    slower = max(records[1:], key=lambda entrant: median(entrant) or 0.0)["name"]
    what = f"Parquet to disk, {_what(case)}: of the slower, `{slower}`"
    return record | {"numbers": [share_number(what, record, slower, about.share)]}


def peer_entrants(
    library: Library, job: Job, forms: Sequence[str], setting: Setting
) -> tuple[list[Entrant], list[Place[Library]]]:
    """One for each form of the library, or why it cannot run; neither if nobody asked for it."""
    if setting.peers is not None and library.name not in setting.peers:
        return [], []
    found = place(library, setting)
    if found.python is None:
        return [], [found]
    return [Entrant(library.name, replace(job, form=form), found.python) for form in forms], []


def say_where(case: Case, name: str, setting: Setting) -> None:
    system = file_system_of(case.folder)
    setting.plan.say(
        f"{KIND}-{name}, {case.text.name}, {in_megabytes(case.text.num_bytes)}, written to {system}"
    )


def require_done(tracks: Sequence[Track]) -> None:
    for track in tracks:
        if track.failure is not None:
            raise BenchError(f"{track.entrant.name} {track.failure}")


def require_same(track: Track, right: Answer, answer: Answer) -> None:
    """A ratio between two different answers means nothing. What failed already is left alone."""
    if track.failure is None and answer != right:
        numbers = [row[0].decode() for rows in (answer, right) for row in rows if row[0].isdigit()]
        raise BenchError(
            f"{track.entrant.name} gave another answer than the dataset on disk: "
            f"{' instead of '.join(numbers) or 'other ids'}\n"
            "hint: `python -m bench encode-equality` names the document"
        )


def require_text(case: Case, answer: Answer) -> None:
    """The dataset must hold as many bytes of text as were written for it."""
    if int(answer[2][0]) != case.text.num_bytes:
        raise BenchError(
            f"the dataset holds {int(answer[2][0]):,} bytes of text, not {case.text.num_bytes:,}"
        )


def _entrant(track: Track, right: Answer, versions: Mapping[str, str]) -> Record:
    version = versions.get(track.entrant.name, package_version())
    same = track.failure is None
    text = f"same, {int(right[1][0]):,}" if same else ""
    return entrant_record(track, version, text, equal=same) | {"form": track.entrant.job.form}


def case_record(
    case: Case,
    name: str,
    setting: Setting,
    entrants: list[Record],
    absent: Sequence[Place[Library]],
    **more: Any,
) -> Record:
    missing = [missing_record(each, setting.threads) for each in absent]
    record = make_record(KIND, f"{KIND}-{name}", case.text, setting, [*entrants, *missing], **more)
    return record | {
        "vocabulary": case.vocabulary.name,
        "vocab_size": case.vocabulary.size,
        "pattern": case.vocabulary.pattern,
        "threads": setting.threads,
        "file_system": file_system_of(case.folder),
    }


def share_number(what: str, record: Record, name: str, wanted: float) -> Record:
    """How much of the speed of the entrant `name` the first one has."""
    ratio = _ratio(record, name)
    measured = "" if ratio is None else f"{ratio:.2f}×"
    return number(what, f"≥ {wanted:g}×", measured, ratio is not None and ratio >= wanted)


def faster_numbers(what: str, record: Record, goals: Mapping[str, float]) -> list[Record]:
    """How many times faster than each peer that ran, or could not."""
    there = {entrant["name"] for entrant in record["entrants"]}
    numbers: list[Record] = []
    for name, wanted in goals.items():
        ratio = _ratio(record, name)
        if name in there:
            measured = "" if ratio is None else f"{ratio:.1f}×"
            reached = None if ratio is None else ratio >= wanted
            numbers.append(
                number(f"{what}: faster than {name}", f"≥ {wanted:g}×", measured, reached)
            )
    return numbers


def _ratio(record: Record, name: str) -> float | None:
    theirs, own = fastest(record, name), median(record["entrants"][0])
    return None if theirs is None or not own else (median(theirs) or 0.0) / own


def _what(case: Case) -> str:
    return f"{case.text.name}, {case.vocabulary.name} {case.vocabulary.size:,}"
