"""How large the shards of each split are by now: what a run that goes on has to know."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class ShardSize(NamedTuple):
    """What a shard holds."""

    tokens: int = 0
    documents: int = 0
    bytes: int = 0
    """Of text."""
    trained: int = 0
    """Tokens whose mask is 1."""


class Growth:
    """The shards of each split so far, the last of them still growing."""

    def __init__(self) -> None:
        self._sizes: dict[str, list[ShardSize]] = {}

    def last(self, split: str) -> tuple[int, ShardSize]:
        """The shard that grows, by number and size."""
        sizes = self._sizes.get(split) or [ShardSize()]
        return len(sizes) - 1, sizes[-1]

    def go_on(self, split: str, number: int, sizes: Sequence[Sequence[int]]) -> None:
        """From shard `number` on, the split now has shards of these `sizes`. ValueError if the
        shards before are missing."""
        known = self._sizes.get(split, [])
        if number > max(0, len(known) - 1) or not sizes:
            raise ValueError(f"shard {number} of `{split}` follows {len(known)}")
        self._sizes[split] = [*known[:number], *(ShardSize(*size) for size in sizes)]

    def shards(self) -> Mapping[str, list[ShardSize]]:
        """All that hold something, by split. The last one may have been begun and never filled."""
        filled = {
            split: [size for size in sizes if size.documents]
            for split, sizes in self._sizes.items()
        }
        return {split: sizes for split, sizes in filled.items() if sizes}
