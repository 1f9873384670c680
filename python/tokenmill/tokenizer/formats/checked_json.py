"""JSON from files we did not write: each value knows its place, so that an error can name it.

Duplicate keys, NaN, endless nesting, wrong types and missing keys are all FormatErrors that name
the file and the place in it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any, NoReturn, cast

from tokenmill.errors import FormatError

_KINDS = {
    dict: "an object",
    list: "a list",
    str: "a string",
    int: "a whole number",
}


@dataclass(frozen=True)
class Place:
    """One value of a JSON document, and where it stands: `tokenizer.json`, `model.merges[3]`."""

    value: Any
    file: str
    path: str = ""

    def fail(self, problem: str, hint: str | None = None) -> NoReturn:
        where = f"`{self.file}`" + (f" at `{self.path}`" if self.path else "")
        raise FormatError(f"{where}: {problem}", hint)

    def __contains__(self, key: str) -> bool:
        return key in self.as_object()

    def __getitem__(self, key: str) -> "Place":
        if key not in self.as_object():
            self.fail(f"key `{key}` is missing")
        return self.child(key)

    def child(self, key: str) -> "Place":
        """The value of `key`, or a place that holds None if there is no such key."""
        return Place(self.as_object().get(key), self.file, f"{self.path}.{key}".lstrip("."))

    def items(self) -> Iterator["Place"]:
        """The places of a list's values."""
        for index, value in enumerate(self.as_list()):
            yield Place(value, self.file, f"{self.path}[{index}]")

    def as_object(self) -> dict[str, Any]:
        return cast(dict[str, Any], self._expect(dict))

    def as_list(self) -> list[Any]:
        return cast(list[Any], self._expect(list))

    def as_string(self) -> str:
        return cast(str, self._expect(str))

    def as_integer(self) -> int:
        return cast(int, self._expect(int))

    def _expect(self, kind: type) -> object:
        # `type() is`, because true is an int to isinstance.
        if type(self.value) is not kind:
            self.fail(f"expected {_KINDS[kind]}, found {show_json(self.value)}")
        return self.value


def show_json(value: object) -> str:
    """`value` as it stands in a message: whole if it is short, else its beginning."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return f"`{text}`" if len(text) <= 60 else f"`{text[:60]}…`"


def parse_json(data: bytes | str, file: str) -> Place:
    """`data` as JSON, each value knowing its place in `file`."""

    def refuse_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            seen: set[str] = set()
            repeated = next(key for key, _ in pairs if key in seen or seen.add(key))
            raise FormatError(f"`{file}`: key `{repeated}` stands twice in one object")
        return found

    def refuse_constant(name: str) -> NoReturn:
        raise FormatError(f"`{file}`: `{name}` is not JSON")

    try:
        value = json.loads(
            data if isinstance(data, str) else data.decode("utf-8"),
            object_pairs_hook=refuse_repeats,
            parse_constant=refuse_constant,
        )
    except UnicodeDecodeError as error:
        raise FormatError(f"`{file}` is not UTF-8: bad byte at {error.start}") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise FormatError(f"`{file}` is not JSON: {error.msg} at {place}") from None
    except RecursionError:
        raise FormatError(f"`{file}` cannot be read: its values are nested too deeply") from None
    except FormatError:
        raise
    except ValueError as error:  # an integer of thousands of digits
        raise FormatError(f"`{file}` cannot be read as JSON: {error}") from None
    return Place(value, file)


def dump_json(value: object) -> bytes:
    """`value` as indented UTF-8 JSON with a newline at the end; bytes depend on `value` alone."""
    return (json.dumps(value, ensure_ascii=False, indent=2) + "\n").encode()


def quote_all(strings: list[str]) -> list[str]:
    """Each string as `json.dumps` writes it with `ensure_ascii=False`, in a tenth of the time."""
    return list(map(encode_basestring, strings))
