"""The cases of cases.toml as frozen values. Numbers live in that file, never in code."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CASES_FILE = Path(__file__).parent / "cases.toml"


@dataclass(frozen=True)
class TrainCase:
    """One pattern, every peer that knows it, and how many times faster than which peer we mean to be."""

    name: str
    pattern: str
    ties: str
    peers: tuple[str, ...]
    faster_than: dict[str, float]
    leanest: bool


@dataclass(frozen=True)
class CountCase:
    name: str
    patterns: tuple[str, ...]
    threads: int
    min_megabytes_per_second: float


@dataclass(frozen=True)
class MergeCase:
    """Merging alone, on inventories of the given numbers of distinct pretokens, smallest first."""

    name: str
    distinct: tuple[int, ...]
    max_ratio: float


@dataclass(frozen=True)
class ParquetCase:
    name: str
    pattern: str
    rows_per_group: int
    max_ratio: float


@dataclass(frozen=True)
class Cases:
    separator: str
    vocab_size: int
    timeout_seconds: float
    train: tuple[TrainCase, ...]
    count: CountCase
    merge: MergeCase
    parquet: ParquetCase

    @property
    def names(self) -> list[str]:
        stages = (self.count.name, self.merge.name, self.parquet.name)
        return [*(case.name for case in self.train), *stages]


def load_cases(path: Path = CASES_FILE) -> Cases:
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return Cases(
        separator=table["separator"],
        vocab_size=table["vocab_size"],
        timeout_seconds=table["timeout_seconds"],
        train=tuple(TrainCase(**_frozen(case)) for case in table["train"]),
        count=CountCase(**_frozen(table["count"])),
        merge=MergeCase(**_frozen(table["merge"])),
        parquet=ParquetCase(**_frozen(table["parquet"])),
    )


def _frozen(table: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
