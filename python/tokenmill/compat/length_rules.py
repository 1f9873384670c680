"""Truncation and padding: how long encodings may be, and how short.

Both are kept as `tokenizers` shows them in its properties, and written as it writes them into
tokenizer.json.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, cast

from tokenmill.compat.encoding import Encoding
from tokenmill.errors import ConfigError, FormatError

_STRATEGIES = {
    "longest_first": "LongestFirst",
    "only_first": "OnlyFirst",
    "only_second": "OnlySecond",
}
_DIRECTIONS = {"left": "Left", "right": "Right"}


@dataclass(frozen=True)
class Truncation:
    """At most `max_length` tokens, those of a template included."""

    max_length: int
    stride: int = 0
    strategy: str = "longest_first"
    direction: str = "right"

    def __post_init__(self) -> None:
        _check_choice("strategy", self.strategy, _STRATEGIES)
        _check_choice("direction", self.direction, _DIRECTIONS)
        for name, number in (("max_length", self.max_length), ("stride", self.stride)):
            if number < 0:
                raise OverflowError(f"`{name}` is {number}, below 0")

    def check_room(self, num_added: int) -> None:
        """ValueError if the stride is longer than what a template leaves of `max_length`."""
        room = self.max_length - num_added
        if 0 <= room < self.stride:
            raise ConfigError(
                f"stride {self.stride} is more than the {room} tokens that `max_length` "
                f"{self.max_length} leaves beside {num_added} special tokens"
            )

    def as_properties(self) -> dict[str, Any]:
        return asdict(self)

    def as_json(self) -> dict[str, Any]:
        return {
            "direction": _DIRECTIONS[self.direction],
            "max_length": self.max_length,
            "strategy": _STRATEGIES[self.strategy],
            "stride": self.stride,
        }


@dataclass(frozen=True)
class Padding:
    """At least `length` tokens, or as many as the longest of a batch has."""

    length: int | None = None
    pad_to_multiple_of: int | None = None
    pad_id: int = 0
    pad_token: str = "[PAD]"
    pad_type_id: int = 0
    direction: str = "right"

    def __post_init__(self) -> None:
        _check_choice("direction", self.direction, _DIRECTIONS)

    def as_properties(self) -> dict[str, Any]:
        return asdict(self)

    def as_json(self) -> dict[str, Any]:
        return {
            "strategy": "BatchLongest" if self.length is None else {"Fixed": self.length},
            "direction": _DIRECTIONS[self.direction],
            "pad_to_multiple_of": self.pad_to_multiple_of,
            "pad_id": self.pad_id,
            "pad_type_id": self.pad_type_id,
            "pad_token": self.pad_token,
        }


def _check_choice(name: str, found: str, known: Mapping[str, str]) -> None:
    if found not in known:
        raise ConfigError(f"`{name}` is `{found}`, not one of {', '.join(known)}")


def read_truncation(value: Any) -> Truncation | None:
    """From the JSON of tokenizer.json."""
    if value is None:
        return None
    try:
        return Truncation(
            max_length=int(value["max_length"]),
            stride=int(value["stride"]),
            strategy=_name_of(value["strategy"], _STRATEGIES),
            direction=_name_of(value.get("direction", "Right"), _DIRECTIONS),
        )
    except (KeyError, TypeError, AttributeError, StopIteration) as error:
        raise FormatError(f"`truncation` is not what Hugging Face writes: {error!r}") from None


def read_padding(value: Any) -> Padding | None:
    """From the JSON of tokenizer.json."""
    if value is None:
        return None
    try:
        strategy = value["strategy"]
        return Padding(
            length=None if strategy == "BatchLongest" else int(strategy["Fixed"]),
            pad_to_multiple_of=value["pad_to_multiple_of"],
            pad_id=int(value["pad_id"]),
            pad_token=str(value["pad_token"]),
            pad_type_id=int(value["pad_type_id"]),
            direction=_name_of(value["direction"], _DIRECTIONS),
        )
    except (KeyError, TypeError, AttributeError, StopIteration) as error:
        raise FormatError(f"`padding` is not what Hugging Face writes: {error!r}") from None


def _name_of(written: Any, names: Mapping[str, str]) -> str:
    return next(name for name, spelling in names.items() if spelling == written)


def truncate(rule: Truncation, first: Encoding, second: Encoding | None, num_added: int) -> None:
    """Shorten both in place so that together with `num_added` tokens they have `max_length`."""
    room = rule.max_length - num_added
    total = len(first) + (0 if second is None else len(second))
    # The original counts in unsigned numbers: no room at all is more room than there can be.
    if room < 0 or (room and total <= room):
        return
    if room == 0:
        for encoding in (first, second):
            if encoding is not None:
                encoding.truncate(0, rule.stride, rule.direction)
    elif rule.strategy == "longest_first":
        lengths = _longest_first(len(first), None if second is None else len(second), room)
        for encoding, length in zip((first, second), lengths, strict=True):
            if encoding is not None:
                encoding.truncate(length, rule.stride, rule.direction)
    else:
        target = first if rule.strategy == "only_first" else second
        if target is None:
            raise ConfigError("truncation is `only_second`, but there is no second sequence")
        length = len(target) - (total - room)
        if length <= 0:
            raise ConfigError(
                f"truncation is `{rule.strategy}`, but that sequence has {len(target)} tokens "
                f"and {total - room} have to go"
            )
        target.truncate(length, rule.stride, rule.direction)


def _longest_first(first: int, second: int | None, room: int) -> tuple[int, int]:
    """How long both may be: the shorter stays whole if it has at most half of the room."""
    if second is None:
        return room, 0
    shorter, longer = sorted((first, second))
    longer = shorter if shorter > room else max(shorter, room - shorter)
    if shorter + longer > room:
        shorter = room // 2
        longer = shorter + room % 2
    return (longer, shorter) if first > second else (shorter, longer)


def pad(rule: Padding | None, encodings: Sequence[Encoding]) -> None:
    """Lengthen all of a batch in place."""
    if rule is None or not encodings:
        return
    length = max(map(len, encodings)) if rule.length is None else rule.length
    multiple = rule.pad_to_multiple_of
    if multiple:
        length += -length % multiple
    options = cast(
        dict[str, Any],
        {
            "direction": rule.direction,
            "pad_id": rule.pad_id,
            "pad_type_id": rule.pad_type_id,
            "pad_token": rule.pad_token,
        },
    )
    for encoding in encodings:
        encoding.pad(length, **options)
