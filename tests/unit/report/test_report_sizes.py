"""Sizes as people write them."""

import pytest

from tokenmill.errors import ConfigError
from tokenmill.report.sizes import parse_size, span


@pytest.mark.parametrize(
    ("text", "num_bytes"),
    [
        ("825GB", 825_000_000_000),
        ("825 gb", 825_000_000_000),
        ("1.5TiB", 1_649_267_441_664),
        ("2k", 2000),
        ("3 bytes", 3),
        ("1 byte", 1),
        ("10,000 B", 10_000),
        ("7", 7),
        ("2PB", 2 * 10**15),
    ],
)
def test_sizes(text: str, num_bytes: int) -> None:
    assert parse_size(text) == num_bytes


@pytest.mark.parametrize("text", ["", "GB", "8XB", "-1GB", "1.2.3MB", "825 GB more", "iB", "1e9"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ConfigError, match="is no size"):
        parse_size(text)


@pytest.mark.parametrize("text", ["0", "0.4", "0GB"])
def test_no_byte_at_all(text: str) -> None:
    with pytest.raises(ConfigError, match="no byte at all"):
        parse_size(text)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.42, "0.42 s"),
        (2357, "39 min 17 s"),
        (90_000, "25 h 00 min"),
        (711_936, "8.2 days"),
        (10**8, "3.2 years"),
    ],
)
def test_spans(seconds: float, shown: str) -> None:
    assert span(seconds) == shown
