"""Sizes and spans as people write them: `825GB` in, `825,000,000,000 bytes` and `39 min 17 s` out."""

import re

from tokenmill.errors import ConfigError
from tokenmill.progress import duration

_SIZE = re.compile(r"(\d[\d,_]*(?:\.\d+)?)\s*(?:([kmgtp])(i?)b?|b|bytes?)?", re.IGNORECASE)
_POWERS = "kmgtp"
_DAY_SECONDS = 86400


def parse_size(text: str) -> int:
    """The bytes that `text` stands for: powers of 1,000 (`kB`, `MB`, `GB`, `TB`, `PB`), or of
    1,024 with an i (`GiB`).

    >>> parse_size("825GB"), parse_size("1.5 MiB"), parse_size("10_000")
    (825000000000, 1572864, 10000)
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise ConfigError(
            f"`{text}` is no size", "write a number with a unit, such as `825GB` or `1.5TiB`"
        )
    number, unit, binary = match.groups()
    power = 0 if unit is None else 1 + _POWERS.index(unit.lower())
    num_bytes = round(float(re.sub("[,_]", "", number)) * (1024 if binary else 1000) ** power)
    if num_bytes < 1:
        raise ConfigError(f"the size `{text}` is no byte at all")
    return num_bytes


def span(seconds: float) -> str:
    """A duration that may be very long: `39 min 17 s`, `8.2 days`, `3.1 years`."""
    days = seconds / _DAY_SECONDS
    if days < 2:
        return duration(seconds)
    return f"{days:,.1f} days" if days < 730 else f"{days / 365.25:,.1f} years"
