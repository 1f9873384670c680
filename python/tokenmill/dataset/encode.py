"""`tm.encode_dataset`: documents in, a dataset on disk out."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from tokenmill.dataset.dataset import Dataset
from tokenmill.dataset.manifest import FILE_NAME, InputRecord, Manifest, read_manifest
from tokenmill.dataset.settings import EncodeKeywords, EncodeSettings
from tokenmill.dataset.splits import find_split_inputs
from tokenmill.errors import ConfigError
from tokenmill.progress import Meter, ProgressChoice
from tokenmill.sources.inputs import Inputs
from tokenmill.sources.options import ReadKeywords, ReadOptions
from tokenmill.storage.files import local_path, remove_folder
from tokenmill.tokenizer.threads import num_threads
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.work import input_records
from tokenmill.work.folder import WorkFolder, units_done, work_folder_of
from tokenmill.work.input_records import BackgroundHashes, same_inputs
from tokenmill.work.reading import BLOCK_BYTES
from tokenmill.work.units import UNIT_BYTES

if TYPE_CHECKING:
    from tokenmill.dataset.encode_job import EncodeJob
    from tokenmill.dataset.encode_progress import EncodeReport


class DatasetKeywords(EncodeKeywords, ReadKeywords, total=False):
    """What `encode_dataset` hands on."""


def encode_dataset(
    inputs: Inputs,
    tokenizer: Tokenizer | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    threads: int | None = None,
    force: bool = False,
    progress: ProgressChoice = None,
    unit_bytes: int = UNIT_BYTES,
    block_bytes: int = BLOCK_BYTES,
    **keywords: Unpack[DatasetKeywords],
) -> Dataset:
    """Encode every document of `inputs` into the dataset folder `out`.

    Ids are uint16 when the vocab fits, else uint32, with the special token `eos` after each document.
    Files and folders named train, validation (valid, val) or test become splits of their own. The
    result does not depend on `threads`. `out` is complete or absent: work goes to `out.partial`, and a
    second call goes on from there; a finished `out` of the same text and settings is opened as it is,
    another one is replaced only with `force`. An `out` that ends in `.npy` or `.bin` is one file of
    ids and nothing else, with its manifest beside it.

    The other keywords are those of EncodeSettings and ReadOptions.
    """
    run = prepare_encode(
        inputs,
        tokenizer,
        out,
        threads=threads,
        force=force,
        progress=progress,
        unit_bytes=unit_bytes,
        block_bytes=block_bytes,
        **keywords,
    )
    run.run()
    return Dataset.open(run.out)


def prepare_encode(
    inputs: Inputs,
    tokenizer: Tokenizer | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    threads: int | None = None,
    force: bool = False,
    progress: ProgressChoice = None,
    unit_bytes: int = UNIT_BYTES,
    block_bytes: int = BLOCK_BYTES,
    **keywords: Unpack[DatasetKeywords],
) -> "EncodeRun":
    """An encode checked and ready to run, or to be asked for its plan. The arguments are those of
    `encode_dataset`."""
    # numpy comes with it, which `import tokenmill` does without.
    from tokenmill.dataset.encode_job import EncodeJob

    ours = {each.name for each in fields(EncodeSettings)}
    given: Mapping[str, object] = keywords
    settings = EncodeSettings(**{key: value for key, value in given.items() if key in ours})  # pyright: ignore[reportArgumentType]
    options = ReadOptions.from_keywords({k: v for k, v in given.items() if k not in ours})
    final = local_path(out)
    loaded = tokenizer if isinstance(tokenizer, Tokenizer) else Tokenizer.load(tokenizer)
    job = EncodeJob(
        find_split_inputs(inputs, options),
        options,
        _for_file(settings, final) if is_plain_file(final) else settings,
        loaded,
        num_threads(threads),
        unit_bytes,
        block_bytes,
    )
    return EncodeRun(job, final, force, progress)


def is_plain_file(out: Path) -> bool:
    """Whether `out` is to be one file of ids and not a folder."""
    return out.suffix in (".npy", ".bin") and not out.is_dir()


def _for_file(settings: EncodeSettings, out: Path) -> EncodeSettings:
    """The settings under which all goes to the one file `out`."""
    if settings.val_fraction is not None or settings.shard_tokens is not None:
        raise ConfigError(
            f"`{out}` is one file, so `--val-fraction` and `--shard-tokens` do not apply",
            "name a folder to get several files",
        )
    layout = out.suffix.removeprefix(".")
    if settings.layout not in (layout, EncodeSettings.layout):
        raise ConfigError(
            f"`{out}` ends in `{out.suffix}`, but `--format {settings.layout}` was asked for",
            "name a folder, or leave `--format` out",
        )
    return replace(settings, layout=layout)


@dataclass(frozen=True)
class EncodePlan:
    """What an encode is going to do."""

    inputs: Mapping[str, int]
    """Number of inputs by split."""
    input_bytes: int | None
    dtype: str
    threads: int
    units: int
    units_done: int


@dataclass(frozen=True)
class EncodeResult:
    """What an encode has made."""

    manifest: Manifest
    report: "EncodeReport | None"
    """`None` if it was there already."""
    seconds: float


@dataclass(frozen=True)
class EncodeRun:
    """An encode, and where its result goes."""

    job: "EncodeJob"
    out: Path
    force: bool
    progress: ProgressChoice

    def plan(self) -> EncodePlan:
        """What there is to do, without doing it."""
        units = self.job.units()
        sizes = [each.source.size_in_bytes for each in self.job.sources]
        splits = [each.split for each in self.job.sources]
        done = units_done(self.out)
        return EncodePlan(
            {split: splits.count(split) for split in dict.fromkeys(splits)},
            None if None in sizes else sum(size or 0 for size in sizes),
            self.job.dtype,
            self.job.threads,
            len(units),
            done[0] if done is not None else 0,
        )

    def run(self) -> EncodeResult:
        """Encode, or take what an earlier run with the same settings made."""
        started = time.perf_counter()
        done = self._finished()
        if done is not None:
            remove_folder(work_folder_of(self.out))
            return EncodeResult(done, None, time.perf_counter() - started)
        meter = Meter(self.progress)
        try:
            manifest, report = self._encode(meter)
        finally:
            meter.end()
        return EncodeResult(manifest, report, time.perf_counter() - started)

    def _encode(self, meter: Meter) -> "tuple[Manifest, EncodeReport]":
        from tokenmill.dataset.finish import Ending

        job, seed = self.job, self.job.settings.shuffle_documents
        hashes = BackgroundHashes(
            [input_records.InputRecord.of(each.source) for each in job.sources]
        )
        try:
            with WorkFolder(self.out) as work:
                if self.force:
                    work.clear()
                growth, report = job.run(work, meter, hashes.want)
                shards = growth.shards()
                if seed is not None:
                    shards = job.shuffle(work, shards, seed, meter)
                hashes.want(len(job.sources))
                inputs = self._recorded(hashes.result())
                ending = Ending(
                    job, work, self.out.name, shards, report, inputs, shuffled=seed is not None
                )
                finish = ending.finish_file if is_plain_file(self.out) else ending.finish_folder
                manifest = finish(self.out)
                work.remove()
        finally:
            hashes.cancel()
        return manifest, report

    def _recorded(self, records: tuple[input_records.InputRecord, ...]) -> tuple[InputRecord, ...]:
        return tuple(
            InputRecord(record.name, record.num_bytes, record.sha256, each.split)
            for record, each in zip(records, self.job.sources, strict=True)
        )

    def _finished(self) -> Manifest | None:
        """The manifest at `out` if it is what this run would make. ConfigError if something else is
        there and may not be replaced."""
        if not self.out.exists():
            return None
        manifest = read_manifest(self.out)
        if manifest is None:
            if self.out.is_dir() and not any(self.out.iterdir()):
                return None
            raise ConfigError(
                f"`{self.out}` exists and is not a dataset",
                "choose a place that does not exist yet",
            )
        if self.force:
            self._refuse_foreign_files(manifest)
            return None
        difference = self._difference(manifest)
        if difference is None:
            return manifest
        raise ConfigError(
            f"`{self.out}` holds a dataset that was made {difference}",
            "choose another output, or pass `--force` (`force=True`) to replace it",
        )

    def _refuse_foreign_files(self, manifest: Manifest) -> None:
        ours = {FILE_NAME, *(record.path for record in manifest.files())}
        for parent, _, names in os.walk(self.out):
            for name in names:
                path = Path(parent, name).relative_to(self.out).as_posix()
                if path not in ours:
                    raise ConfigError(
                        f"`{self.out}` holds `{path}`, which is not tokenmill's and would be deleted",
                        "move it away first",
                    )

    def _difference(self, manifest: Manifest) -> str | None:
        """In which way the dataset at `out` is another one; `None` if it is not."""
        job = self.job
        if manifest.tokenizer.sha256 != job.tokenizer.sha256:
            return (
                f"with the tokenizer `{manifest.tokenizer.sha256[:16]}…`, "
                f"not `{job.tokenizer.sha256[:16]}…`"
            )
        wanted = {
            "layout": job.settings.layout,
            "dtype": job.dtype,
            "bos": job.settings.bos,
            "eos": job.settings.eos,
        }
        for name, value in wanted.items():
            if getattr(manifest, name) != value:
                return f"with {name} `{getattr(manifest, name)}`, not `{value}`"
        settings = {**job.settings.as_settings(), "read": job.options.as_settings()}
        for name, value in settings.items():
            if manifest.settings.get(name) != value:
                return (
                    f"with {name.replace('_', ' ')} `{manifest.settings.get(name)}`, not `{value}`"
                )
        recorded = [{"bytes": each.bytes, "sha256": each.sha256} for each in manifest.inputs]
        found = [input_records.InputRecord.of(each.source) for each in job.sources]
        splits = [each.split for each in manifest.inputs]
        if splits == [each.split for each in job.sources] and same_inputs(
            recorded, 0, found, ordered=True
        ):
            return None
        return "from other text, or from text that cannot be compared"
