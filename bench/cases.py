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
class EncodeCase:
    """Encoding and decoding beside every peer, on text that the vocab was not trained on."""

    vocab_size: int
    pattern: str
    special_tokens: tuple[str, ...]
    threads: int
    seed: int
    measured_bytes: int
    peers: tuple[str, ...]
    faster_than: dict[str, float]


@dataclass(frozen=True)
class CallCase:
    name: str
    chars: int
    calls: int
    warmup: int
    faster_than: dict[str, float]


@dataclass(frozen=True)
class CompatCase:
    name: str
    faster_than: dict[str, float]


@dataclass(frozen=True)
class LoadCase:
    name: str
    vocab_size: int
    max_seconds: float


@dataclass(frozen=True)
class PathologicalCase:
    """Runs of two sizes, the smaller first."""

    name: str
    sizes: tuple[int, ...]
    max_ratio: float
    min_megabytes_per_second: float


@dataclass(frozen=True)
class Quick:
    measured_bytes: int
    training_bytes: int
    runs: int


@dataclass(frozen=True)
class DatasetCase:
    """What all cases of `bench dataset` share."""

    threads: int
    seed: int
    text_bytes: int
    vocab_size: int
    pattern: str
    special_tokens: tuple[str, ...]


@dataclass(frozen=True)
class DatasetTextCase:
    """`share` is how much of the speed of encoding in memory must be left."""

    name: str
    share: float
    faster_than: dict[str, float]


@dataclass(frozen=True)
class DatasetParquetCase:
    name: str
    share: float
    shard_chars: int
    rows_per_group: int
    compression: str
    level: int


@dataclass(frozen=True)
class DatasetSftCase:
    name: str
    content_bytes: int
    share: float
    faster_than: dict[str, float]


@dataclass(frozen=True)
class DatasetMemoryCase:
    """Streams of these lengths, the shortest first."""

    name: str
    gigabytes: tuple[float, ...]
    max_bytes: int
    max_ratio: float


@dataclass(frozen=True)
class DatasetOpenCase:
    name: str
    token_bytes: int
    tokens_each: int
    shards: tuple[int, ...]
    documents: int
    max_seconds: float
    max_growth_bytes: int


@dataclass(frozen=True)
class DatasetQuick:
    text_bytes: int
    content_bytes: int
    gigabytes: tuple[float, ...]
    token_bytes: int
    runs: int


@dataclass(frozen=True)
class LmCase:
    """What all cases of `bench lm` share."""

    threads: int
    seed: int
    pattern: str
    special_tokens: tuple[str, ...]
    training_bytes: int


@dataclass(frozen=True)
class LmStepCase:
    """`steps` and `faster_than` by preset."""

    name: str
    batch_size: int
    warm_steps: int
    steps: dict[str, int]
    faster_than: dict[str, float]
    max_load_share: float
    max_difference: float


@dataclass(frozen=True)
class LmGenerateCase:
    name: str
    context: int
    prompt_tokens: int
    tokens: int
    faster_than: dict[str, float]
    max_growth: float


@dataclass(frozen=True)
class LmCheckpointCase:
    name: str
    preset: str
    batch_size: int
    max_seconds: float


@dataclass(frozen=True)
class LmSmallWorldCase:
    name: str
    preset: str
    seconds: float
    stories: int
    held_out: int
    batch_size: int
    lr: float
    samples: int
    max_ratio: float
    min_accepted: float


@dataclass(frozen=True)
class LmEnglishCase:
    name: str
    preset: str
    seconds: float
    held_out: int
    batch_size: int
    lr: float
    order: int


@dataclass(frozen=True)
class LmPostTrainingCase:
    """Lengths are drawn from a log-normal; `packed_rows` is our batch size."""

    name: str
    preset: str
    median: float
    sigma: float
    least: int
    most: int
    documents: int
    batch_size: int
    packed_rows: int
    steps: int
    warm_steps: int
    faster_than: float
    max_difference: float
    min_used: float | None = None
    max_memory: float | None = None


@dataclass(frozen=True)
class LmQuick:
    steps: int
    tokens: int
    seconds: float
    runs: int


@dataclass(frozen=True)
class Cases:
    separator: str
    vocab_size: int
    timeout_seconds: float
    train: tuple[TrainCase, ...]
    count: CountCase
    merge: MergeCase
    parquet: ParquetCase
    encode: EncodeCase
    call: CallCase
    compat: CompatCase
    load: LoadCase
    pathological: PathologicalCase
    quick: Quick
    dataset: DatasetCase
    dataset_text: DatasetTextCase
    dataset_parquet: DatasetParquetCase
    dataset_sft: DatasetSftCase
    dataset_memory: DatasetMemoryCase
    dataset_open: DatasetOpenCase
    dataset_quick: DatasetQuick
    lm: LmCase
    lm_step: LmStepCase
    lm_generate: LmGenerateCase
    lm_checkpoint: LmCheckpointCase
    lm_small_world: LmSmallWorldCase
    lm_english: LmEnglishCase
    lm_sft: LmPostTrainingCase
    lm_dpo: LmPostTrainingCase
    lm_quick: LmQuick

    @property
    def names(self) -> list[str]:
        """Of `bench train`."""
        stages = (self.count.name, self.merge.name, self.parquet.name)
        return [*(case.name for case in self.train), *stages]

    @property
    def encode_names(self) -> list[str]:
        """Of `bench encode`."""
        others = (self.call.name, self.compat.name, self.load.name, self.pathological.name)
        return ["encode", "decode", *others]

    @property
    def dataset_names(self) -> list[str]:
        """Of `bench dataset`."""
        by_corpus = (self.dataset_text, self.dataset_parquet, self.dataset_sft)
        return [each.name for each in (*by_corpus, self.dataset_memory, self.dataset_open)]

    @property
    def lm_names(self) -> list[str]:
        """Of `bench lm`."""
        raced = (self.lm_step, self.lm_generate, self.lm_checkpoint)
        trained = (self.lm_small_world, self.lm_english)
        return [each.name for each in (*raced, *trained, self.lm_sft, self.lm_dpo)]


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
        encode=EncodeCase(**_frozen(table["encode"])),
        call=CallCase(**_frozen(table["call"])),
        compat=CompatCase(**_frozen(table["compat"])),
        load=LoadCase(**_frozen(table["load"])),
        pathological=PathologicalCase(**_frozen(table["pathological"])),
        quick=Quick(**table["quick"]),
        dataset=DatasetCase(**_frozen(table["dataset"])),
        dataset_text=DatasetTextCase(**_frozen(table["dataset_text"])),
        dataset_parquet=DatasetParquetCase(**_frozen(table["dataset_parquet"])),
        dataset_sft=DatasetSftCase(**_frozen(table["dataset_sft"])),
        dataset_memory=DatasetMemoryCase(**_frozen(table["dataset_memory"])),
        dataset_open=DatasetOpenCase(**_frozen(table["dataset_open"])),
        dataset_quick=DatasetQuick(**_frozen(table["dataset_quick"])),
        lm=LmCase(**_frozen(table["lm"])),
        lm_step=LmStepCase(**table["lm_step"]),
        lm_generate=LmGenerateCase(**table["lm_generate"]),
        lm_checkpoint=LmCheckpointCase(**table["lm_checkpoint"]),
        lm_small_world=LmSmallWorldCase(**table["lm_small_world"]),
        lm_english=LmEnglishCase(**table["lm_english"]),
        lm_sft=LmPostTrainingCase(**table["lm_sft"]),
        lm_dpo=LmPostTrainingCase(**table["lm_dpo"]),
        lm_quick=LmQuick(**table["lm_quick"]),
    )


def _frozen(table: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
