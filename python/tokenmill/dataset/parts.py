"""One encode as many jobs that know nothing of each other: `--shard 3/16` on any machine that sees
the folder, and `--collect` when all are done.

Job `i` of `n` encodes a run of consecutive units into `OUT.partial/part-i-of-n` and leaves `part.json`
when it is done. Collecting joins the documents of all parts in order, which gives the bytes that one
job would have written.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tokenmill import _core
from tokenmill.dataset.encode_job import EncodeJob
from tokenmill.dataset.encode_progress import EncodeReport, SplitUnit, shard_prefix
from tokenmill.dataset.manifest import InputRecord
from tokenmill.dataset.shard_sizes import ShardSize
from tokenmill.dataset.splits import SPLITS
from tokenmill.errors import ConfigError, FormatError
from tokenmill.progress import Meter, quantity
from tokenmill.storage.files import write_atomically
from tokenmill.work import input_records
from tokenmill.work.folder import WorkFolder, work_folder_of
from tokenmill.work.input_records import BackgroundHashes

NOTE = "part.json"
_FOLDER = re.compile(r"part-(\d{5})-of-(\d{5})")
_ARGUMENT = re.compile(r"(\d{1,5})/(\d{1,5})")


@dataclass(frozen=True)
class Part:
    """Job `number` of `of`, counted from 0."""

    number: int
    of: int

    @staticmethod
    def parse(text: str) -> "Part":
        """`3/16`. ConfigError for anything else."""
        match = _ARGUMENT.fullmatch(text)
        part = Part(int(match[1]), int(match[2])) if match else None
        if part is None or not part.number < part.of:
            raise ConfigError(
                f"`--shard {text}` does not name a job",
                "jobs are counted from 0: `--shard 0/16` to `--shard 15/16`",
            )
        return part

    def folder(self, out: Path) -> Path:
        return work_folder_of(out) / f"part-{self.number:05}-of-{self.of:05}"

    def units(self, units: Sequence[SplitUnit]) -> Sequence[SplitUnit]:
        """Its own run of all units."""
        return units[
            len(units) * self.number // self.of : len(units) * (self.number + 1) // self.of
        ]


class PartNote(NamedTuple):
    """What a part holds."""

    shards: Mapping[str, Sequence[ShardSize]]
    report: EncodeReport
    inputs: Sequence[InputRecord]

    def as_json(self, plan: str) -> bytes:
        note = {
            "format": "tokenmill dataset part",
            "format_version": 1,
            "plan": plan,
            "shards": self.shards,
            "report": asdict(self.report),
            "inputs": [asdict(each) for each in self.inputs],
        }
        return json.dumps(note, indent=1, ensure_ascii=False).encode() + b"\n"

    @staticmethod
    def from_json(note: Mapping[str, Any]) -> "PartNote":
        report = EncodeReport.from_json(note["report"])
        shards = {
            split: [ShardSize(*size) for size in sizes] for split, sizes in note["shards"].items()
        }
        return PartNote(shards, report, [InputRecord(**each) for each in note["inputs"]])


def _plan_digest(job: EncodeJob, units: Sequence[SplitUnit]) -> str:
    """What all parts of one encode have in common: its settings and its units."""
    content = [job.identity(), [unit.unit.name for unit in units]]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def run_part(job: EncodeJob, out: Path, part: Part, meter: Meter, *, force: bool) -> PartNote:
    """Encode one part, or take what an earlier run of the same job made."""
    if job.options.has_limit:
        raise ConfigError(
            "`--shard` goes with neither `--max-chars` nor `--max-bytes`: where they end depends on "
            "what the other jobs read"
        )
    units = job.units()
    if not all(unit.can_resume for unit in units):
        raise ConfigError("`--shard` needs files: only they can be shared out among jobs")
    plan = _plan_digest(job, units)
    done = None if force else _read_note(part.folder(out), plan)
    if done is not None:
        return done
    with WorkFolder(part.folder(out), is_work_folder=True) as work:
        (work.path / NOTE).unlink(missing_ok=True)
        if force:
            work.clear()
        note = _encode_units(job, part.units(units), work, meter)
        write_atomically(work.path / NOTE, note.as_json(plan))
    return note


def _encode_units(
    job: EncodeJob, units: Sequence[SplitUnit], work: WorkFolder, meter: Meter
) -> PartNote:
    begun = [
        (unit.split, source)
        for unit in units
        for source, range_ in unit.parts
        if range_ is None or range_.start == 0
    ]
    hashes = BackgroundHashes([input_records.InputRecord.of(source) for _, source in begun])
    try:
        growth, report = job.run(work, meter, hashes.want, units)
        hashes.want(len(begun))
        records = [
            InputRecord(record.name, record.num_bytes, record.sha256, split)
            for record, (split, _) in zip(hashes.result(), begun, strict=True)
        ]
    finally:
        hashes.cancel()
    return PartNote(growth.shards(), report, records)


def _read_note(folder: Path, plan: str) -> PartNote | None:
    """The note of the part in `folder`, `None` if it is not done. ConfigError if the part is one of
    another encode."""
    path = folder / NOTE
    try:
        note = json.loads(path.read_bytes())
        if note["plan"] != plan:
            raise ConfigError(
                f"`{folder}` is a part of an encode with other settings or inputs",
                "pass `--force` to do it again, or choose another output",
            )
        return PartNote.from_json(note)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, ConfigError):
            raise
        raise FormatError(f"`{path}` cannot be used: {error}", "remove it and run again") from error


def collect_parts(job: EncodeJob, out: Path, work: WorkFolder, meter: Meter) -> PartNote:
    """Join all parts in the work folder of `out`. ConfigError naming those that are missing."""
    plan = _plan_digest(job, job.units())
    notes = {part: _read_note(part.folder(out), plan) for part in _parts(out)}
    missing = [f"{part.number}/{part.of}" for part, note in notes.items() if note is None]
    if missing:
        raise ConfigError(
            f"{quantity(len(missing), 'part')} of {len(notes):,} not done yet: "
            f"{', '.join(missing[:8])}{', …' if len(missing) > 8 else ''}",
            "run `tokenmill encode` with `--shard` for each of them, then collect again",
        )
    found = {part: note for part, note in notes.items() if note is not None}
    meter.begin("collecting", "documents")
    report = EncodeReport()
    for note in found.values():
        report.add(note.report)
    shards = {split: _join(job, out, work, split, found, meter) for split in SPLITS}
    inputs = [record for note in found.values() for record in note.inputs]
    return PartNote({split: sizes for split, sizes in shards.items() if sizes}, report, inputs)


def _parts(out: Path) -> list[Part]:
    folder = work_folder_of(out)
    names = os.listdir(folder) if folder.is_dir() else []
    numbers = {(int(m[1]), int(m[2])) for name in names if (m := _FOLDER.fullmatch(name))}
    counts = sorted({of for _, of in numbers})
    if not counts:
        raise ConfigError(
            f"`{folder}` holds no parts to collect",
            "encode them first, with `--shard 0/8` and so on",
        )
    if len(counts) > 1:
        raise ConfigError(
            f"`{folder}` holds parts of {' and of '.join(f'{count:,}' for count in counts)} jobs",
            "remove the `part-…` folders of those that are not meant",
        )
    return [Part(number, counts[0]) for number in range(counts[0])]


def _join(
    job: EncodeJob,
    out: Path,
    work: WorkFolder,
    split: str,
    notes: Mapping[Part, PartNote],
    meter: Meter,
) -> list[ShardSize]:
    rows = [
        (str(part.folder(out) / shard_prefix(split)), list(note.shards[split]))
        for part, note in notes.items()
        if split in note.shards
    ]
    documents = sum(size.documents for _, sizes in rows for size in sizes)
    if not documents:
        return []
    joined = _core.join_documents(
        sources=rows,
        target=str(work.path / shard_prefix(split)),
        progress=(lambda done, _: meter.update(done, done / documents)) if meter.is_shown else None,
        **job.file_layout(),
    )
    return [ShardSize(*size) for size in joined if size[1]]
