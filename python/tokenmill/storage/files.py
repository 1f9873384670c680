"""Files on this machine: look at them, hash them, and write them so that they are whole or absent.

Every write goes to a hidden temporary neighbour first, is flushed to the disk, and takes its final
name by a rename; a crash, a full disk or Ctrl-C leaves the final name as it was. Temporary names
start with a dot, so no listing of ours ever sees them.
"""

import contextlib
import errno
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tokenmill.errors import ConfigError, SourceError, TokenmillError

HASH_BLOCK_BYTES = 1 << 20
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def local_path(address: str | os.PathLike[str]) -> Path:
    """The path on this machine that `address` names. ConfigError if it is an address elsewhere:
    inputs may be (sources/inputs.py), outputs and artifacts may not."""
    text = os.fspath(address)
    scheme, found, _ = text.partition("://")
    if found and scheme.isalnum():
        raise ConfigError(
            f"`{text}` is a `{scheme}` address, but a path on this machine is needed here",
            "only inputs of text may be elsewhere",
        )
    return Path(text)


@dataclass(frozen=True)
class FileState:
    """Size and modification time: what tells whether a file is still the one that was planned."""

    size: int
    mtime_ns: int


def file_state(path: Path) -> FileState:
    """The state of `path` now. A file that cannot be reached is a SourceError."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise unreadable(path, error) from error
    return FileState(found.st_size, found.st_mtime_ns)


def require_unchanged(path: Path, before: FileState) -> None:
    """SourceError if `path` is not in the state `before` any more."""
    now = file_state(path)
    if now == before:
        return
    detail = (
        f"{before.size:,} bytes at first, {now.size:,} now"
        if now.size != before.size
        else f"rewritten, still {now.size:,} bytes"
    )
    raise SourceError(
        f"`{path}` changed while it was read: {detail}", "wait until it is complete, then run again"
    )


def unreadable(path: Path, error: OSError) -> SourceError:
    """What to raise when the operating system refuses to read `path`."""
    if isinstance(error, FileNotFoundError):
        return SourceError(f"`{path}` does not exist", _nearest_neighbour(path))
    if isinstance(error, PermissionError):
        return SourceError(f"`{path}` may not be read: permission denied")
    return SourceError(f"`{path}` cannot be read: {error.strerror or error}")


def _nearest_neighbour(path: Path) -> str | None:
    import difflib

    try:
        names = os.listdir(path.parent)
    except OSError:
        return f"`{path.parent}` does not exist either"
    close = difflib.get_close_matches(path.name, names, n=1)
    return f"did you mean `{path.parent / close[0]}`?" if close else None


def sha256_of(
    path: Path,
    *,
    stop: Callable[[], bool] = lambda: False,
    read: Callable[[int], None] = lambda num_bytes: None,
) -> str:
    """The sha256 of the file's bytes, in hex. `stop` is asked between blocks; InterruptedError when
    it says yes. `read` hears how many bytes each block had."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb", buffering=0) as file:
            while block := file.read(HASH_BLOCK_BYTES):
                if stop():
                    raise InterruptedError(f"hashing `{path}` was stopped")
                digest.update(block)
                read(len(block))
    except InterruptedError:
        raise
    except OSError as error:
        raise unreadable(path, error) from error
    return digest.hexdigest()


@contextlib.contextmanager
def open_atomically(path: str | os.PathLike[str]) -> Generator[BinaryIO]:
    """A file to write; it takes the name `path` when the block ends well, and vanishes otherwise."""
    final = local_path(path)
    with clean_errors(final):
        final.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(
            prefix=f".{final.name}.", suffix=".partial", dir=final.parent
        )
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                os.chmod(name, 0o666 & ~_umask())
                os.fsync(file.fileno())
            os.replace(name, final)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
        fsync_folder(final.parent)


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Make `path` hold exactly `data`."""
    with open_atomically(path) as file:
        file.write(data)


@contextlib.contextmanager
def write_folder_atomically(folder: str | os.PathLike[str]) -> Generator[Path]:
    """An empty folder to fill; it becomes `folder` when the block ends well, and vanishes
    otherwise.

    A `folder` that is there already is replaced as a whole, and only then: callers ask before."""
    final = local_path(folder)
    with clean_errors(final):
        final.parent.mkdir(parents=True, exist_ok=True)
        filling = Path(
            tempfile.mkdtemp(prefix=f".{final.name}.", suffix=".partial", dir=final.parent)
        )
        try:
            filling.chmod(0o777 & ~_umask())
            yield filling
            fsync_tree(filling)
            replace_folder(filling, final)
        except BaseException:
            shutil.rmtree(filling, ignore_errors=True)
            raise
        fsync_folder(final.parent)


def replace_folder(filling: Path, final: Path) -> None:
    """Give the folder `filling` the name `final`; a folder of that name goes."""
    if not final.exists():
        os.rename(filling, final)
        return
    # A folder cannot be renamed onto a filled one: step the old one aside, and back if the new one
    # fails.
    aside = Path(tempfile.mkdtemp(prefix=f".{final.name}.", suffix=".replaced", dir=final.parent))
    os.rename(final, aside / final.name)
    try:
        os.rename(filling, final)
    except BaseException:
        os.rename(aside / final.name, final)
        aside.rmdir()
        raise
    shutil.rmtree(aside, ignore_errors=True)


def remove_folder(folder: Path) -> None:
    """Remove `folder` with all it holds. It is renamed first, so that a crash half-way leaves no
    folder that looks like work to resume."""
    doomed = folder.with_name(f".{folder.name}.removed-{os.getpid()}")
    try:
        os.rename(folder, doomed)
    except FileNotFoundError:
        return
    shutil.rmtree(doomed, ignore_errors=True)


def fsync_file(file: Path) -> None:
    """Bring what was written to `file` to the disk."""
    with open(file, "rb") as opened:
        os.fsync(opened.fileno())


def fsync_folder(folder: Path) -> None:
    """Make renames inside `folder` survive a power cut. Windows has no such call and needs none."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync_tree(folder: Path) -> None:
    """Bring every file below `folder` to the disk."""
    for parent, _, names in os.walk(folder):
        for name in names:
            fsync_file(Path(parent, name))
        fsync_folder(Path(parent))


@contextlib.contextmanager
def clean_errors(final: Path) -> Generator[None]:
    """Turn what the operating system says about a write into one of our errors."""
    try:
        yield
    except OSError as error:
        if isinstance(error, TokenmillError):
            raise
        if error.errno in _DISK_FULL:
            raise TokenmillError(
                f"no room to write `{final}`: {error.strerror}",
                "nothing was left half-written; free some space and run the same command again",
            ) from error
        raise TokenmillError(f"`{final}` cannot be written: {error.strerror or error}") from error


def _umask() -> int:
    # The only portable way to read it is to set it; temporary files are born 0600 and must not stay
    # so.
    current = os.umask(0)
    os.umask(current)
    return current
