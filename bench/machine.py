"""Where and on what code a number was made: cpu, cores, memory, versions, commit, command."""

import importlib.metadata
import os
import platform
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
MEASURED_FOLDERS = ("crates", "python", "Cargo.toml", "Cargo.lock", "pyproject.toml")
"""What decides the speed. Results, docs and the README may change without making a commit's numbers wrong."""


@dataclass(frozen=True)
class Machine:
    cpu: str
    cores: int
    """Cores this process may use, which in a container is fewer than the machine has."""
    memory_bytes: int
    system: str
    python: str

    @property
    def slug(self) -> str:
        """Part of the result's file name."""
        short = re.sub(r"\((?:r|tm)\)|processor|cpu|@.*", " ", self.cpu.lower())
        return "-".join([*re.findall(r"[a-z0-9]+", short), f"{self.cores}c"])


@dataclass(frozen=True)
class Commit:
    hash: str
    date: str
    dirty: bool
    """Sources that decide the speed were changed since that commit."""

    @property
    def name(self) -> str:
        return f"{self.hash[:10]}-dirty" if self.dirty else self.hash[:10]


def this_machine() -> Machine:
    return Machine(
        cpu=_first_field("/proc/cpuinfo", "model name") or platform.processor() or "unknown cpu",
        cores=available_cores(),
        memory_bytes=_memory_bytes(),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
    )


def available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def this_commit() -> Commit:
    found = _git("log", "-1", "--format=%H %cI")
    if not found:
        return Commit("unknown", "", dirty=True)
    commit_hash, date = found.split()
    return Commit(commit_hash, date, dirty=bool(_git("status", "-s", "--", *MEASURED_FOLDERS)))


def this_command() -> str:
    """The command line as typed, folders left out: a result must not tell where things lie on a machine."""
    words = [Path(word).name if os.sep in word else word for word in sys.argv[1:]]
    return shlex.join(["python", "-m", "bench", *words])


def file_system_of(path: Path) -> str:
    """Its kind, such as `ext4`; a number that includes writing means something else on `tmpfs`."""
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    here = path.resolve()
    mounts = [line.split()[1:3] for line in lines]
    over = [(where, kind) for where, kind in mounts if here.is_relative_to(where)]
    # The last of the longest: a later mount hides an earlier one.
    return max(enumerate(over), key=lambda each: (len(each[1][0]), each[0]))[1][1]


def installed_version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def _first_field(file: str, name: str) -> str | None:
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(name)), None)


def _memory_bytes() -> int:
    kilobytes = _first_field("/proc/meminfo", "MemTotal")
    if kilobytes is not None:
        return int(kilobytes.split()[0]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
