"""Progress of long calls: snapshots in, a bar, a line now and then, or nothing out.

The core calls back about ten times a second on the calling thread; everything is drawn right there,
no thread of our own is needed. Nothing is drawn in the first half second, so short runs neither
flicker nor load rich.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

QUIET_SECONDS = 0.5
PLAIN_LINE_SECONDS = 5.0


@dataclass(frozen=True)
class Snapshot:
    """How far a phase has come."""

    phase: str
    """`counting`, `hashing` or `merging`."""
    done: int
    """Text bytes or merges so far."""
    unit: str
    """`bytes` or `merges`."""
    fraction: float | None
    """Share of the whole, `None` where nobody knows the whole."""
    seconds: float
    """Time in this phase."""
    done_before: int = 0
    """What an earlier run had done already."""
    fraction_before: float = 0.0

    @property
    def rate(self) -> float:
        """Units a second."""
        return (self.done - self.done_before) / self.seconds if self.seconds > 0 else 0.0

    @property
    def eta_seconds(self) -> float | None:
        """Time to the end of the phase at the pace so far."""
        if self.fraction is None or self.fraction <= self.fraction_before:
            return None
        pace = (self.fraction - self.fraction_before) / max(self.seconds, 1e-9)
        return max(0.0, 1.0 - self.fraction) / pace

    def __str__(self) -> str:
        parts = [
            f"{self.phase:9}{amount(self.done, self.unit):>16}",
            rate_text(self.rate, self.unit),
        ]
        if self.fraction is not None:
            parts.insert(1, f"{self.fraction:4.0%}")
        if self.eta_seconds is not None:
            parts.append(f"{duration(self.eta_seconds)} left")
        return "  ".join(parts)


class Display(Protocol):
    """Draws snapshots."""

    def show(self, snapshot: Snapshot) -> None: ...
    def end(self) -> None: ...


ProgressChoice = bool | None | Callable[[Snapshot], None]
"""`True` always shows progress, `False` never, `None` on terminals and in notebooks; a callable
gets snapshots."""


class Meter:
    """Turns the core's callbacks into snapshots of the phase under way, and hands them to a
    display."""

    def __init__(self, choice: ProgressChoice = None) -> None:
        self._display = _display(choice)
        self._wait_seconds = 0.0 if callable(choice) else QUIET_SECONDS
        self.begin("counting", "bytes")

    @property
    def is_shown(self) -> bool:
        return self._display is not None

    def begin(
        self, phase: str, unit: str, done_before: int = 0, fraction_before: float = 0.0
    ) -> None:
        self._phase, self._unit = phase, unit
        self._before = (done_before, fraction_before)
        self._started = time.monotonic()

    def update(self, done: int, fraction: float | None) -> None:
        seconds = time.monotonic() - self._started
        if self._display is None or seconds < self._wait_seconds:
            return
        if fraction is not None:
            fraction = min(max(fraction, 0.0), 1.0)
        self._display.show(
            Snapshot(self._phase, done, self._unit, fraction, seconds, *self._before)
        )

    def end(self) -> None:
        if self._display is not None:
            self._display.end()


def _display(choice: ProgressChoice) -> Display | None:
    if choice is False:
        return None
    if callable(choice):
        return _Call(choice)
    if _in_notebook():
        return _NotebookLine()
    if sys.stderr.isatty():
        return _TerminalBar()
    return _PlainLines() if choice else None


@dataclass
class _Call:
    call: Callable[[Snapshot], None]

    def show(self, snapshot: Snapshot) -> None:
        self.call(snapshot)

    def end(self) -> None:
        pass


class _TerminalBar:
    """One bar on stderr, redrawn in place and gone at the end."""

    def __init__(self) -> None:
        self._bar: RichProgress | None = None
        self._task: TaskID | None = None
        self._phase = ""

    def show(self, snapshot: Snapshot) -> None:
        if snapshot.phase != self._phase:
            self.end()
            self._begin(snapshot)
        assert self._bar is not None
        assert self._task is not None
        eta = snapshot.eta_seconds
        self._bar.update(
            self._task,
            total=1.0 if snapshot.fraction is not None else None,
            completed=snapshot.fraction or 0.0,
            amount=amount(snapshot.done, snapshot.unit),
            rate=rate_text(snapshot.rate, snapshot.unit),
            left=f"{duration(eta)} left" if eta is not None else "",
        )
        self._bar.refresh()

    def _begin(self, snapshot: Snapshot) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        columns = ("{task.fields[amount]}", "{task.fields[rate]}", "{task.fields[left]}")
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            *(TextColumn(column) for column in columns),
            console=Console(stderr=True),
            auto_refresh=False,
            transient=True,
        )
        self._task = self._bar.add_task(snapshot.phase, amount="", rate="", left="")
        self._bar.start()
        self._phase = snapshot.phase

    def end(self) -> None:
        if self._bar is not None:
            self._bar.stop()
        self._bar, self._phase = None, ""


class _NotebookLine:
    """One line below the cell, replaced in place. rich would want ipywidgets for that."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, snapshot: Snapshot) -> None:
        from IPython.display import display  # pyright: ignore

        content = {"text/plain": str(snapshot)}
        if self._handle is None:
            self._handle = display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)

    def end(self) -> None:
        self._handle = None


class _PlainLines:
    """A line on stderr every few seconds, for logs."""

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._unfinished = ""

    def show(self, snapshot: Snapshot) -> None:
        is_due = time.monotonic() - self._last >= PLAIN_LINE_SECONDS
        # A phase that had lines gets one for its end too.
        is_end = snapshot.fraction == 1.0 and snapshot.phase == self._unfinished
        if is_due or is_end:
            self._last = time.monotonic()
            self._unfinished = "" if snapshot.fraction == 1.0 else snapshot.phase
            print(snapshot, file=sys.stderr, flush=True)

    def end(self) -> None:
        pass


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    instance = shell.get_ipython() if shell is not None else None
    return instance is not None and "IPKernelApp" in getattr(instance, "config", {})


def amount(done: float, unit: str) -> str:
    """`1.2 GB` or `32,512 merges`."""
    return size(done) if unit == "bytes" else quantity(round(done), unit.removesuffix("s"))


def quantity(number: int, noun: str) -> str:
    """`1 merge`, `32,512 merges`: every report counts this way."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def rate_text(rate: float, unit: str) -> str:
    """The amount of one second."""
    return f"{amount(rate, unit)}/s"


def size(num_bytes: float) -> str:
    """Bytes for people, in powers of 1,000: `512 bytes`, `1.2 GB`."""
    if num_bytes < 1000:
        return quantity(round(num_bytes), "byte")
    for name in ("kB", "MB", "GB"):
        num_bytes /= 1000
        if num_bytes < 999.5:
            return f"{num_bytes:.1f} {name}" if num_bytes < 99.95 else f"{num_bytes:.0f} {name}"
    return f"{num_bytes / 1000:.1f} TB"


def duration(seconds: float) -> str:
    """`0.42 s`, `41 s`, `3 min 05 s`, `2 h 10 min`."""
    if seconds < 10:
        return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"
