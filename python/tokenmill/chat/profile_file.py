"""Profiles by name, or from a TOML file of one's own: checked, with the nearest name in errors."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from tokenmill.chat.profiles import PROFILES, Profile, Role
from tokenmill.errors import ConfigError
from tokenmill.sources.choices import nearest_hint
from tokenmill.storage.files import local_path, unreadable

_STRINGS = ("name", "bos", "merge_system", "instruction", "input")
_KEYS = (*_STRINGS, "special_tokens", "train_end", "roles")
_ROLE_KEYS = ("before", "after", "trained")


def find_profile(profile: "str | os.PathLike[str] | Profile") -> Profile:
    """The profile of this name, or the one in this TOML file."""
    if isinstance(profile, Profile):
        return profile
    if isinstance(profile, str) and profile in PROFILES:
        return PROFILES[profile]
    path = Path(profile)
    if path.suffix == ".toml" or path.parent != Path():
        return read_profile(path)
    known = ", ".join(f"`{name}`" for name in PROFILES)
    raise ConfigError(
        f"unknown profile `{profile}`; there are {known}, or a file ending in `.toml`",
        nearest_hint(profile, PROFILES),
    )


def read_profile(path: str | os.PathLike[str]) -> Profile:
    """A profile from a TOML file. ConfigError naming the file and the key that is wrong."""
    file = local_path(path)
    try:
        document = tomllib.loads(file.read_bytes().decode())
    except OSError as error:
        raise unreadable(file, error) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"`{file}` is not TOML: {error}") from None
    try:
        return profile_from_values(document, file.stem)
    except ConfigError as error:
        raise ConfigError(f"`{file}`: {error.message}", error.hint) from None


def profile_from_values(document: Mapping[str, Any], name: str) -> Profile:
    """The profile that `document` defines: the table of a TOML file, or what a manifest has of
    `Profile.as_json`. It is called `name` if it does not say. ConfigError naming what is wrong."""
    _require_known(document, _KEYS, "key")
    values: dict[str, Any] = {"name": name, "special_tokens": (), **document}
    for key in _STRINGS:
        if key in values:
            _require(values[key], str, f"`{key}`", "a string")
    if "train_end" in values:
        _require(values["train_end"], bool, "`train_end`", "true or false")
    tokens = _require(document.get("special_tokens", []), list, "`special_tokens`", "a list")
    for token in cast("list[object]", tokens):
        _require(token, str, f"special token {token!r}", "a string")
    roles = _require(values.get("roles", {}), dict, "`roles`", "a table")
    values["roles"] = {name: _role(name, role) for name, role in roles.items()}
    return Profile(**values)


def _role(name: str, document: object) -> Role:
    table = _require(document, dict, f"role `{name}`", "a table")
    _require_known(table, _ROLE_KEYS, f"key in role `{name}`:")
    before = _require(table.get("before", ""), str, f"`before` of role `{name}`", "a string")
    after = _require(table.get("after", ""), str, f"`after` of role `{name}`", "a string")
    trained = _require(
        table.get("trained", False), bool, f"`trained` of role `{name}`", "a boolean"
    )
    return Role(before, after, trained)


def _require(value: Any, kind: type, what: str, expected: str) -> Any:
    if type(value) is not kind:
        raise ConfigError(f"{what} is {value!r}, not {expected}")
    return value


def _require_known(table: Mapping[str, object], known: tuple[str, ...], what: str) -> None:
    for key in table:
        if key not in known:
            raise ConfigError(f"unknown {what} `{key}`", nearest_hint(key, known))
