"""PretokenCounts: how often each pretoken occurred, and where that is known from.

Counts add up: counting two shards and adding equals counting both at once. Resuming, cluster
counting and counting in somebody else's database rest on that.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tokenmill import _core
from tokenmill.errors import ConfigError
from tokenmill.progress import quantity
from tokenmill.train.origin import Origin
from tokenmill.train.settings import (
    check_pattern_name,
    check_special_tokens,
    normalise_special_tokens,
)
from tokenmill.work.input_records import InputRecord, hash_inputs

if TYPE_CHECKING:
    from tokenmill.work.read_report import ReadReport


class PretokenCounts:
    """Pretoken → occurrences, exact to 2**64 - 1, with the pattern and special tokens that cut
    them.

    >>> counts = PretokenCounts.from_dict({b"low": 5, b" lower": 2}, pattern="gpt2")
    >>> (counts + counts).to_dict()
    {b' lower': 4, b'low': 10}
    """

    report: "ReadReport | None" = None
    """What reading met, if these counts were made in this process."""
    file_sha256: str | None = None
    """The sha256 of the file they were loaded from or saved to."""

    def __init__(self, counts: _core.Counts, origin: Origin) -> None:
        """From the core's counts. `tm.count`, `load` and `from_dict` are the ways people make them."""
        self._counts = counts
        self.origin = origin

    @staticmethod
    def from_dict(
        counts: Mapping[bytes | str, int] | Mapping[bytes, int] | Mapping[str, int],
        *,
        pattern: str = "gpt4",
        special_tokens: Sequence[str] = ("<|endoftext|>",),
    ) -> "PretokenCounts":
        """From a mapping, which says nothing about the pattern that made it: that is up to the
        caller."""
        spelled = {_spelling(pretoken): count for pretoken, count in counts.items()}
        return PretokenCounts(
            _core.Counts.from_mapping(spelled), described(pattern, special_tokens)
        )

    @staticmethod
    def load(path: str | os.PathLike[str], *, pattern: str | None = None) -> "PretokenCounts":
        """From a Parquet file with columns `pretoken` and `count`.

        Files written elsewhere carry no description and need `pattern`; for files of ours it must
        agree."""
        from tokenmill.train.counts_file import load_counts

        return load_counts(path, pattern)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a Parquet file, sorted by pretoken; its metadata say where the counts come from."""
        from tokenmill.train.counts_file import save_counts

        self.origin = replace(self.origin, inputs=hash_inputs(self.origin.inputs))
        return save_counts(self, path)

    @property
    def core(self) -> _core.Counts:
        """The counts as the engines take them."""
        return self._counts

    @property
    def pattern(self) -> str:
        """The split pattern: its name, or the regex itself if it has none."""
        return self.origin.pattern

    @property
    def special_tokens(self) -> tuple[str, ...] | None:
        """What was cut out of the text; `None` if the file did not say."""
        return self.origin.special_tokens

    @property
    def is_cut(self) -> bool:
        """Whether rare pretokens were dropped."""
        return self.origin.min_count > 1

    @property
    def occurrences(self) -> int:
        """Pretokens of the text, repeats included."""
        return self._counts.occurrences

    @property
    def total_bytes(self) -> int:
        """Bytes of all those pretokens: the text without its special tokens."""
        return self._counts.total_bytes

    def most_common(self, n: int) -> list[tuple[bytes, int]]:
        """The `n` most frequent pretokens with their counts; equal counts in order of bytes."""
        return self._counts.most_common(n)

    def at_least(self, min_count: int) -> "PretokenCounts":
        """Without the pretokens that occur fewer than `min_count` times; the result is marked as
        cut."""
        if min_count <= 1:
            return self
        origin = replace(self.origin, min_count=max(min_count, self.origin.min_count))
        cut = PretokenCounts(self._counts.at_least(min_count), origin)
        cut.report = self.report
        return cut

    def to_dict(self) -> dict[bytes, int]:
        """A plain dict, in order of bytes."""
        return as_dict(self._counts)

    def content_sha256(self) -> str:
        """One hash for equal counts, wherever they are kept."""
        digest = hashlib.sha256()
        for buffer in self._counts.buffers():
            digest.update(buffer)
        return digest.hexdigest()

    def __add__(self, other: "PretokenCounts") -> "PretokenCounts":
        """FormatError naming both if the two were cut by different patterns, special tokens or
        Unicode tables."""
        if not isinstance(other, PretokenCounts):  # pyright: ignore[reportUnnecessaryIsInstance]
            return NotImplemented
        self.origin.require_same_split(other.origin, self._name(), other._name())
        return PretokenCounts(self._counts.add(other._counts), _joined(self.origin, other.origin))

    def _name(self) -> str:
        names = [f"`{each.name}`" for each in self.origin.inputs]
        return (
            f"the counts of {names[0]}{' and others' if len(names) > 1 else ''}"
            if names
            else "one side"
        )

    def __len__(self) -> int:
        """Distinct pretokens."""
        return len(self._counts)

    def __eq__(self, other: object) -> bool:
        """Equal pretokens with equal counts; where they come from does not matter."""
        if not isinstance(other, PretokenCounts):
            return NotImplemented
        return self._counts.buffers() == other._counts.buffers()

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return (
            f"PretokenCounts({quantity(len(self), 'pretoken')}, "
            f"{quantity(self.occurrences, 'occurrence')}, {self.pattern!r})"
        )


def add_files(
    files: Sequence[str | os.PathLike[str]], *, pattern: str | None = None
) -> PretokenCounts:
    """The sum of the counts in `files`, one at a time in memory. FormatError naming the two that do
    not fit together."""
    file, *others = files
    total = PretokenCounts.load(file, pattern=pattern)
    known = total.origin
    for other in others:
        counts = PretokenCounts.load(other, pattern=pattern)
        known.require_same_split(counts.origin, f"`{file}`", f"`{other}`")
        if known.special_tokens is None:
            # What comes next is compared with a file that knows its special tokens, once there is
            # one.
            file, known = other, counts.origin
        total += counts
    return total


def as_dict(counts: _core.Counts) -> dict[bytes, int]:
    """Pretoken → occurrences, in order of bytes."""
    offsets, data, numbers = counts.buffers()
    ends, occurrences = memoryview(offsets).cast("q"), memoryview(numbers).cast("Q")
    return {data[ends[i] : ends[i + 1]]: occurrences[i] for i in range(len(counts))}


def described(
    pattern: str,
    special_tokens: Sequence[str],
    inputs: Sequence[InputRecord] = (),
    read: Mapping[str, object] | None = None,
) -> Origin:
    """An origin with the pattern by its name where it has one. ConfigError for a bad pattern or
    special token."""
    specials = normalise_special_tokens(special_tokens) or ()
    check_pattern_name(pattern)
    check_special_tokens(specials)
    splitter = _core.Splitter(pattern, specials)
    return Origin(splitter.name or splitter.regex, specials, read=read, inputs=tuple(inputs))


def _spelling(pretoken: object) -> bytes:
    if isinstance(pretoken, str):
        return pretoken.encode()
    if isinstance(pretoken, bytes):
        return pretoken
    raise ConfigError(f"a pretoken is bytes or str, found `{pretoken!r}`")


def _joined(one: Origin, other: Origin) -> Origin:
    """What the sum of two counts comes from. Limits that differ are both kept, side by side."""
    read = one.read if one.read == other.read else {"several": [one.read, other.read]}
    return replace(
        one,
        special_tokens=other.special_tokens if one.special_tokens is None else one.special_tokens,
        read=read,
        inputs=(*one.inputs, *other.inputs),
        inputs_unread=one.inputs_unread + other.inputs_unread,
        min_count=max(one.min_count, other.min_count),
    )
