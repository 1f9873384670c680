"""What every module of rows shares: its arguments, and a choice of rows by seed."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Row = Mapping[str, object]


@dataclass(frozen=True)
class Choice:
    """What a person may choose about rows."""

    config: str
    seed: int


RowMaker = Callable[
    [Mapping[str, Sequence[Path]], Choice, "Counter[str]"], Iterator[tuple[str, Row]]
]


def drawn(keys: Sequence[str], count: int, seed: int) -> set[str]:
    """`count` of `keys`, the same ones for the same seed on every machine and version of Python."""

    def place(key: str) -> bytes:
        return hashlib.sha256(f"{seed}:{key}".encode("utf-8", "surrogatepass")).digest()

    return set(sorted(keys, key=place)[:count])


def message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}
