"""Fetch one object into one file: resumed where it stopped, checked, and whole or absent.

Bytes go to `NAME.part` (part_file.py). Going on asks for the rest of the same version (Range with
If-Range); a server that sends another version or everything is taken at its word and the `.part`
starts over, so no file is ever a mixture. Its length and, where anybody states one, its sha256 are
checked before it gets its name.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from tokenmill.errors import SourceError
from tokenmill.progress import quantity
from tokenmill.storage.address import Address
from tokenmill.storage.part_file import Note, PartFile
from tokenmill.storage.remote import (
    READ_BYTES,
    Changed,
    Interruption,
    OutOfRange,
    RemoteBody,
    RemoteState,
    RemoteStore,
)
from tokenmill.storage.retries import DEFAULT_PATIENCE, Patience, Tries, with_retries

WRONG_CONTENT_TRIES = 3
"""A server that sends other bytes than it promises is believed after this many times."""
PROGRESS_BYTES = 1 << 20
"""What must have arrived, or a hundredth of the file, before failures are counted from none again."""


@dataclass(frozen=True)
class Download:
    """One object and where it goes."""

    store: RemoteStore
    address: Address
    target: Path
    stated: RemoteState
    """What its server said when it was asked; the rest is learned on the way."""
    sha256: str | None = None
    """What the content must be, by somebody other than the server."""
    patience: Patience = DEFAULT_PATIENCE
    stop: threading.Event = field(default_factory=threading.Event)
    progress: Callable[[int], None] = lambda num_bytes: None
    """Gets the number of bytes of this file that are here."""

    def run(self, part: PartFile) -> "Fetched":
        """Fetch into `part` and give it its name. SourceError if that cannot be done; what has
        arrived stays for the next time."""
        return _Fetching(self, part).run()


@dataclass(frozen=True)
class Fetched:
    """A file that has arrived."""

    size: int
    sha256: str
    state: RemoteState
    """Of the object it came from."""
    transferred_bytes: int


class _Fetching:
    def __init__(self, download: Download, part: PartFile) -> None:
        self._download = download
        self._part = part
        self._stated = download.stated
        self._tries = Tries(download.address.shown, download.patience, download.stop)
        self._wrong_contents = 0
        self._transferred_bytes = 0

    def run(self) -> Fetched:
        while True:
            before = self._part.size
            try:
                self._fetch_rest()
                problem = self._problem()
                if problem is None:
                    break
                self._wrong_content(problem)
            except Interruption as interruption:
                enough = min(PROGRESS_BYTES, (self._stated.size or PROGRESS_BYTES) // 100)
                if self._part.size - before > enough:
                    self._tries.made_progress()
                self._tries.failed(interruption)
        assert self._part.note is not None
        fetched = Fetched(
            self._part.size, self._part.sha256(), self._part.note.state, self._transferred_bytes
        )
        self._part.finish()
        return fetched

    def _fetch_rest(self) -> None:
        if not self._can_go_on():
            self._start_over(None)
        self._download.progress(self._part.size)
        if self._is_complete():
            return
        try:
            body = self._open()
        except Changed:
            self._start_over(None)
            raise Interruption("the object changed while it was fetched") from None
        except OutOfRange as refused:
            self._range_refused(refused)
            return
        try:
            self._take(body)
        finally:
            body.close()

    def _open(self) -> RemoteBody:
        note = self._part.note
        validator = note.state.validator if note is not None and self._part.size > 0 else None
        return self._download.store.open(
            self._download.address, self._part.size, validator=validator
        )

    def _can_go_on(self) -> bool:
        """Whether the bytes here can be shown to belong to what is to be fetched."""
        note, stated = self._part.note, self._stated
        if self._part.size == 0 or note is None:
            return False
        if stated.size is not None and self._part.size > stated.size:
            return False
        expected = self._expected_sha256()
        if expected is not None and note.state.sha256 is not None:
            # The same content by whatever address: on the Hub every commit is another one.
            return expected == note.state.sha256
        # Without a validator nobody could tell whether the rest is of the same version. With one the
        # server tells: it answers If-Range with the rest, or with all of another version.
        return note.address == self._download.address.shown and note.state.validator is not None

    def _is_complete(self) -> bool:
        note = self._part.note
        if self._part.size != self._stated.size:
            return False
        if note is None:  # an empty object
            self._start_over(self._stated)
            return True
        return self._expected_sha256() is not None or (
            note.state.etag is not None and note.state.etag == self._stated.etag
        )

    def _range_refused(self, refused: OutOfRange) -> None:
        """416: there is nothing after what is here. If that is all of the version that is here, it
        is complete; otherwise another version is there now."""
        shown = self._download.address.shown
        self._stated = with_retries(
            shown,
            lambda: self._download.store.stat(self._download.address),
            self._download.patience,
            self._download.stop,
        )
        note = self._part.note
        size = self._stated.size if refused.size is None else refused.size
        if (
            note is not None
            and self._part.size == size
            and self._part.size > 0
            and note.state.is_same_version(self._stated)
        ):
            return
        self._start_over(None)
        raise Interruption("the server has no such range any more")

    def _take(self, body: RemoteBody) -> None:
        """Add what `body` brings to the part."""
        note = self._part.note
        if body.start != self._part.size or note is None or self._part.size == 0:
            self._start_over(body.state)
        elif not note.state.is_same_version(body.state):
            self._start_over(None)
            raise Interruption("the server sends a part of another version")
        while block := body.read(READ_BYTES):
            if self._download.stop.is_set():
                raise InterruptedError(self._download.address.shown)
            self._part.append(block)
            self._transferred_bytes += len(block)
            self._download.progress(self._part.size)

    def _start_over(self, state: RemoteState | None) -> None:
        note = None
        if state is not None:
            sha256 = state.sha256 or self._expected_sha256()
            note = Note(self._download.address.shown, replace(state, sha256=sha256))
        self._part.start_over(note)
        self._download.progress(0)

    def _expected_sha256(self) -> str | None:
        return self._download.sha256 or self._stated.sha256

    def _problem(self) -> str | None:
        """What is wrong with the content, if anything. The newest word of the server counts, that
        of a person more."""
        note = self._part.note
        state = self._stated if note is None else note.state
        size = state.size if state.size is not None else self._stated.size
        if size is not None and self._part.size != size:
            return f"{self._part.size:,} bytes arrived of `{{}}`, {size:,} were announced"
        expected = self._download.sha256 or state.sha256 or self._stated.sha256
        found = self._part.sha256()
        if expected is not None and found != expected:
            return f"`{{}}` has the sha256 `{found}`, expected `{expected}`"
        return None

    def _wrong_content(self, problem: str) -> None:
        self._wrong_contents += 1
        self._start_over(None)
        if self._wrong_contents >= min(WRONG_CONTENT_TRIES, self._download.patience.retries + 1):
            times = quantity(self._wrong_contents, "time")
            raise SourceError(
                f"{problem.format(self._download.address.shown)}; fetched {times}, nothing was kept",
                "the file on the server is damaged, or is not the one that was meant",
            )
        raise Interruption(problem.format(self._download.address.shown))
