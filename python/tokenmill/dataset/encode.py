"""`tm.encode_dataset`: documents in, a dataset on disk out."""

import logging
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from tokenmill.dataset.dataset import Dataset
from tokenmill.dataset.existing import find_finished, manifest_at, other_settings
from tokenmill.dataset.manifest import InputRecord, Manifest
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
from tokenmill.work.input_records import BackgroundHashes
from tokenmill.work.reading import BLOCK_BYTES
from tokenmill.work.units import UNIT_BYTES

log = logging.getLogger("tokenmill")

if TYPE_CHECKING:
    from tokenmill.dataset.encode_job import EncodeJob
    from tokenmill.dataset.encode_progress import EncodeReport
    from tokenmill.dataset.finish import Ending
    from tokenmill.dataset.shard_sizes import ShardSize


class DatasetKeywords(EncodeKeywords, ReadKeywords, total=False):
    """What `encode_dataset` hands on."""


def encode_dataset(
    inputs: Inputs,
    tokenizer: Tokenizer | str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    threads: int | None = None,
    append: bool = False,
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
    another one is replaced only with `force`, or grows by further shards with `append`. An `out` that ends in `.npy` or `.bin` is one file of
    ids and nothing else, with its manifest beside it.

    The other keywords are those of EncodeSettings and ReadOptions.
    """
    run = prepare_encode(
        inputs,
        tokenizer,
        out,
        threads=threads,
        append=append,
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
    append: bool = False,
    part: str | None = None,
    collect: bool = False,
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
    if settings.has_rows:
        options = replace(options, field=None)
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
    return EncodeRun(job, final, force, append, part, collect, progress)


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

    manifest: Manifest | None
    """`None` for one job's share: the dataset comes when all are collected."""
    report: "EncodeReport | None"
    """`None` if it was there already."""
    seconds: float


@dataclass(frozen=True)
class EncodeRun:
    """An encode, and where its result goes."""

    job: "EncodeJob"
    out: Path
    force: bool
    append: bool
    part: str | None
    """`3/16`: this job's share, for someone to collect."""
    collect: bool
    progress: ProgressChoice

    def __post_init__(self) -> None:
        chosen = {"--append": self.append, "--shard": self.part is not None}
        chosen |= {"--collect": self.collect, "--force": self.force and self.append}
        names = [name for name, given in chosen.items() if given]
        if len(names) > 1:
            raise ConfigError(f"`{names[0]}` and `{names[1]}` do not go together")
        if self.append and self.job.settings.format.max_shards == 1:
            raise ConfigError(
                f"`--format {self.job.settings.layout}` keeps a split in one file, so nothing can be "
                "appended to it",
                "encode to another output, or choose another format",
            )
        if self.append and is_plain_file(self.out):
            raise ConfigError(f"`{self.out}` is one file, so nothing can be appended to it")

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
        meter = Meter(self.progress)
        try:
            manifest, report = self._run(meter)
        finally:
            meter.end()
        return EncodeResult(manifest, report, time.perf_counter() - started)

    def _run(self, meter: Meter) -> "tuple[Manifest | None, EncodeReport | None]":
        from tokenmill.dataset.parts import Part, run_part

        if self.append and (there := manifest_at(self.out)) is not None:
            return self._append(there, meter)
        done = find_finished(self.job, self.out, force=self.force)
        if done is not None:
            remove_folder(work_folder_of(self.out))
            return done, None
        if self.part is not None:
            part = Part.parse(self.part)
            return None, run_part(self.job, self.out, part, meter, force=self.force).report
        with WorkFolder(self.out) as work:
            if self.force and not self.collect:
                work.clear()
            ending = self._made(work, meter)
            finish = ending.finish_file if is_plain_file(self.out) else ending.finish_folder
            manifest = finish(self.out)
            work.remove()
        if self.job.settings.val_fraction is not None and "validation" not in manifest.splits:
            log.warning(
                "no document fell into the validation split: there are too few for a fraction of %s",
                self.job.settings.val_fraction,
            )
        return manifest, ending.report

    def _made(self, work: WorkFolder, meter: Meter) -> "Ending":
        """Encode, or collect what was encoded, while the tokenizer is being saved: that takes long
        enough, reading back included, to be noticed at the end."""
        saving = self._save_tokenizer(work.path / "tokenizer")
        try:
            make = self._collected if self.collect else self._encoded
            return make(work, meter, saving)
        except BaseException:
            saving.exception()  # the folder is written to until it is done
            raise

    def _save_tokenizer(self, folder: Path) -> Future[Path]:
        def save() -> Path:
            shutil.rmtree(folder, ignore_errors=True)
            return self.job.tokenizer.save(folder)

        pool = ThreadPoolExecutor(1, "tokenmill-save")
        saving = pool.submit(save)
        pool.shutdown(wait=False)
        return saving

    def _encoded(self, work: WorkFolder, meter: Meter, saving: Future[Path]) -> "Ending":
        job = self.job
        hashes = BackgroundHashes(
            [input_records.InputRecord.of(each.source) for each in job.sources]
        )
        try:
            growth, report = job.run(work, meter, hashes.want)
            hashes.want(len(job.sources))
            inputs = tuple(
                InputRecord(record.name, record.num_bytes, record.sha256, each.split)
                for record, each in zip(hashes.result(), job.sources, strict=True)
            )
        finally:
            hashes.cancel()
        return self._ending(work, meter, saving, growth.shards(), report, inputs)

    def _collected(self, work: WorkFolder, meter: Meter, saving: Future[Path]) -> "Ending":
        from tokenmill.dataset.parts import collect_parts

        note = collect_parts(self.job, self.out, work, meter)
        return self._ending(work, meter, saving, note.shards, note.report, tuple(note.inputs))

    def _ending(
        self,
        work: WorkFolder,
        meter: Meter,
        saving: Future[Path],
        shards: "Mapping[str, Sequence[ShardSize]]",
        report: "EncodeReport",
        inputs: tuple[InputRecord, ...],
    ) -> "Ending":
        from tokenmill.dataset.finish import Ending

        seed = self.job.settings.shuffle_documents
        if seed is not None:
            shards = self.job.shuffle(work, shards, seed, meter)
        name = self.out.name
        return Ending(
            self.job, work, name, shards, report, inputs, meter, saving, shuffled=seed is not None
        )

    def _append(self, there: Manifest, meter: Meter) -> "tuple[Manifest, EncodeReport | None]":
        """Encode what `there` does not have yet, into further shards of it."""
        difference = other_settings(self.job, there)
        if difference is not None:
            raise ConfigError(
                f"`{self.out}` holds a dataset that was made {difference}",
                "append with the same tokenizer and settings",
            )
        known = {(each.sha256, each.split) for each in there.inputs if each.sha256 is not None}
        records = [input_records.InputRecord.of(each.source) for each in self.job.sources]
        hashed = input_records.hash_inputs(records)
        old = [
            (record.sha256, each.split) in known
            for record, each in zip(hashed, self.job.sources, strict=True)
        ]
        if all(old):
            remove_folder(work_folder_of(self.out))
            return there, None
        if any(old):
            raise ConfigError(
                f"`{hashed[old.index(True)].name}` is in `{self.out}` already, and other inputs are not",
                "append only what is new",
            )
        with WorkFolder(self.out) as work:
            ending = self._made(work, meter)
            manifest = ending.finish_append(self.out, there)
            work.remove()
        return manifest, ending.report
