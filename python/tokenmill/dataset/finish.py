"""From grown shard files to a dataset: headers, names, further files, hashes, and the manifest last.

The dataset is put together in the work folder out of links to the files that grew, so that a run
that is killed here finds them as they were, and takes its name by one rename.
"""

import os
import queue
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tokenmill.dataset.arrays import npy_header
from tokenmill.dataset.encode_job import EncodeJob
from tokenmill.dataset.encode_progress import EncodeReport, shard_path
from tokenmill.dataset.layouts import array_path
from tokenmill.dataset.layouts.layout import ARRAYS
from tokenmill.dataset.manifest import (
    FILE_NAME,
    SPLIT_NAMES,
    TOKENIZER_FOLDER,
    FileRecord,
    InputRecord,
    Manifest,
    Shard,
    Split,
    manifest_path,
    record_file,
    record_tokenizer,
)
from tokenmill.dataset.shard_sizes import ShardSize
from tokenmill.errors import ConfigError
from tokenmill.progress import Meter, quantity
from tokenmill.storage.files import (
    clean_errors,
    fsync_tree,
    replace_folder,
    write_atomically,
)
from tokenmill.work.folder import WorkFolder
from tokenmill.work.read_report import OF_READING

LOOK_SECONDS = 0.1
"""How often progress is shown while files are hashed."""


@dataclass(frozen=True)
class Ending:
    """What an encode has made, on its way to be a dataset called `out_name`."""

    job: EncodeJob
    work: WorkFolder
    out_name: str
    shards: Mapping[str, Sequence[ShardSize]]
    report: EncodeReport
    inputs: tuple[InputRecord, ...]
    meter: Meter
    saved_tokenizer: Future[Path]
    """Where the tokenizer is saved by now, inside the work folder."""
    shuffled: bool = False
    """Whether the documents of `shards` lie in another order in files of their own."""
    shards_before: Mapping[str, int] = field(default_factory=dict[str, int])
    """Shards that each split of the dataset has already."""

    @property
    def _masked(self) -> bool:
        return self.job.settings.has_rows

    def finish_folder(self, out: Path) -> Manifest:
        """Make the dataset folder `out`."""
        self._check()
        folder = self.work.final
        with clean_errors(out):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            os.rename(self.saved_tokenizer.result(), folder / TOKENIZER_FOLDER)
            manifest = self._manifest(folder)
            (folder / FILE_NAME).write_bytes(manifest.to_json())
            fsync_tree(folder)
            replace_folder(folder, out)
        return manifest

    def finish_file(self, out: Path) -> Manifest:
        """Make the one file `out`, and its manifest beside it."""
        self._check()
        if len(self.shards) > 1:
            raise ConfigError(
                f"the inputs have the splits {', '.join(self.shards)}, and `{out}` is one file",
                "name a folder to get them all, or one split's files alone",
            )
        ((split, (size,)),) = self.shards.items()
        folder = self.work.final
        with clean_errors(out):
            shutil.rmtree(folder, ignore_errors=True)
            grown = self._grown(split, 0, "tokens")
            self._place(grown, folder / out.name, "tokens", size)
            record = record_file(folder, out.name)
            fsync_tree(folder)
            # The old manifest goes first: a file beside a manifest that is not its own looks damaged.
            manifest_path(out).unlink(missing_ok=True)
            os.replace(folder / out.name, out)
            manifest = self._describe({self._paths(split, 0)["tokens"]: record}, None)
            write_atomically(manifest_path(out), manifest.to_json())
        return manifest

    def finish_append(self, out: Path, there: Manifest) -> Manifest:
        """Add the shards to the dataset `out`, whose manifest is `there`. Until the new manifest is
        written, its last act, the dataset is what it was."""
        before = {split: len(each.shards) for split, each in there.splits.items()}
        ending = replace(self, shards_before=before)
        ending._check()
        folder = self.work.final
        with clean_errors(out):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            added = ending._manifest(folder, with_tokenizer=False)
            fsync_tree(folder)
            for record in added.files():
                (out / record.path).parent.mkdir(exist_ok=True)
                os.replace(folder / record.path, out / record.path)
            manifest = joined(there, added)
            write_atomically(out / FILE_NAME, manifest.to_json())
        return manifest

    def _check(self) -> None:
        if not self.shards:
            left_out = sum(self.report.left_out.values())
            if left_out:
                reasons = ", ".join(self.report.left_out)
                raise ConfigError(
                    f"there is nothing to encode: all of {quantity(left_out, 'row')} were left out "
                    f"({reasons}), the first because {self.report.read.skipped[0]}",
                    "look at `--mode`, `--shape` and the rows",
                )
            raise ConfigError(
                "there is nothing to encode: no document was found",
                "look at `--field`, `--separator` and the inputs",
            )
        layout = self.job.settings.format
        for split, sizes in self.shards.items():
            if layout.max_shards is not None and len(sizes) > layout.max_shards:
                raise ConfigError(f"`{layout.name}` keeps `{split}` in one file")
            largest = max(size.tokens for size in sizes)
            if layout.max_shard_tokens is not None and largest > layout.max_shard_tokens:
                raise ConfigError(
                    f"a shard of {largest:,} tokens does not fit a file of `{layout.name}`, which "
                    f"holds {layout.max_shard_tokens:,}",
                    "pass a smaller `--shard-tokens`",
                )

    def _manifest(self, folder: Path, *, with_tokenizer: bool = True) -> Manifest:
        placed = [each for split in self.shards for each in self._placed(folder, split)]
        records = self._hashed(folder, placed)
        return self._describe(records, folder if with_tokenizer else None)

    def _hashed(self, folder: Path, paths: Sequence[str]) -> dict[str, FileRecord]:
        """The records of all files, several of which are read at a time."""
        total = sum((folder / path).stat().st_size for path in paths)
        blocks: queue.SimpleQueue[int] = queue.SimpleQueue()
        done = 0
        self.meter.begin("hashing", "bytes")
        with ThreadPoolExecutor(self.job.threads) as pool:
            hashing = [pool.submit(record_file, folder, path, read=blocks.put) for path in paths]
            while wait(hashing, LOOK_SECONDS).not_done:
                while not blocks.empty():
                    done += blocks.get()
                self.meter.update(done, done / total if total else None)
        return {path: each.result() for path, each in zip(paths, hashing, strict=True)}

    def _describe(self, records: Mapping[str, FileRecord], folder: Path | None) -> Manifest:
        """The manifest of files with these `records`; of the tokenizer in `folder`, if there."""
        job = self.job
        return Manifest(
            mode=job.settings.mode,
            layout=job.settings.layout,
            dtype=job.dtype,
            tokenizer=record_tokenizer(job.tokenizer, folder),
            splits={split: self._split(split, records) for split in self.shards},
            bos=job.bos,
            eos=job.eos,
            profile=None if job.profile is None else job.profile.name,
            settings=job.manifest_settings(),
            inputs=self.inputs,
            report=report_as_json(self.report),
        )

    def _split(self, split: str, records: Mapping[str, FileRecord]) -> Split:
        sizes = self.shards[split]
        shards = tuple(
            Shard(
                size.tokens,
                size.documents,
                size.bytes,
                {
                    kind: records[path]
                    for kind, path in self._paths(split, number).items()
                    if path in records
                },
            )
            for number, size in enumerate(sizes)
        )
        trained = sum(size.trained for size in sizes) if self._masked else None
        return Split(shards, trained)

    def _paths(self, split: str, number: int) -> dict[str, str]:
        """kind → place in the dataset folder, of every file of a shard."""
        layout, before = self.job.settings.format, self.shards_before.get(split, 0)
        num_shards = before + len(self.shards[split])
        tokens = layout.token_path(self.out_name, split, before + number, num_shards)
        arrays = ("documents", "bytes", "mask") if self._masked else ("documents", "bytes")
        return {
            "tokens": tokens,
            **{kind: array_path(kind, split, before + number) for kind in arrays},
            **layout.sidecar_paths(tokens, masked=self._masked),
        }

    def _placed(self, folder: Path, split: str) -> Iterator[str]:
        """Put the files of a split into `folder`, each with its header; gives their places."""
        for number, size in enumerate(self.shards[split]):
            paths = self._paths(split, number)
            for kind, path in paths.items():
                if kind == "tokens" or kind in ARRAYS:
                    self._place(self._grown(split, number, kind), folder / path, kind, size)
            mask = folder / paths["mask"] if self._masked else None
            self.job.settings.format.sidecars(
                folder / paths["tokens"],
                folder / paths["documents"],
                mask,
                dtype=self.job.dtype,
                tokenizer=self.job.tokenizer.sha256,
            )
            yield from paths.values()

    def _grown(self, split: str, number: int, kind: str) -> Path:
        return shard_path(self.work.path, split, number, kind, shuffled=self.shuffled)

    def _place(self, grown: Path, place: Path, kind: str, size: ShardSize) -> None:
        """Give a file its header and its place."""
        job = self.job
        if kind == "tokens":
            header = job.settings.format.header(size.tokens, job.dtype)
        else:
            length = size.tokens if kind == "mask" else size.documents
            header = npy_header(ARRAYS[kind], length)
        with open(grown, "r+b") as file:
            file.write(header)
        place.parent.mkdir(parents=True, exist_ok=True)
        link_or_copy(grown, place)


def joined(there: Manifest, added: Manifest) -> Manifest:
    """The manifest of a dataset that has grown by the shards of `added`."""
    splits = dict(there.splits)
    for name, split in added.splits.items():
        old = splits.get(name, Split(()))
        masked = split.trained_tokens is not None
        trained = (old.trained_tokens or 0) + (split.trained_tokens or 0) if masked else None
        splits[name] = Split((*old.shards, *split.shards), trained)
    return replace(
        there,
        splits=dict(sorted(splits.items(), key=lambda item: SPLIT_NAMES.index(item[0]))),
        inputs=(*there.inputs, *added.inputs),
        report=added_reports(there.report, added.report),
    )


def added_reports(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, object]:
    """The sums of what two runs met."""
    sums: dict[str, object] = {}
    for name in ("special_lookalikes", "left_out"):
        total: dict[str, int] = dict(old[name])
        for key, found in new[name].items():
            total[key] = total.get(key, 0) + found
        sums[name] = dict(sorted(total.items()))
    return {
        **{name: old[name] + new[name] for name in (*OF_READING, "truncated")},
        **sums,
        "limit_reached": old["limit_reached"] or new["limit_reached"],
        "skipped": [*old["skipped"], *new["skipped"]][:20],
    }


def link_or_copy(file: Path, place: Path) -> None:
    """The same bytes under another name; copied where the file system knows no links."""
    try:
        os.link(file, place)
    except OSError:
        shutil.copyfile(file, place)


def report_as_json(report: EncodeReport) -> dict[str, object]:
    """What a manifest says about the reading: the same on every run."""
    read = report.read
    counts = {name: getattr(read, name) for name in OF_READING}
    return {
        **counts,
        "limit_reached": read.limit_reached,
        "skipped": read.skipped,
        "special_lookalikes": dict(sorted(report.special_lookalikes.items())),
        "left_out": dict(sorted(report.left_out.items())),
        "truncated": report.truncated,
    }
