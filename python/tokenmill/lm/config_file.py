# pyright: basic
"""Settings from a TOML file and from `--set a.b=c`: text in, frozen dataclasses out.

Tables of the file are dataclasses, or fields of one that are dataclasses themselves. A key that no field has is an error
with the nearest name, and so is a value of another type; what is written stays what it says.
"""

import dataclasses
import os
import re
import tomllib
import types
import typing
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tokenmill.errors import ConfigError
from tokenmill.sources.choices import nearest_hint
from tokenmill.storage.files import local_path, unreadable

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def read_config(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a TOML file says. SourceError if it cannot be read, ConfigError if it is not TOML."""
    file = local_path(path)
    try:
        with open(file, "rb") as opened:
            return tomllib.load(opened)
    except OSError as error:
        raise unreadable(file, error) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"`{file}` is not TOML: {error}") from error


def apply_overrides(values: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """`values` with each `a.b=c` put in its place; later ones win, and `values` stays as it is.

    A value is TOML; what is none is taken as a string, so that quotes are needed by nobody.

    >>> apply_overrides({"model": {"d_model": 64}}, ["model.d_model=128", "model.norm=layernorm"])
    {'model': {'d_model': 128, 'norm': 'layernorm'}}
    """
    changed = _copy(values)
    for override in overrides:
        name, found, text = override.partition("=")
        keys = name.strip().split(".")
        if not found or not all(_BARE_KEY.fullmatch(key) for key in keys):
            raise ConfigError(
                f"`{override}` is not a setting", "write it as `model.d_model=512`, without spaces"
            )
        inner = changed
        for depth, key in enumerate(keys[:-1], 1):
            inner = inner.setdefault(key, {})
            if not isinstance(inner, dict):
                raise ConfigError(
                    f"`{'.'.join(keys[:depth])}` is a value, so `{name}` names nothing"
                )
        inner[keys[-1]] = _value_of(text.strip())
    return changed


def merged_tables(
    tables: Mapping[str, Mapping[str, Any]],
    config: str | os.PathLike[str] | None,
    overrides: Iterable[str],
    names: Collection[str],
) -> dict[str, Any]:
    """What a TOML file says, changed by `a.b=c` and then by `tables`, which are those of the command line.

    ConfigError for a key that is neither a table nor one of `names`.
    """
    values = apply_overrides(read_config(config) if config is not None else {}, overrides)
    require_known(values, [*tables, *names], "table")
    return _overlaid(values, tables)


def _overlaid(values: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(values)
    for name, value in above.items():
        below = made.get(name)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            value = _overlaid(below, value)
        made[name] = value
    return made


def _copy(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _copy(value) if isinstance(value, Mapping) else value for key, value in values.items()
    }


def _value_of(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    # A line break in the text could begin another key.
    return parsed["value"] if len(parsed) == 1 else text


def require_known(values: Mapping[str, Any], known: Iterable[str], what: str = "setting") -> None:
    """ConfigError with the nearest name for the first key of `values` that is not `known`."""
    names = list(known)
    for name in values:
        if name not in names:
            raise ConfigError(f"unknown {what} `{name}`", nearest_hint(name, names))


def settings_from(
    kind: type[T], values: Mapping[str, Any], where: str = "", base: T | None = None
) -> T:
    """A `kind` with `values`, and for the rest what `base` has, or the defaults.

    `where` is the table's name, for errors. In a field that may be `None`, TOML's lack of one is made up by `"none"`.
    """
    fields = {each.name: each for each in dataclasses.fields(kind) if each.init}
    prefix = f"{where}." if where else ""
    for name in values:
        if name not in fields:
            near = nearest_hint(name, fields)
            hint = near.replace("`", f"`{prefix}", 1) if near else None
            raise ConfigError(f"unknown setting `{prefix}{name}`", hint)
    hints = typing.get_type_hints(kind)
    given = {
        name: _checked(hints[name], value, f"{prefix}{name}", getattr(base, name, None))
        for name, value in values.items()
    }
    if base is not None:
        return dataclasses.replace(base, **given)
    return kind(**given)


def _checked(hint: Any, value: Any, name: str, base: Any) -> Any:
    """`value` as the type `hint` has it."""
    options = typing.get_args(hint) if _is_union(hint) else (hint,)
    if type(None) in options and value in (None, "none"):
        return None
    for option in options:
        if (
            isinstance(option, type)
            and dataclasses.is_dataclass(option)
            and isinstance(value, Mapping)
        ):
            kept = base if isinstance(base, option) else None
            return settings_from(option, value, name, kept)
        fitting = _fitting(option, value, name)
        if fitting is not None:
            return fitting[0]
    expected = " or ".join(_name_of(option) for option in options)
    raise ConfigError(f"`{name}` must be {expected}, found `{value!r}`")


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (types.UnionType, typing.Union)


def _fitting(hint: Any, value: Any, name: str) -> tuple[Any] | None:
    """`value` in a tuple if it is, or stands for, a `hint`."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return (value,)
    if origin is typing.Literal:
        return (value,) if value in args else None
    if origin in (tuple, list) and isinstance(value, list | tuple):
        items: list[Any] = list(value)
        kinds = args[:1] * len(items) if origin is list or args[-1] is ... else args
        if len(kinds) != len(items):
            return None
        each = [
            _checked(k, v, f"{name}[{at}]", None)
            for at, (k, v) in enumerate(zip(kinds, items, strict=True))
        ]
        return (origin(each),)
    if isinstance(value, bool):
        return (value,) if hint is bool else None
    if hint is float and isinstance(value, int):
        return (float(value),)
    if hint is Path and isinstance(value, str):
        return (Path(value),)
    return (value,) if isinstance(hint, type) and isinstance(value, hint) else None


_NAMES = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a string",
    Path: "a path",
}


def _name_of(hint: Any) -> str:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is type(None):
        return "`none`"
    if origin is typing.Literal:
        return "one of " + ", ".join(f"`{each}`" for each in args)
    if origin in (tuple, list):
        return "a list"
    return _NAMES.get(hint, "a table" if dataclasses.is_dataclass(hint) else str(hint))
