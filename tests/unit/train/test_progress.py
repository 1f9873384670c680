"""Progress: both phases report rate and time left, on terminals, in logs and to callers."""

import io
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tokenmill as tm
from tokenmill.progress import Meter, Snapshot, duration, quantity, size
from tokenmill.sources.inputs import find_inputs
from tokenmill.sources.options import ReadOptions
from tokenmill.work.reading import Reading


def test_snapshots_know_rate_and_time_left() -> None:
    snapshot = Snapshot(
        "counting",
        3_000_000,
        "bytes",
        0.75,
        seconds=2.0,
        done_before=1_000_000,
        fraction_before=0.25,
    )
    assert snapshot.rate == 1_000_000
    assert snapshot.eta_seconds == pytest.approx(1.0)
    assert str(snapshot).split() == [
        "counting",
        "3.0",
        "MB",
        "75%",
        "1.0",
        "MB/s",
        "1.0",
        "s",
        "left",
    ]
    unknown = Snapshot("counting", 500, "bytes", None, 1.0)
    assert unknown.eta_seconds is None
    assert str(unknown).split() == ["counting", "500", "bytes", "500", "bytes/s"]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (99_960, "100 kB"),
        (999_600, "1.0 MB"),
        (2.5e12, "2.5 TB"),
    ],
)
def test_sizes(number: float, text: str) -> None:
    assert size(number) == text


def test_quantities() -> None:
    assert [quantity(number, "merge") for number in (0, 1, 2000)] == [
        "0 merges",
        "1 merge",
        "2,000 merges",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.123, "0.12 s"), (9.94, "9.9 s"), (41.3, "41 s"), (185, "3 min 05 s"), (7800, "2 h 10 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_callers_see_both_phases(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text(" ".join(f"{n}" for n in range(300_000)))
    seen: list[Snapshot] = []

    def texts() -> Iterator[str]:
        for start in range(0, 30):
            time.sleep(0.02)
            yield f"low lower {start} " * 1000

    tm.train(texts(), vocab_size=300, progress=seen.append)
    counting = [snapshot for snapshot in seen if snapshot.phase == "counting"]
    assert counting
    assert all(snapshot.fraction is None for snapshot in counting)
    assert [snapshot.done for snapshot in counting] == sorted(
        snapshot.done for snapshot in counting
    )
    seen.clear()
    tm.train(file, progress=seen.append)
    assert {snapshot.phase for snapshot in seen} <= {"counting", "merging"}
    assert all(snapshot.fraction is None or 0 <= snapshot.fraction <= 1 for snapshot in seen)


class CollectingMeter(Meter):
    def __init__(self) -> None:
        super().__init__(False)
        self.fractions: list[float | None] = []

    def update(self, done: int, fraction: float | None) -> None:
        self.fractions.append(fraction)


def test_what_was_read_but_not_yet_counted_does_not_count_twice(tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.txt" for number in range(3)]
    for file, size_in_bytes in zip(files, (300, 600, 100), strict=True):
        file.write_bytes(b"x" * size_in_bytes)
    meter = CollectingMeter()
    parts = [(source, None) for source in find_inputs(files, ReadOptions())]
    reading = Reading(parts, ReadOptions(), meter)
    sources = reading.sources()
    next(sources)
    reading._progress(100, 0)
    next(sources)  # the first file is read to its end; 200 of its bytes are yet to be counted
    for text_bytes in (300, 500, 700):
        reading._progress(text_bytes, 0)
    next(sources)
    for text_bytes in (900, 950):
        reading._progress(text_bytes, 0)
    assert next(sources, None) is None
    reading._progress(1000, 0)
    assert meter.fractions == [0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 1.0]


@pytest.mark.parametrize("with_out", [False, True])
def test_several_files_end_at_the_whole(tmp_path: Path, with_out: bool) -> None:
    files = [tmp_path / f"{number}.txt" for number in range(5)]
    for number, file in enumerate(files):
        file.write_text("low lower " * (number + 1) * 1000)
    seen: list[Snapshot] = []
    out = tmp_path / "counts.parquet" if with_out else None
    tm.count(files, out=out, unit_bytes=30_000, progress=seen.append)
    fractions = [snapshot.fraction for snapshot in seen]
    assert fractions[-1] == 1.0
    assert fractions == sorted(fraction for fraction in fractions if fraction is not None)
    assert seen[-1].done == sum(file.stat().st_size for file in files)


def test_logs_get_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    meter = Meter(True)
    for _ in range(200):
        now[0] += 0.1
        meter.update(int(now[0] * 1000), (now[0] - 100) / 40)
    meter.begin("merging", "merges")
    now[0] += 6
    meter.update(500, 0.5)
    meter.update(1000, 1.0)
    meter.update(1001, 1.0)
    meter.end()
    *lines, last = stream.getvalue().splitlines()
    assert last.split()[:4] == ["merging", "1,000", "merges", "100%"], "the end is told, once"
    assert 3 <= len(lines) <= 5
    assert lines[0].startswith("counting")
    assert lines[-1].split() == [
        "merging",
        "500",
        "merges",
        "50%",
        "83",
        "merges/s",
        "6.0",
        "s",
        "left",
    ]


def test_nothing_is_shown_unasked_in_a_pipe_or_when_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert not Meter(None).is_shown
    assert not Meter(False).is_shown
    assert Meter(True).is_shown


def test_a_terminal_gets_a_bar_that_goes_away() -> None:
    program = (
        "import time, tokenmill.progress as p\n"
        "p.QUIET_SECONDS = 0\n"
        "meter = p.Meter(None)\n"
        "for n in range(5):\n    time.sleep(0.05); meter.update(n * 1000000, n / 10)\n"
        "meter.begin('merging', 'merges')\n"
        "for n in range(5):\n    time.sleep(0.05); meter.update(n * 100, n / 10)\n"
        "meter.end()\n"
    )
    reader, terminal = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    job = subprocess.Popen([sys.executable, "-c", program], stderr=terminal, env=environment)
    os.close(terminal)
    shown = b""
    while True:
        try:
            part = os.read(reader, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(reader)
    assert job.wait() == 0
    text = shown.decode()
    assert "counting" in text
    assert "merging" in text
    assert "MB/s" in text
    assert "left" in text
    assert text.rstrip().endswith("\x1b[2K") or "\x1b[2K" in text.rsplit("merging", 1)[1], (
        "the bar is erased"
    )


class FakeHandle:
    def __init__(self) -> None:
        self.shown: list[str] = []

    def update(self, content: dict[str, str], raw: bool) -> None:
        assert raw
        self.shown.append(content["text/plain"])


def test_a_notebook_gets_one_line_that_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    import types

    handle = FakeHandle()

    def display(content: dict[str, str], raw: bool, display_id: bool) -> FakeHandle:
        handle.update(content, raw)
        return handle

    shell = types.SimpleNamespace(config={"IPKernelApp": {}})
    notebook = types.ModuleType("IPython")
    notebook.get_ipython = lambda: shell  # pyright: ignore[reportAttributeAccessIssue]
    displays = types.ModuleType("IPython.display")
    displays.display = display  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    monkeypatch.setitem(sys.modules, "IPython.display", displays)
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    meter = Meter(None)
    for step in range(1, 4):
        now[0] = float(step)
        meter.update(step * 1000, step / 10)
    meter.end()
    assert [line.split()[1:3] for line in handle.shown] == [
        ["1.0", "kB"],
        ["2.0", "kB"],
        ["3.0", "kB"],
    ]
