"""Names people choose from: an unknown one is an error that knows the nearest."""

from collections.abc import Iterable

from tokenmill.errors import ConfigError


def require_one_of(what: str, value: object, known: Iterable[str]) -> str:
    """`value` if it is among `known`, else a ConfigError that lists them and guesses."""
    names = list(known)
    if isinstance(value, str) and value in names:
        return value
    listed = ", ".join(f"`{name}`" for name in names)
    raise ConfigError(f"unknown {what} `{value}`; there are {listed}", nearest_hint(value, names))


def nearest_hint(value: object, known: Iterable[str]) -> str | None:
    """A hint naming the known name closest to `value`, if any is close."""
    import difflib

    close = difflib.get_close_matches(str(value), list(known), n=1, cutoff=0.5)
    return f"did you mean `{close[0]}`?" if close else None


def require_whole_number(what: str, value: object, least: int, most: int | None = None) -> int:
    """`value` if it is an int within the bounds, else a ConfigError naming the rule."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise ConfigError(f"{what} must be a whole number, found `{value!r}`")
    if value < least:
        raise ConfigError(f"{what} {value} is below {least}")
    if most is not None and value > most:
        raise ConfigError(f"{what} {value} is above {most}")
    return value
