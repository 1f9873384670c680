"""Many files at once: threads take items in turn, and leave those that another pull is fetching.

Whoever finds a file locked takes the next and comes back; when both are done, both have found every
file whole. One file that cannot be had does not keep the others from arriving.
"""

import collections
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from tokenmill.errors import SourceError
from tokenmill.progress import Meter, size
from tokenmill.pull.items import Item
from tokenmill.pull.record import Checked, Record
from tokenmill.storage.download import Download
from tokenmill.storage.files import FileState, sha256_of
from tokenmill.storage.part_file import PartFile, part_path, remove_stale_note
from tokenmill.storage.remote import RemoteState, store_of
from tokenmill.storage.retries import Patience, with_retries

T = TypeVar("T")

BUSY_SECONDS = 0.2
LOOK_SECONDS = 0.1

log = logging.getLogger("tokenmill")


@dataclass(frozen=True)
class Arrived:
    """A file that is here and whole."""

    item: Item
    size: int
    sha256: str
    transferred_bytes: int
    """0 if it was here already, or another pull brought it."""
    replaced: bool = False
    """Whether another file of that name had to go."""


class Fetching:
    """The files of one pull, on their way into `folder`."""

    def __init__(
        self,
        folder: Path,
        record: Record,
        *,
        workers: int,
        patience: Patience,
        verify: bool = False,
        meter: Meter | None = None,
    ) -> None:
        self._folder = folder
        self._record = record
        self._workers = workers
        self._patience = patience
        self._verify = verify
        self._meter = meter or Meter(False)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._here: dict[str, int] = {}
        """Bytes of each item so far."""
        self._total: int | None = None
        self._distrusted: set[str] = set()
        """Files that were read and found wrong, whatever the record says."""

    def ask(self, items: Sequence[Item]) -> list[Item]:
        """The items with what their servers say about them."""
        found = dict(enumerate(items))

        def ask_one(index: int) -> bool:
            item = found[index]
            store = store_of(item.address)
            state = with_retries(
                item.address.shown, lambda: store.stat(item.address), self._patience, self._stop
            )
            found[index] = replace(item, state=state)
            return True

        unknown = [index for index, item in found.items() if item.state is None]
        self._in_threads(unknown, ask_one)
        return [found[index] for index in range(len(items))]

    def check(self, items: Sequence[Item]) -> dict[str, Arrived]:
        """Those that are here and whole already, by path."""
        found: dict[str, Arrived] = {}

        def check_one(item: Item) -> bool:
            arrived = self._if_here(item, self._verify)
            if arrived is not None:
                remove_stale_note(self._folder / item.path)
                found[item.path] = arrived
                self._progress(item.path, arrived.size)
            return True

        self._begin("checking", items)
        self._in_threads(items, check_one)
        return found

    def fetch(self, items: Sequence[Item], already: dict[str, Arrived]) -> list[Arrived]:
        """All items, those that are not `already` here having been fetched."""
        found = dict(already)
        self._here = {path: arrived.size for path, arrived in already.items()}

        def fetch_one(item: Item) -> bool:
            arrived = self._fetch_one(item)
            if arrived is None:
                return False
            found[item.path] = arrived
            self._progress(item.path, arrived.size)
            return True

        missing = [item for item in items if item.path not in already]
        for item in missing:
            part = part_path(self._folder / item.path)
            self._here[item.path] = part.stat().st_size if part.exists() else 0
        self._begin("pulling", items)
        self._warn_of_space()
        self._in_threads(missing, fetch_one)
        return [found[item.path] for item in items]

    def _fetch_one(self, item: Item) -> Arrived | None:
        """`None` if another process is at it."""
        target = self._folder / item.path
        part = PartFile.claim(target)
        if part is None:
            return None
        with part:
            # Another process may have brought it since it was looked for.
            self._record.refresh()
            arrived = self._if_here(item, verify=item.path in self._distrusted)
            if arrived is not None:
                part.discard()
                return arrived
            replaced = target.exists()
            if replaced:
                log.warning("`%s` is not what `%s` is; fetching it", target, item.address.shown)
            assert item.state is not None
            download = Download(
                store_of(item.address),
                item.address,
                target,
                item.state,
                item.sha256,
                self._patience,
                self._stop,
                lambda num_bytes: self._progress(item.path, num_bytes),
            )
            fetched = download.run(part)
            self._note(item, fetched.sha256, fetched.state.etag)
        return Arrived(item, fetched.size, fetched.sha256, fetched.transferred_bytes, replaced)

    def _if_here(self, item: Item, verify: bool) -> Arrived | None:
        """The file of `item` if it is here and is what the server has; files that were checked
        before are not read again unless `verify`."""
        target = self._folder / item.path
        try:
            found = os.stat(target)
        except FileNotFoundError:
            return None
        assert item.state is not None
        state, stated = FileState(found.st_size, found.st_mtime_ns), item.state
        if stated.size is not None and state.size != stated.size:
            return None
        known = self._record.find(item.path)
        if known is not None and (not known.is_of(state) or known.address != item.address.shown):
            known = None
        expected = item.expected_sha256
        if known is not None and expected is None and _changed(known, stated):
            return None
        if known is None and expected is None and stated.size is None:
            return None  # nothing to tell it by
        sha256 = known.sha256 if known is not None and not verify else None
        if sha256 is None:
            sha256 = sha256_of(target, stop=self._stop.is_set)
        if sha256 != (expected or (sha256 if known is None else known.sha256)):
            self._distrusted.add(item.path)
            return None
        if known is None:
            self._note(item, sha256, stated.etag)
        return Arrived(item, state.size, sha256, 0)

    def _note(self, item: Item, sha256: str, etag: str | None) -> None:
        found = os.stat(self._folder / item.path)
        self._record.add(
            Checked(item.path, found.st_size, found.st_mtime_ns, sha256, item.address.shown, etag)
        )

    def _progress(self, path: str, num_bytes: int) -> None:
        with self._lock:
            self._here[path] = num_bytes

    def _begin(self, phase: str, items: Sequence[Item]) -> None:
        sizes = [item.state.size if item.state is not None else None for item in items]
        self._total = None if None in sizes else sum(size for size in sizes if size is not None)
        before = sum(self._here.values())
        self._meter.begin(phase, "bytes", before, before / self._total if self._total else 0.0)

    def _warn_of_space(self) -> None:
        needed = (self._total or 0) - sum(self._here.values())
        free = shutil.disk_usage(self._folder).free if self._folder.exists() else needed
        if needed > free:
            log.warning("%s to fetch, %s free in `%s`", size(needed), size(free), self._folder)

    def _show(self) -> None:
        with self._lock:
            here = sum(self._here.values())
        self._meter.update(here, here / self._total if self._total else None)

    def _in_threads(self, tasks: Sequence[T], work: Callable[[T], bool]) -> None:
        """Do `work` on every task; one that returns False is tried again later."""
        errors: list[BaseException] = []
        queue = collections.deque(tasks)

        def run() -> None:
            num_busy = 0  # in a row: after a whole round of them it is time to wait
            while not self._stop.is_set():
                try:
                    task = queue.popleft()
                except IndexError:
                    return
                try:
                    num_busy = 0 if work(task) else num_busy + 1
                    if num_busy > 0:
                        queue.append(task)
                    if num_busy >= len(queue) > 0:
                        self._stop.wait(BUSY_SECONDS)
                except SourceError as error:
                    errors.append(error)
                except InterruptedError:
                    return
                except BaseException as error:
                    errors.insert(0, error)
                    self._stop.set()

        threads = [
            threading.Thread(target=run, name=f"tokenmill-pull-{number}", daemon=True)
            for number in range(min(self._workers, len(tasks)))
        ]
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads):
                self._show()
                time.sleep(LOOK_SECONDS if self._meter.is_shown else LOOK_SECONDS / 10)
        finally:
            # A thread that waits for its server is left behind: it is at the mercy of the network,
            # and what it holds is good at any moment.
            if any(thread.is_alive() for thread in threads):
                self._stop.set()
        if errors:
            raise _told(errors, len(tasks))
        self._show()


def _changed(known: Checked, stated: RemoteState) -> bool:
    return known.etag is not None and stated.etag is not None and known.etag != stated.etag


def _told(errors: Sequence[BaseException], num_tasks: int) -> BaseException:
    """The first error, saying how many files share its fate."""
    first = errors[0]
    if not isinstance(first, SourceError) or len(errors) == 1:
        return first
    return SourceError(
        f"{first.message} (and {len(errors) - 1} more of {num_tasks:,} files failed)", first.hint
    )
