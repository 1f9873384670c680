"""A pull: names or addresses in, a folder of checked files out.

Everything is planned before the first byte: which objects, which paths, which sizes. Files arrive
under their final names whole or not at all, so that `train` and `encode` may read the folder at any
moment; `pull.json` comes last. Running it again checks what is there and fetches what is not.
"""

import os
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenmill.errors import ConfigError
from tokenmill.progress import Meter, ProgressChoice
from tokenmill.pull.call import DEFAULT_RETRIES, DEFAULT_SEED, DEFAULT_WORKERS
from tokenmill.pull.catalogue import NamedDataset, find_dataset
from tokenmill.pull.fetching import Arrived, Fetching
from tokenmill.pull.items import Item, Items, address_items, dataset_items
from tokenmill.pull.making import Made, make_rows
from tokenmill.pull.manifest import Pulled, add_to_manifest, folder_lock, read_manifest
from tokenmill.pull.record import FOLDER, Checked, Record
from tokenmill.pull.rows.shape import Choice
from tokenmill.sources.choices import require_one_of, require_whole_number
from tokenmill.storage.address import parse_address
from tokenmill.storage.files import file_state, local_path, sha256_of
from tokenmill.storage.retries import Patience

MAX_WORKERS = 64
ADDRESSES = "addresses"


@dataclass
class PullReport:
    """What a pull did."""

    folder: str
    name: str
    config: str | None
    revision: str | None
    licence: str | None
    files: int = 0
    bytes: int = 0
    fetched_files: int = 0
    fetched_bytes: int = 0
    """Bytes that came over the network in this run."""
    kept_files: int = 0
    replaced_files: int = 0
    of_files: int = 0
    """How many the dataset has in all."""
    rows: dict[str, int] = field(default_factory=dict)
    """Path → rows, where they were given another shape."""
    skipped: dict[str, int] = field(default_factory=dict)
    splits: dict[str, int] = field(default_factory=dict)
    """Split → files."""
    seconds: float = 0.0
    already_done: bool = False


def prepare_pull(
    what: str | Sequence[str],
    to: str | os.PathLike[str],
    *,
    config: str | None = None,
    shards: str | None = None,
    base_url: str | None = None,
    sha256: str | None = None,
    seed: int = DEFAULT_SEED,
    workers: int = DEFAULT_WORKERS,
    retries: int = DEFAULT_RETRIES,
    verify: bool = False,
    progress: ProgressChoice = None,
    patience: Patience | None = None,
) -> "PullRun":
    """A pull whose files are known, ready to run. The arguments are those of `pull`."""
    texts = [what] if isinstance(what, str) else list(what)
    require_whole_number("workers", workers, 1, MAX_WORKERS)
    require_whole_number("retries", retries, 0)
    require_whole_number("seed", seed, 0)
    patience = patience or Patience(retries=retries)
    folder = local_path(to)
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"`{folder}` is a file, but a pull fills a folder")
    dataset = _named(texts)
    if dataset is None:
        for flag, value in (("config", config), ("shards", shards), ("base-url", base_url)):
            if value is not None:
                raise ConfigError(f"`--{flag}` is for datasets that have a name")
        items = address_items(texts, sha256, patience)
        chosen = ""
    else:
        if sha256 is not None:
            raise ConfigError("`--sha256` is for a file named by its address")
        chosen = _config_of(dataset, config)
        items = dataset_items(dataset, chosen, shards, base_url, patience)
    return PullRun(
        folder, dataset, Choice(chosen, seed), items, workers, patience, verify, progress
    )


def _named(texts: Sequence[str]) -> NamedDataset | None:
    """The dataset that `texts` names, if it is one name; `None` for addresses and lists of them."""
    if not texts:
        raise ConfigError("nothing to pull was named")
    names = [text for text in texts if parse_address(text) is None and not os.path.isfile(text)]
    if not names:
        return None
    dataset = find_dataset(names[0])
    if len(texts) > 1:
        raise ConfigError(
            f"`{dataset.name}` goes alone: a folder holds one dataset that has a name",
            "pull the others into folders of their own",
        )
    return dataset


def _config_of(dataset: NamedDataset, config: str | None) -> str:
    configs = dataset.configs
    if config is None:
        return configs[0] if configs else ""
    if not configs:
        raise ConfigError(f"`{dataset.name}` has no configs to choose from")
    return require_one_of(f"config of `{dataset.name}`", config, configs)


@dataclass
class PullRun:
    """A pull, and where it goes."""

    folder: Path
    dataset: NamedDataset | None
    choice: Choice
    items: Items
    workers: int
    patience: Patience
    verify: bool
    progress: ProgressChoice

    @property
    def name(self) -> str:
        return ADDRESSES if self.dataset is None else self.dataset.name

    def plan(self) -> list[Item]:
        """Every item with its size, as far as servers tell."""
        return self._fetching(Record(self.folder), Meter(False)).ask(self.items.items)

    def run(self) -> PullReport:
        """Fetch what is missing and check the rest."""
        started = time.perf_counter()
        meter = Meter(self.progress)
        try:
            report = self._run(meter)
        finally:
            meter.end()
        report.seconds = time.perf_counter() - started
        return report

    def _run(self, meter: Meter) -> PullReport:
        record = Record(self.folder)
        if self.dataset is not None:
            record.claim(self._claim())
        if self.dataset is not None and self.dataset.rows is not None:
            return self._run_with_rows(self.dataset, record, meter)
        fetching = self._fetching(record, meter)
        items = fetching.ask(self.items.items)
        arrived = fetching.fetch(items, fetching.check(items))
        files = {each.item.path: _file_entry(each) for each in arrived}
        with folder_lock(self.folder, threading.Event()):
            add_to_manifest(self.folder, self._pulled(files))
        return self._report(arrived)

    def _run_with_rows(self, dataset: NamedDataset, record: Record, meter: Meter) -> PullReport:
        """What is fetched goes to a hidden folder, and from there as rows into the visible one."""
        hidden = self.folder / FOLDER / "files"
        fetching = Fetching(
            hidden,
            record,
            workers=self.workers,
            patience=self.patience,
            verify=self.verify,
            meter=meter,
        )
        items = fetching.ask(self.items.items)
        done = self._made_before(items, record)
        if done is not None:
            shutil.rmtree(hidden, ignore_errors=True)
            return done
        arrived = fetching.fetch(items, fetching.check(items))
        with folder_lock(self.folder, threading.Event()):
            # While this pull waited, another may have made the rows and removed the files.
            done = self._made_before(items, record)
            if done is not None:
                return done
            sources: dict[str, list[Path]] = {}
            for each in arrived:
                sources.setdefault(each.item.split or "", []).append(hidden / each.item.path)
            made = make_rows(dataset, sources, self.choice, self.folder)
            self._note_made(made, record)
            add_to_manifest(self.folder, self._pulled_rows(made, arrived))
            shutil.rmtree(hidden, ignore_errors=True)
        report = self._report(arrived)
        self._report_rows(report, {path: vars(each) for path, each in made.files.items()})
        report.skipped = dict(made.skipped)
        return report

    def _fetching(self, record: Record, meter: Meter) -> Fetching:
        return Fetching(
            self.folder,
            record,
            workers=self.workers,
            patience=self.patience,
            verify=self.verify,
            meter=meter,
        )

    def _claim(self) -> dict[str, object]:
        assert self.dataset is not None
        claim: dict[str, object] = {"name": self.name, "config": self.choice.config}
        if self.dataset.rows is not None:
            claim["seed"] = self.choice.seed
        return claim

    def _made_before(self, items: Sequence[Item], record: Record) -> PullReport | None:
        """The report of rows that an earlier run made of the same files, if they are still whole."""
        record.refresh()
        for entry in read_manifest(self.folder):
            if entry.get("name") != self.name or entry.get("config") != (
                self.choice.config or None
            ):
                continue
            if entry.get("settings") != self._settings() or not entry.get("files"):
                continue
            if not _same_sources(entry.get("sources", {}), items):
                continue
            if all(self._is_whole(path, file, record) for path, file in entry["files"].items()):
                report = self._report([])
                self._report_rows(report, entry["files"])
                report.skipped = dict(entry.get("skipped", {}))
                report.kept_files, report.already_done = report.files, True
                return report
        return None

    def _is_whole(self, path: str, file: Mapping[str, Any], record: Record) -> bool:
        target = self.folder / path
        if not target.is_file():
            return False
        state, known = file_state(target), record.find(path)
        if state.size != file.get("size"):
            return False
        if known is not None and known.is_of(state) and not self.verify:
            return known.sha256 == file.get("sha256")
        return sha256_of(target) == file.get("sha256")

    def _note_made(self, made: Made, record: Record) -> None:
        for path, file in made.files.items():
            state = file_state(self.folder / path)
            record.add(Checked(path, state.size, state.mtime_ns, file.sha256, self.name, None))

    def _settings(self) -> dict[str, object]:
        rows = self.dataset is not None and self.dataset.rows is not None
        return {"seed": self.choice.seed} if rows else {}

    def _pulled(
        self,
        files: Mapping[str, Mapping[str, object]],
        sources: Mapping[str, Mapping[str, object]] | None = None,
        skipped: Mapping[str, int] | None = None,
    ) -> Pulled:
        return Pulled(
            self.name,
            self.choice.config or None,
            None if self.items.base is None else self.items.base.shown,
            self.items.revision,
            None if self.dataset is None else self.dataset.licence,
            self._settings(),
            files,
            sources or {},
            skipped or {},
        )

    def _pulled_rows(self, made: Made, arrived: Sequence[Arrived]) -> Pulled:
        files = {
            path: {**vars(file), "split": path.partition("/")[0]}
            for path, file in made.files.items()
        }
        sources = {each.item.address.shown: _source_entry(each) for each in arrived}
        return self._pulled(files, sources, made.skipped)

    def _report(self, arrived: Sequence[Arrived]) -> PullReport:
        report = PullReport(
            str(self.folder),
            self.name,
            self.choice.config or None,
            self.items.revision,
            None if self.dataset is None else self.dataset.licence,
            files=len(arrived),
            bytes=sum(each.size for each in arrived),
            fetched_files=sum(each.transferred_bytes > 0 for each in arrived),
            fetched_bytes=sum(each.transferred_bytes for each in arrived),
            replaced_files=sum(each.replaced for each in arrived),
            of_files=self.items.total,
        )
        report.kept_files = report.files - report.fetched_files
        report.already_done = bool(arrived) and report.fetched_files == 0
        for each in arrived:
            if each.item.split is not None:
                report.splits[each.item.split] = report.splits.get(each.item.split, 0) + 1
        return report

    def _report_rows(self, report: PullReport, files: Mapping[str, Mapping[str, Any]]) -> None:
        report.rows = {path: file["rows"] for path, file in files.items()}
        report.files, report.bytes = len(files), sum(file["size"] for file in files.values())
        report.splits = {path.partition("/")[0]: 1 for path in files}


def _file_entry(arrived: Arrived) -> dict[str, object]:
    entry: dict[str, object] = {"size": arrived.size, "sha256": arrived.sha256}
    if arrived.item.split is not None:
        entry["split"] = arrived.item.split
    return {**entry, "address": arrived.item.address.shown}


def _source_entry(arrived: Arrived) -> dict[str, object]:
    state = arrived.item.state
    etag = None if state is None else state.etag
    return {"size": arrived.size, "sha256": arrived.sha256, "etag": etag}


def _same_sources(recorded: Mapping[str, Mapping[str, Any]], items: Sequence[Item]) -> bool:
    """Whether the server still has what the rows were made of: by sha256 where it states one, else
    by size and ETag. Commits come and go, so addresses are compared without them."""
    by_name = {name.rpartition("/")[2]: entry for name, entry in recorded.items()}
    if len(by_name) != len(items):
        return False
    for item in items:
        then, now = by_name.get(item.address.name), item.state
        if then is None or now is None or then.get("size") != now.size:
            return False
        if now.sha256 is not None and now.sha256 != then.get("sha256"):
            return False
        if now.sha256 is None and (now.etag is None or now.etag != then.get("etag")):
            return False
    return True
