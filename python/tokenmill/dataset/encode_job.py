"""One encode under way: sources in, growing shard files out, unit by unit.

The files of a split grow in `OUT.partial`; a unit appends to them and then leaves its note, which
says how long they are now. So a run that was killed goes on by cutting off what has no note. Units
are encoded in order, each by all threads; while one is encoded the one before is brought to the disk.
"""

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any, TypedDict

from tokenmill import _core
from tokenmill.chat.encoder import RowOptions, core_encoder
from tokenmill.chat.foreign_template import find_template
from tokenmill.chat.prepare import prepare_tokenizer
from tokenmill.chat.profile_file import find_profile
from tokenmill.chat.template_rows import TemplateEncoder
from tokenmill.dataset.arrays import NPY_HEADER_BYTES
from tokenmill.dataset.committer import Committer
from tokenmill.dataset.encode_progress import (
    EncodeProgress,
    EncodeReport,
    SplitUnit,
    require_same_plan,
    shard_prefix,
)
from tokenmill.dataset.settings import EncodeSettings
from tokenmill.dataset.shard_sizes import Growth, ShardSize
from tokenmill.dataset.splits import SPLITS, SplitSource
from tokenmill.progress import Meter
from tokenmill.sources.options import ReadOptions
from tokenmill.sources.source import Part, TextSource
from tokenmill.sources.stored_files import StoredFile, is_stored
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.work.folder import WorkFolder
from tokenmill.work.read_report import ReadReport
from tokenmill.work.reading import BLOCK_BYTES, Reading, new_reader
from tokenmill.work.units import UNIT_BYTES, Unit, plan_as_json, plan_units

SHUFFLE_BYTES = 256_000_000
"""What documents may take while they are brought into another order; the rest waits on disk."""

log = logging.getLogger("tokenmill")


class FileLayout(TypedDict):
    """What the core has to know about the files of a shard."""

    token_header: int
    other_header: int
    shard_tokens: int | None
    wide: bool
    masked: bool


@dataclass
class EncodeJob:
    """Sources and how to encode them."""

    sources: Sequence[SplitSource]
    options: ReadOptions
    settings: EncodeSettings
    tokenizer: Tokenizer
    threads: int
    unit_bytes: int = UNIT_BYTES
    block_bytes: int = BLOCK_BYTES

    def __post_init__(self) -> None:
        self.profile = None
        self.template = None
        if self.settings.chat_template is not None:
            self.template = find_template(self.settings.chat_template, self.tokenizer)
            self.tokenizer = self.tokenizer.with_chat_template(self.template)
        elif self.settings.has_rows:
            self.profile = find_profile(self.settings.profile)
            self.tokenizer = prepare_tokenizer(self.tokenizer, self.profile)
        self._options_of_rows = self._row_options() if self.settings.has_rows else None
        self.dtype = self.settings.format.dtype_for(self.tokenizer.vocab_size, self.settings.dtype)
        self.ends = self.settings.ends_in(self.tokenizer)

    @property
    def eos(self) -> str | None:
        """The special token after every document; where there are turns, each has its own end."""
        return None if self.settings.has_rows else self.settings.eos

    @property
    def bos(self) -> str | None:
        return None if self.settings.has_rows else self.settings.bos

    def _row_options(self) -> RowOptions:
        settings = self.settings
        return RowOptions(
            mode=settings.mode,
            shape=settings.shape,
            max_tokens=settings.max_tokens,
            too_long=settings.too_long,
            invalid_utf8=self.options.invalid_utf8,
        )

    def manifest_settings(self) -> dict[str, object]:
        """What a manifest records of the settings, besides what has an entry of its own there. A
        profile with all it says: a file of the same name may say something else tomorrow."""
        rendering: dict[str, object] = {}
        if self.profile is not None:
            rendering = {"profile": self.profile.as_json()}
        elif self.template is not None:
            rendering = {"chat_template": self.template}
        return {**self.settings.as_settings(), **rendering, "read": self.options.as_settings()}

    def identity(self) -> dict[str, object]:
        """All that decides what a unit appends, besides the text."""
        return {
            "mode": self.settings.mode,
            "profile": None if self.profile is None else repr(self.profile),
            "chat_template": self.template,
            "layout": self.settings.layout,
            "dtype": self.dtype,
            "tokenizer": self.tokenizer.sha256,
            "bos": self.bos,
            "eos": self.eos,
            **self.settings.as_settings(),
            "read": self.options.as_settings(),
            "version": _core.__version__,
        }

    def units(self) -> list[SplitUnit]:
        """The plan: splits one after another, within each the inputs as they were named."""
        identity = self.identity()
        units: list[SplitUnit] = []
        for split in SPLITS:
            sources = [each.source for each in self.sources if each.split == split]
            settings = {**identity, "split": split}
            for run in _runs_of_files(sources):
                if isinstance(run, list):
                    planned = plan_units(run, self.options, settings, self.unit_bytes, len(units))
                    units += [SplitUnit(each, split, _parts(each)) for each in planned]
                else:
                    name = f"{len(units):05}-stream"
                    units.append(SplitUnit(Unit(name, ()), split, ((run, None),)))
        return units

    def run(
        self,
        work: WorkFolder,
        meter: Meter,
        inputs_read: Callable[[int], None],
        units: Sequence[SplitUnit] | None = None,
    ) -> tuple[Growth, EncodeReport]:
        """Encode what is not encoded yet, of all units or of those that are given. What grew is in
        the work folder, for someone to finish. `inputs_read` hears how many sources were begun."""
        units = self.units() if units is None else units
        progress = EncodeProgress(units, work)
        done = progress.take_up(require_same_plan(work, units))
        work.begin(self._plan(units), progress.files_to_keep(units[:done]))
        if done:
            log.info("going on after %d of %d units", done, len(units))
        with Committer(work) as committer, self._rows() as rows:
            for number, unit in enumerate(units[done:], start=done):
                if number == done:
                    progress.begin(meter, done)
                if progress.limit_reached(unit.split):
                    committer.commit(unit.unit, (), {"limit": True})
                    continue
                # Told before it is encoded: whoever hashes inputs does so at the same time.
                inputs_read(progress.report.read.inputs + unit.inputs_begun)
                note = self._encode(unit, progress, meter, work, rows)
                progress.add(unit, note)
                committer.commit(unit.unit, progress.files_of(note), note)
        return progress.growth, progress.report

    def shuffle(
        self, work: WorkFolder, shards: Mapping[str, Sequence[ShardSize]], seed: int, meter: Meter
    ) -> dict[str, list[ShardSize]]:
        """Bring the documents of each split into the order that `seed` gives, in files of their own;
        their sizes. Nothing of it is kept for a later run."""
        meter.begin("shuffling", "documents")
        return {
            split: self._shuffle_split(work, split, sizes, seed, meter)
            for split, sizes in shards.items()
        }

    def _shuffle_split(
        self, work: WorkFolder, split: str, sizes: Sequence[ShardSize], seed: int, meter: Meter
    ) -> list[ShardSize]:
        documents = sum(size.documents for size in sizes)
        shuffled = _core.shuffle_documents(
            source=str(work.path / shard_prefix(split)),
            target=str(work.path / shard_prefix(split, shuffled=True)),
            sizes=sizes,
            seed=seed,
            group=2 if self.settings.mode == "preference" else 1,
            memory=SHUFFLE_BYTES,
            progress=(lambda done, _: meter.update(done, done / documents))
            if meter.is_shown
            else None,
            **self.file_layout(),
        )
        return [ShardSize(*size) for size in shuffled if size[1]]

    def file_layout(self) -> FileLayout:
        """How the files of a shard look while they grow."""
        return {
            "token_header": self.settings.format.header_bytes,
            "other_header": NPY_HEADER_BYTES,
            "shard_tokens": self.settings.tokens_per_shard,
            "wide": self.dtype != "uint16",
            "masked": self.settings.has_rows,
        }

    def _plan(self, units: Sequence[SplitUnit]) -> bytes:
        return plan_as_json("encode", [each.unit for each in units], self.identity())

    @contextmanager
    def _rows(self) -> Generator[_core.ChatEncoder | TemplateEncoder | None]:
        """Who encodes rows, if documents are rows."""
        options = self._options_of_rows
        if self.template is not None and options is not None:
            with TemplateEncoder(self.tokenizer, self.template, options, self.threads) as rows:
                yield rows
        elif self.profile is not None:
            yield core_encoder(self.tokenizer, self.profile, options)
        else:
            yield None

    def _encode(
        self,
        unit: SplitUnit,
        progress: EncodeProgress,
        meter: Meter,
        work: WorkFolder,
        rows: _core.ChatEncoder | TemplateEncoder | None,
    ) -> dict[str, Any]:
        before = progress.read_before(unit.split)
        options = self.options
        if rows is not None:
            # What is wrong inside of a row is for whoever reads the row to judge.
            options = replace(options, invalid_utf8="keep")
        reader = new_reader(options, before.chars, before.bytes, self.block_bytes)
        reading = Reading(
            unit.parts, self.options, meter, progress.bytes_before(), progress.total_bytes
        )
        targets = self._targets(unit.split)
        starts = [progress.growth.last(target) for target in targets]
        sizes, lookalikes, left_out, truncated = reading.run(
            reader,
            lambda sources, show: _core.encode_documents(
                self.tokenizer._bpe,  # pyright: ignore[reportPrivateUsage]
                reader,
                sources,
                targets=[
                    (str(work.path / shard_prefix(target)), number, size)
                    for target, (number, size) in zip(targets, starts, strict=True)
                ],
                bos=self.ends.bos,
                eos=self.ends.eos,
                allowed_special=self.settings.allow_special,
                rows=rows,
                skip_errors=self.options.on_error == "skip",
                held_out=self._held_out if len(targets) > 1 else None,
                threads=self.threads,
                progress=show,
                **self.file_layout(),
            ),
        )
        report = ReadReport(
            inputs=reading.num_inputs,
            **reader.report,
            skipped=reader.skipped,
            limit_reached=reader.limit_reached,
        )
        grown = {
            target: {"shard": number, "sizes": now}
            for target, (number, _), now in zip(targets, starts, sizes, strict=True)
        }
        met = EncodeReport(report, lookalikes, left_out, truncated)
        return {"splits": grown, "report": asdict(met)}

    @property
    def _held_out(self) -> tuple[float, int] | None:
        fraction = self.settings.val_fraction
        return None if fraction is None else (fraction, self.settings.seed)

    def _targets(self, split: str) -> list[str]:
        """The splits that documents of an input of `split` may go to."""
        if split == "train" and self.settings.val_fraction is not None:
            return ["train", "validation"]
        return [split]


def _runs_of_files(sources: Sequence[TextSource]) -> Generator[list[StoredFile] | TextSource]:
    """Files that follow each other, together; everything else by itself."""
    files: list[StoredFile] = []
    for source in sources:
        if is_stored(source):
            files.append(source)
            continue
        if files:
            yield files
        files = []
        yield source
    if files:
        yield files


def _parts(unit: Unit) -> tuple[tuple[TextSource, Part | None], ...]:
    return tuple((part.file, part.part) for part in unit.parts)
