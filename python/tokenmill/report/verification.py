"""Verify an artifact of any kind: a dataset, a tokenizer folder or a file of counts."""

from collections.abc import Sequence
from pathlib import Path

from tokenmill import _core
from tokenmill.dataset.manifest import FORMAT as DATASET_FORMAT
from tokenmill.dataset.manifest import InputRecord, manifest_path
from tokenmill.dataset.verify import (
    FileTask,
    Findings,
    Problem,
    check_files,
    input_tasks,
    verify_dataset,
)
from tokenmill.errors import ConfigError, FormatError, TokenmillError
from tokenmill.progress import Meter
from tokenmill.storage.files import unreadable
from tokenmill.tokenizer.formats.checked_json import parse_json
from tokenmill.tokenizer.manifest import FILE_NAME, FORMAT, Manifest
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.work.input_records import InputRecord as CountedInput


def verify(
    path: Path,
    *,
    source: Path | None = None,
    tokenizer: Tokenizer | None = None,
    threads: int | None = None,
    meter: Meter | None = None,
) -> Findings:
    """What is wrong with the artifact at `path`; ConfigError if it is none that describes itself."""
    meter = meter or Meter(False)
    if path.is_file() and path.suffix == ".parquet":
        return _verify_counts(path, source, threads=threads, meter=meter)
    place = manifest_path(path)
    if not place.is_file():
        if not path.exists():
            raise unreadable(path, FileNotFoundError())
        raise ConfigError(
            f"`{path}` has no `{place.name}`, so there is nothing to compare it with",
            "datasets, tokenizer folders and files of counts can be verified",
        )
    if _is_tokenizer(place):
        if source is not None:
            raise ConfigError(
                f"`{path}` is a tokenizer, `--source` is for what was encoded or counted"
            )
        return _verify_tokenizer(path, tokenizer, threads=threads, meter=meter)
    return verify_dataset(path, source=source, tokenizer=tokenizer, threads=threads, meter=meter)


def _is_tokenizer(manifest: Path) -> bool:
    try:
        kind = parse_json(manifest.read_bytes(), manifest.name).child("format").value
    except FormatError:
        # Damaged beyond reading: tokens beside it tell what it was.
        return (manifest.parent / "tokenizer.json").is_file()
    if kind not in (FORMAT, DATASET_FORMAT) and (manifest.parent / "tokenizer.json").is_file():
        return True
    return kind == FORMAT


def _verify_tokenizer(
    folder: Path, given: Tokenizer | None, *, threads: int | None, meter: Meter
) -> Findings:
    findings = Findings(str(folder), "tokenizer")
    data = (folder / FILE_NAME).read_bytes()
    try:
        manifest = Manifest.from_json(data, FILE_NAME)
    except FormatError as error:
        findings.problems.append(Problem(FILE_NAME, error.message.removeprefix(f"`{FILE_NAME}`")))
        return findings
    findings.files, findings.bytes = 1, len(data)
    tasks = [FileTask(folder / name, name, None, digest) for name, digest in manifest.files.items()]
    check_files(tasks, findings, threads=threads, meter=meter)
    known = {FILE_NAME, *manifest.files}
    findings.warnings += [
        Problem(each.name, "is not in the manifest")
        for each in sorted(folder.iterdir())
        if each.name not in known
    ]
    try:
        loaded = Tokenizer.load(folder)
    except TokenmillError as error:
        findings.problems.append(Problem(FILE_NAME, f"does not fit its files: {error}"))
        return findings
    findings.problems += [
        Problem(FILE_NAME, f"says {name} is {stated}, but it is {found}")
        for name, stated, found in _claims(manifest, loaded)
        if stated != found
    ]
    if given is not None and given.sha256 != loaded.sha256:
        findings.problems.append(
            Problem(str(folder), f"is the tokenizer `{loaded.sha256}`, not `{given.sha256}`")
        )
    if manifest.to_json() != data:
        findings.problems.append(Problem(FILE_NAME, "was changed since it was written"))
    return findings


def _claims(manifest: Manifest, tokenizer: Tokenizer) -> list[tuple[str, object, object]]:
    """What a tokenizer's manifest repeats from its files."""
    splitter = _core.Splitter(tokenizer.pattern)
    return [
        ("`vocab_size`", manifest.vocab_size, tokenizer.vocab_size),
        ("`num_merges`", manifest.num_merges, len(tokenizer.merges)),
        ("`special_tokens`", manifest.special_tokens, tokenizer.special_tokens),
        ("`pattern.regex`", manifest.pattern_regex, splitter.regex),
        ("`normalizer`", manifest.normalizer, tokenizer.normalizer),
        ("`ignore_merges`", manifest.ignore_merges, tokenizer.ignore_merges),
        ("`unreachable`", manifest.unreachable, tokenizer.unreachable()),
    ]


def _verify_counts(
    path: Path, source: Path | None, *, threads: int | None, meter: Meter
) -> Findings:
    from tokenmill.train.counts_file import changed_content, load_counts

    findings = Findings(str(path), "counts", files=1, bytes=path.stat().st_size)
    try:
        counts = load_counts(path)
    except (TokenmillError, OverflowError) as error:
        findings.problems.append(Problem(path.name, str(error).removeprefix(f"`{path}` ")))
        return findings
    if problem := changed_content(path, counts):
        findings.problems.append(Problem(path.name, problem))
    if source is not None:
        tasks = input_tasks(source, _inputs(counts.origin.inputs), findings)
        check_files(tasks, findings, threads=threads, meter=meter)
    return findings


def _inputs(inputs: Sequence[CountedInput]) -> list[InputRecord]:
    """What the counts say they were made from, as a dataset says it."""
    return [InputRecord(each.name, each.num_bytes, each.sha256, "train") for each in inputs]
