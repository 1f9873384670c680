"""Numbers about repeated runs: seconds in, mean, spread and the serial share out."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Summary:
    """`deviation` is the sample's standard deviation, 0 for a single run."""

    mean: float
    deviation: float
    minimum: float
    maximum: float
    median: float


def summarize(seconds: Sequence[float]) -> Summary:
    return Summary(
        mean=statistics.fmean(seconds),
        deviation=statistics.stdev(seconds) if len(seconds) > 1 else 0.0,
        minimum=min(seconds),
        maximum=max(seconds),
        median=statistics.median(seconds),
    )


def serial_share(seconds_by_threads: Mapping[int, float]) -> float | None:
    """The share of the one-thread time that more threads do not shorten, by Amdahl's law.

    Least squares of `seconds = serial + parallel / threads`. `None` with fewer than two thread counts. Give
    only counts up to the number of cores: beyond it the law does not hold.
    """
    if len(seconds_by_threads) < 2:
        return None
    inverse = [1 / threads for threads in seconds_by_threads]
    parallel, serial = statistics.linear_regression(inverse, list(seconds_by_threads.values()))
    whole = serial + parallel
    if not math.isfinite(whole) or whole <= 0:
        return None
    return min(1.0, max(0.0, serial / whole))
