"""`NAME.part`: a file on its way here, held by one process at a time, for any other to go on with.

The bytes are in `NAME.part`, locked while somebody adds to them; the lock goes with the process,
however that ends. `.NAME.part.json` beside it says which version of which object they are, and is
written before the first byte. Listings of ours see neither.
"""

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from tokenmill.storage.files import HASH_BLOCK_BYTES, clean_errors, fsync_folder
from tokenmill.storage.remote import RemoteState

try:
    import fcntl
except ImportError:  # Windows: two pulls at once cost time there, and the hash still decides
    fcntl = None


@dataclass(frozen=True)
class Note:
    """Which object the bytes of a `.part` belong to."""

    address: str
    state: RemoteState

    @staticmethod
    def read(path: Path) -> "Note | None":
        """The note at `path`; `None` if there is none, or none that makes sense."""
        try:
            value: Any = json.loads(path.read_bytes())
            texts = [value[name] for name in ("etag", "last_modified", "sha256")]
            if not all(text is None or isinstance(text, str) for text in texts):
                return None
            size = value["size"]
            if size is not None and not isinstance(size, int):
                return None
            return Note(str(value["address"]), RemoteState(size, *texts))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write(self, path: Path) -> None:
        """Not in one step: it is written when there are no bytes yet, and one that is cut is none."""
        value = {"address": self.address, **vars(self.state)}
        path.write_bytes(json.dumps(value, indent=1).encode() + b"\n")


class PartFile:
    """One process's hold on a `.part`."""

    def __init__(self, target: Path, descriptor: int) -> None:
        self._target = target
        self._part, self._note = part_path(target), note_path(target)
        self._descriptor = descriptor
        self.size = os.fstat(descriptor).st_size
        self.note = Note.read(self._note)
        self._digest: Any = None

    @staticmethod
    def claim(target: Path) -> "PartFile | None":
        """The `.part` of `target`, made if it is not there; `None` if another process has it."""
        part = part_path(target)
        with clean_errors(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            while True:
                flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
                descriptor = os.open(part, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)
                try:
                    if fcntl is not None:
                        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if _is_still(part, descriptor):
                        return PartFile(target, descriptor)
                except BlockingIOError:
                    os.close(descriptor)
                    return None
                except BaseException:
                    os.close(descriptor)
                    raise
                # Its former holder renamed or removed it between our opening and our locking.
                os.close(descriptor)

    def __enter__(self) -> "PartFile":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def start_over(self, note: Note | None = None) -> None:
        """Forget the bytes; those that follow are of the version `note` names."""
        with clean_errors(self._target):
            os.ftruncate(self._descriptor, 0)
            self.size, self.note, self._digest = 0, note, None
            if note is None:
                self._note.unlink(missing_ok=True)
            else:
                note.write(self._note)

    def append(self, block: bytes) -> None:
        digest = self._hashed()
        with clean_errors(self._target):
            os.lseek(self._descriptor, self.size, os.SEEK_SET)
            rest = memoryview(block)
            while rest:
                written = os.write(self._descriptor, rest)
                self.size, rest = self.size + written, rest[written:]
        digest.update(block)

    def _hashed(self) -> Any:
        """The hash of all bytes so far. Those of an earlier run are read once."""
        if self._digest is None:
            self._digest = hashlib.sha256()
            os.lseek(self._descriptor, 0, os.SEEK_SET)
            while block := os.read(self._descriptor, HASH_BLOCK_BYTES):
                self._digest.update(block)
        return self._digest

    def sha256(self) -> str:
        """The sha256 of all bytes so far, in hex."""
        return self._hashed().copy().hexdigest()

    def finish(self) -> None:
        """Give the file its name. Whatever had that name is replaced."""
        with clean_errors(self._target):
            os.fsync(self._descriptor)
            if fcntl is None:  # Windows does not rename what is open
                self._close()
            os.replace(self._part, self._target)
            fsync_folder(self._target.parent)
            self._note.unlink(missing_ok=True)

    def discard(self) -> None:
        """Nothing is needed of it: the file is there already."""
        with contextlib.suppress(OSError):
            self._note.unlink(missing_ok=True)
            self._part.unlink(missing_ok=True)


def part_path(target: Path) -> Path:
    return target.with_name(f"{target.name}.part")


def note_path(target: Path) -> Path:
    return target.with_name(f".{target.name}.part.json")


def remove_stale_note(target: Path) -> None:
    """A process that was killed just after it gave `target` its name leaves the note behind."""
    if not part_path(target).exists():
        with contextlib.suppress(OSError):
            note_path(target).unlink(missing_ok=True)


def _is_still(part: Path, descriptor: int) -> bool:
    try:
        named = os.stat(part, follow_symlinks=False)
    except FileNotFoundError:
        return False
    held = os.fstat(descriptor)
    return (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)
