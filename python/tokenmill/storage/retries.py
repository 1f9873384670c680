"""Trying again: exponential waits with jitter, as long as a server asks for, and not for ever."""

import logging
import random
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tokenmill.errors import SourceError
from tokenmill.progress import quantity
from tokenmill.storage.remote import Interruption

T = TypeVar("T")

log = logging.getLogger("tokenmill")


@dataclass(frozen=True)
class Patience:
    """How often and how long to wait for a server."""

    retries: int = 6
    """Failures in a row, without progress in between, that are forgiven."""
    first_seconds: float = 0.5
    most_seconds: float = 60.0
    most_asked_seconds: float = 600.0
    """A server that asks for a longer wait gets this one."""

    def seconds(self, failures: int, asked: float | None) -> float:
        """The wait after that many failures in a row. Half of it is random, so that many clients do
        not come back as one."""
        own = min(self.most_seconds, self.first_seconds * 2 ** (failures - 1))
        own *= 0.5 + random.random() / 2
        return own if asked is None else max(own, min(asked, self.most_asked_seconds))


DEFAULT_PATIENCE = Patience()


class Tries:
    """The failures of one task."""

    def __init__(self, what: str, patience: Patience, stop: threading.Event) -> None:
        self._what = what
        self._patience = patience
        self._stop = stop
        self._failures = 0

    def made_progress(self) -> None:
        self._failures = 0

    def failed(self, interruption: Interruption) -> None:
        """Wait, or give up with a SourceError. InterruptedError if everything is to stop."""
        self._failures += 1
        if self._failures > self._patience.retries:
            raise SourceError(
                f"`{self._what}` cannot be fetched: {interruption.reason}; "
                f"tried {quantity(self._failures, 'time')} in a row",
                "run the same command again later: what has arrived so far is kept",
            ) from interruption
        seconds = self._patience.seconds(self._failures, interruption.wait_seconds)
        log.info("`%s`: %s; trying again in %.1f s", self._what, interruption.reason, seconds)
        if self._stop.wait(seconds):
            raise InterruptedError(self._what)


def with_retries(
    what: str,
    call: Callable[[], T],
    patience: Patience = DEFAULT_PATIENCE,
    stop: threading.Event | None = None,
) -> T:
    """What `call` gives, tried again after each Interruption."""
    tries = Tries(what, patience, stop or threading.Event())
    while True:
        try:
            return call()
        except Interruption as interruption:
            tries.failed(interruption)


def asked_seconds(header: str | None) -> float | None:
    """The wait that a Retry-After header asks for: seconds, or a date."""
    if header is None:
        return None
    if re.fullmatch(r"\s*[0-9]{1,9}\s*", header):
        return float(header)
    import email.utils

    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
