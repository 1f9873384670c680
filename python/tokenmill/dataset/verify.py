"""Verify a dataset: every file against its manifest, and what is in it against what must hold.

Each file is read once, in blocks; its sha256 and its contents are checked on the way. Damage is
collected, not raised, so that one report names all of it.
"""

import hashlib
import os
import stat
import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenmill.dataset.contents import ContentCheck, content_checks
from tokenmill.dataset.manifest import (
    TOKENIZER_FOLDER,
    FileRecord,
    InputRecord,
    Manifest,
    manifest_path,
)
from tokenmill.errors import FormatError, TokenmillError
from tokenmill.progress import Meter
from tokenmill.storage.files import unreadable
from tokenmill.tokenizer.threads import num_threads
from tokenmill.tokenizer.tokenizer import Tokenizer

BLOCK_BYTES = 1 << 22
_METER_SECONDS = 0.1


@dataclass(frozen=True)
class Problem:
    """What is wrong with one file."""

    file: str
    problem: str

    def __str__(self) -> str:
        return f"`{self.file}` {self.problem}"


@dataclass
class Findings:
    """What verifying found. Warnings are worth knowing and no damage."""

    path: str
    kind: str
    """`dataset`, `tokenizer` or `counts`."""
    files: int = 0
    bytes: int = 0
    problems: list[Problem] = field(default_factory=list[Problem])
    warnings: list[Problem] = field(default_factory=list[Problem])

    @property
    def is_sound(self) -> bool:
        return not self.problems

    def as_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "kind": self.kind,
            "sound": self.is_sound,
            "files": self.files,
            "bytes": self.bytes,
            "problems": [vars(each) for each in self.problems],
            "warnings": [vars(each) for each in self.warnings],
        }


@dataclass(frozen=True)
class FileTask:
    """A file to hash, what it must be, and what its contents must be."""

    path: Path
    name: str
    size: int | None
    sha256: str
    check: ContentCheck | None = None


def verify_dataset(
    path: Path,
    *,
    source: Path | None = None,
    tokenizer: Tokenizer | None = None,
    threads: int | None = None,
    meter: Meter | None = None,
) -> Findings:
    """Compare the dataset at `path` with its manifest, and with `source` and `tokenizer` if given.

    `source` is the folder with the files that were encoded, or one of them.
    """
    findings = Findings(str(path), "dataset")
    place = manifest_path(path)
    try:
        data = place.read_bytes()
        manifest = Manifest.from_json(data, place.name)
    except OSError as error:
        raise unreadable(place, error) from error
    except FormatError as error:
        findings.problems.append(Problem(place.name, error.message.removeprefix(f"`{place.name}`")))
        return findings
    findings.files, findings.bytes = 1, len(data)
    folder = place.parent
    tasks = _file_tasks(folder, manifest)
    if source is not None:
        tasks += input_tasks(source, manifest.inputs, findings)
    check_files(tasks, findings, threads=threads, meter=meter or Meter(False))
    _check_tokenizer(folder, manifest, tokenizer, findings)
    if path.is_dir():
        known = {place.name, *(record.path for record in manifest.files())}
        findings.warnings += [
            Problem(name, "is not in the manifest") for name in _files_below(path, known)
        ]
    findings.problems.sort(key=str)
    return findings


def _file_tasks(folder: Path, manifest: Manifest) -> list[FileTask]:
    checks = content_checks(manifest)

    def task(record: FileRecord) -> FileTask:
        check = checks.get(record.path)
        return FileTask(folder / record.path, record.path, record.size, record.sha256, check)

    return [task(record) for record in manifest.files()]


def input_tasks(source: Path, inputs: Sequence[InputRecord], findings: Findings) -> list[FileTask]:
    """The inputs to hash, found by name in the folder `source` or below it, or `source` itself."""
    if not source.exists():
        raise unreadable(source, FileNotFoundError())
    if not inputs:
        findings.warnings.append(Problem(findings.path, "does not say what it was made from"))
    tasks: list[FileTask] = []
    for record in inputs:
        if record.sha256 is None:
            findings.warnings.append(Problem(record.name, "was no file, so it cannot be compared"))
            continue
        candidates = _candidates(source, record)
        if candidates:
            tasks.append(FileTask(candidates[0], record.name, record.bytes, record.sha256))
        else:
            findings.problems.append(Problem(record.name, f"is not in `{source}`"))
    return tasks


def _candidates(source: Path, record: InputRecord) -> list[Path]:
    """Files below `source` with the name of `record`, the likeliest first. Manifests keep the last
    part of a path only, so that several may have it."""
    name = Path(record.name).name
    if not source.is_dir():
        return [source] if source.name == name else []
    found = [Path(parent) / name for parent, _, names in os.walk(source) if name in names]
    return sorted(
        found,
        key=lambda path: (
            path.stat().st_size != record.bytes,
            record.split not in path.parts,
            path.as_posix(),
        ),
    )


def check_files(
    tasks: Sequence[FileTask], findings: Findings, *, threads: int | None, meter: Meter
) -> None:
    """Read all files of `tasks`, several at a time. Hashing and numpy let other threads run."""
    total = sum(task.size or 0 for task in tasks) or 1
    counter = _Counter()
    meter.begin("hashing", "bytes")
    with ThreadPoolExecutor(num_threads(threads)) as pool:
        left = {pool.submit(_check_file, task, counter) for task in tasks}
        try:
            while left:
                done, left = wait(left, _METER_SECONDS, FIRST_COMPLETED)
                findings.problems += [problem for job in done for problem in job.result()]
                meter.update(counter.num_bytes, counter.num_bytes / total)
        except BaseException:
            counter.is_stopped = True
            pool.shutdown(cancel_futures=True)
            raise
        finally:
            meter.end()
    findings.files += len(tasks)
    findings.bytes += counter.num_bytes


class _Counter:
    """What threads have read together. Stopping them is a flag that they look at."""

    def __init__(self) -> None:
        self.num_bytes = 0
        self.is_stopped = False
        self._lock = threading.Lock()

    def add(self, num_bytes: int) -> None:
        with self._lock:
            self.num_bytes += num_bytes


def _check_file(task: FileTask, counter: _Counter) -> list[Problem]:
    digest, problems = hashlib.sha256(), list[str]()
    try:
        found = os.stat(task.path)
        # A pipe in the place of a file would keep us waiting for ever.
        if not stat.S_ISREG(found.st_mode):
            return [Problem(task.name, "is no regular file")]
        if task.size is not None and found.st_size != task.size:
            problems.append(f"is {found.st_size:,} bytes long, the manifest says {task.size:,}")
        check = None if problems else task.check
        with task.path.open("rb", buffering=0) as file:
            if check is not None:
                header = file.read(check.header_bytes)
                digest.update(header)
                counter.add(len(header))
                check.start(header)
            while not counter.is_stopped and (block := _whole_block(file)):
                digest.update(block)
                counter.add(len(block))
                if check is not None:
                    check.feed(block)
    except OSError as error:
        problem = unreadable(task.path, error).message
        return [Problem(task.name, problem.removeprefix(f"`{task.path}`").strip())]
    if digest.hexdigest() != task.sha256:
        problems.append(f"has sha256 {digest.hexdigest()}, the manifest says {task.sha256}")
    if check is not None:
        problems += check.finish()
    return [Problem(task.name, problem) for problem in problems]


def _whole_block(file: Any) -> bytes:
    """A block, shorter only at the end of the file, so that items are never cut in two."""
    data: bytes = file.read(BLOCK_BYTES)
    while 0 < len(data) < BLOCK_BYTES and (more := file.read(BLOCK_BYTES - len(data))):
        data += more
    return data


def _check_tokenizer(
    folder: Path, manifest: Manifest, given: Tokenizer | None, findings: Findings
) -> None:
    stated = manifest.tokenizer.sha256
    if manifest.tokenizer.files:
        try:
            inside = Tokenizer.load(folder / TOKENIZER_FOLDER)
        except (TokenmillError, OSError) as error:
            findings.problems.append(Problem(TOKENIZER_FOLDER, f"cannot be loaded: {error}"))
        else:
            if inside.sha256 != stated:
                problem = f"is the tokenizer `{inside.sha256}`, the manifest says `{stated}`"
                findings.problems.append(Problem(TOKENIZER_FOLDER, problem))
            if inside.vocab_size != manifest.tokenizer.vocab_size:
                problem = (
                    f"has {inside.vocab_size:,} ids, the manifest says "
                    f"{manifest.tokenizer.vocab_size:,}"
                )
                findings.problems.append(Problem(TOKENIZER_FOLDER, problem))
    if given is not None and given.sha256 != stated:
        problem = (
            f"was encoded with the tokenizer of sha256 `{stated}`, the one given has "
            f"`{given.sha256}`"
        )
        findings.problems.append(Problem(findings.path, problem))


def _files_below(folder: Path, known: set[str]) -> list[str]:
    """Files in `folder` that `known` does not name, by their paths relative to it."""
    found: list[str] = []
    for parent, _, names in os.walk(folder):
        for name in names:
            relative = (Path(parent) / name).relative_to(folder).as_posix()
            if relative not in known:
                found.append(relative)
    return sorted(found)
