"""How many threads a call may use: as many as the caller says, else one for each core there is."""

import os

from tokenmill.errors import ConfigError

MAX_THREADS = 1024


def num_threads(threads: int | None) -> int:
    """`threads`, or one for each core this process may run on. ConfigError for less than one."""
    if threads is None:
        return available_cores()
    if not isinstance(threads, int) or isinstance(threads, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"threads must be a whole number, found `{threads!r}`")
    if not 1 <= threads <= MAX_THREADS:
        raise ConfigError(f"threads is {threads}, not between 1 and {MAX_THREADS}")
    return threads


def available_cores() -> int:
    """Cores this process may run on, which a container or `taskset` can make fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return min(MAX_THREADS, len(os.sched_getaffinity(0)))
    return min(MAX_THREADS, os.cpu_count() or 1)
