"""What holds for every test session: no silent skips, no slow tests and no browsers unasked, the same examples every time."""

import os
import signal
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    import loopback

# The same examples on every machine, so that a failure elsewhere is a failure here.
settings.register_profile(
    "tokenmill", derandomize=True, database=None, deadline=None, max_examples=200
)
settings.load_profile("tokenmill")


class NoSkips:
    """Fails the session if a test was skipped that does not need a GPU.

    A plugin of its own, because hooks in a conftest.py only see tests beside and below it, and the doctests of
    the package are elsewhere.
    """

    def __init__(self) -> None:
        self.skipped: list[str] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        # An expected failure is reported as skipped too, but it did run.
        ran = not report.skipped or hasattr(report, "wasxfail")
        if not ran and item.get_closest_marker("gpu") is None:
            self.skipped.append(report.nodeid)
        return report

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A module that skips itself while it is imported takes all its tests along."""
        if report.skipped and "gpu" not in Path(report.nodeid).parts:
            self.skipped.append(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        passed = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        if self.skipped and session.exitstatus in passed:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.skipped:
            terminalreporter.section("skipped, which this run forbids", red=True, bold=True)
            for nodeid in self.skipped:
                terminalreporter.write_line(nodeid)


def pytest_configure(config: pytest.Config) -> None:
    """Without `-m`, tests marked slow or browser stay out; `-m slow` runs them and nothing else."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts what runs behind `&` so, and every process that a test starts and interrupts would inherit it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not config.option.markexpr:
        config.option.markexpr = "not slow and not browser"
    if os.environ.get("TOKENMILL_NO_SKIPS") == "1":
        config.pluginmanager.register(NoSkips())


@pytest.fixture(scope="session")
def short_string_length() -> int:
    """Length of the short strings that are tried exhaustively: 4, and 5 in `.ci/run`."""
    return int(os.environ.get("TOKENMILL_SHORT_STRINGS", "4"))


@pytest.fixture
def server() -> Generator["loopback.Server"]:
    """A web server on this machine."""
    import loopback

    with loopback.serving() as running:
        yield running


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Generator["loopback.Hub"]:
    """A Hub on this machine, where `HF_ENDPOINT` says it is."""
    import loopback

    monkeypatch.delenv("HF_TOKEN", raising=False)
    with loopback.serving(loopback.Hub) as running:
        assert isinstance(running, loopback.Hub)
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        yield running
