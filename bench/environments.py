"""Find or make the Python that a peer runs in.

The libraries our tests use run where they are. Every other peer, and any whose installed release is not the
pinned one, gets an environment of its own below `--env-dir`, made by `uv`: a peer's dependencies never meet
ours, and the package itself never asks for them.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from bench.machine import REPOSITORY, installed_version
from bench.peers.peer import Library

DEFAULT_FOLDER = REPOSITORY / ".bench-env"


class NotAvailable(Exception):
    """A peer that cannot be installed here, and why. The tables say so and go on."""


def python_for(peer: Library, folder: Path) -> Path:
    """The interpreter in which `peer` can be imported at its pinned version; installs it if need be."""
    if installed_version(peer.distribution) == peer.version:
        return Path(sys.executable)
    environment = folder.resolve() / f"{peer.distribution}-{peer.version}"
    python = environment / "bin" / "python"
    ready = environment / "ready"
    if not ready.exists():
        shutil.rmtree(environment, ignore_errors=True)
        _uv("venv", "--quiet", "--python", sys.executable, str(environment))
        requirement = f"{peer.distribution}=={peer.version}"
        _uv("pip", "install", "--quiet", "--python", str(python), requirement)
        ready.touch()
    return python


def _uv(*arguments: str) -> None:
    uv = shutil.which("uv")
    if uv is None:
        raise NotAvailable("`uv` was not found, and only it may install peers")
    done = subprocess.run([uv, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotAvailable(f"`uv {arguments[0]}` failed: {last_line(done.stderr)}")


def last_line(text: str) -> str:
    """The line of an error output that says the most: the last one that is not empty."""
    lines = [line.strip(" │╰─▶×") for line in text.splitlines()]
    return next((line for line in reversed(lines) if line), "no message")
