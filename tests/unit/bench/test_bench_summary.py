"""The statistics of repeated runs, on numbers that can be checked by hand."""

import math

import pytest
from bench.summary import serial_share, summarize


def test_mean_deviation_and_median() -> None:
    summary = summarize([1.0, 2.0, 6.0])
    assert (summary.mean, summary.median) == (3.0, 2.0)
    assert (summary.minimum, summary.maximum) == (1.0, 6.0)
    assert math.isclose(summary.deviation, math.sqrt((4 + 1 + 9) / 2))


def test_one_run_has_no_deviation() -> None:
    assert summarize([0.5]).deviation == 0.0


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_the_serial_share_of_an_ideal_program_is_found(share: float) -> None:
    seconds = {threads: 8 * (share + (1 - share) / threads) for threads in (1, 2, 4, 8)}
    found = serial_share(seconds)
    assert found is not None
    assert math.isclose(found, share, abs_tol=1e-9)


def test_a_program_that_slows_down_is_all_serial() -> None:
    assert serial_share({1: 1.0, 2: 1.5}) == 1.0


def test_one_thread_count_says_nothing() -> None:
    assert serial_share({2: 1.0}) is None
