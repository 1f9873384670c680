"""Where counts come from: pattern, special tokens, limits and the identity of every input.

Two results made from the same origin are the same, so this is what `--out` compares before it says
"already done". An input is known by its bytes, not by its name or its date.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tokenmill import _core
from tokenmill.errors import FormatError
from tokenmill.work.input_records import InputRecord


@dataclass(frozen=True)
class Origin:
    """All that decides a set of counts."""

    pattern: str
    special_tokens: tuple[str, ...] | None
    """`None` if nobody knows which were cut out: counts from elsewhere."""
    unicode_version: str = _core.UNICODE_VERSION
    read: Mapping[str, object] | None = None
    """Read options, as they go into a manifest; `None` if the counts did not come from documents.
    """
    inputs: tuple[InputRecord, ...] = ()
    inputs_unread: int = 0
    """Inputs that followed, but that a limit left unread."""
    min_count: int = 1
    """Pretokens that occurred fewer times were dropped: above 1 the counts are cut."""

    def as_json(self) -> dict[str, object]:
        return {
            "pattern": self.pattern,
            "special_tokens": None if self.special_tokens is None else list(self.special_tokens),
            "unicode_version": self.unicode_version,
            "read": None if self.read is None else dict(self.read),
            "inputs": [each.as_json() for each in self.inputs],
            "inputs_unread": self.inputs_unread,
            "min_count": self.min_count,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "Origin":
        """FormatError if a part is missing or of another type."""
        try:
            specials = value["special_tokens"]
            return Origin(
                pattern=str(value["pattern"]),
                special_tokens=None
                if specials is None
                else tuple(str(token) for token in specials),
                unicode_version=str(value["unicode_version"]),
                read=value["read"],
                inputs=tuple(InputRecord.from_json(each) for each in value["inputs"]),
                inputs_unread=int(value["inputs_unread"]),
                min_count=int(value["min_count"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FormatError(f"the description of the counts lacks or garbles {error}") from error

    def without_inputs(self) -> "Origin":
        """The settings alone."""
        return replace(self, inputs=(), inputs_unread=0)

    def having_read(self, num_inputs: int) -> "Origin":
        """After a limit: with the inputs that were read, and the number of the others."""
        unread = len(self.inputs) - num_inputs
        return replace(
            self, inputs=self.inputs[:num_inputs], inputs_unread=self.inputs_unread + unread
        )

    def require_same_split(self, other: "Origin", ours: str, theirs: str) -> None:
        """FormatError naming both sides if `other`'s text was cut into pretokens in another way."""
        sides = [
            ("pattern", self.pattern, other.pattern),
            ("Unicode version", self.unicode_version, other.unicode_version),
        ]
        if self.special_tokens is not None and other.special_tokens is not None:
            mine, yours = (
                " ".join(sorted(each)) for each in (self.special_tokens, other.special_tokens)
            )
            sides.append(("set of special tokens", mine, yours))
        for what, mine, yours in sides:
            if mine != yours:
                raise FormatError(
                    f"{ours} and {theirs} differ in their {what}: `{mine}` and `{yours}`",
                    "count again with the same settings",
                )
