"""What every backend takes and gives."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tokenmill import _core
from tokenmill.train.settings import TrainSettings

Progress = Callable[[int, int], None]
"""Called now and then with (merges done, count of the last merge)."""


@dataclass(frozen=True)
class LearnedMerges:
    """Merges in rank order. Ids: the 256 bytes, then learned tokens; special tokens get theirs
    later."""

    tokens: list[bytes]
    """Bytes of every id."""
    merges: list[tuple[int, int, int]]
    """(left id, right id, joined id)."""
    counts: list[int] | None
    """Occurrences of each merge's pair when it was made, if the backend keeps them."""
    stopped: str
    """`full`, `no pairs` or `min count`."""
    training_tokens: int
    """Tokens the counted text becomes."""
    num_pairs: int
    """Distinct pairs before the first merge."""
    top_pairs: list[tuple[int, int, int]]
    """(left, right, count) of the most frequent pairs before the first merge."""
    first_shared: int | None
    """Index of the first merge that spells a token that exists already."""


class Backend(Protocol):
    """Learns merges."""

    def __call__(
        self, counts: _core.Counts, settings: TrainSettings, threads: int, progress: Progress | None
    ) -> LearnedMerges: ...
