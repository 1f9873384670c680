"""The datasets that have a name here: where they are, which files, which splits, under what licence.

Adding one is adding an entry to `CATALOGUE`; if its rows need another shape, also a function in
`pull/rows/` named in `rows`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tokenmill.errors import ConfigError

TRAIN, VALIDATION, TEST = "train", "validation", "test"


@dataclass(frozen=True)
class FixedFiles:
    """Files known by name: split → paths in the repository."""

    paths: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class NumberedShards:
    """`pattern` with every number from 0 to `last`; the last one is the validation split."""

    pattern: str
    last: int
    default: str
    """What `--shards` is when nobody says: all would be hundreds of gigabytes."""


@dataclass(frozen=True)
class ListedFiles:
    """Whatever the server lists under a glob, all of it text to train on; `--shards` counts them in
    order."""

    pattern: str


Files = FixedFiles | NumberedShards | ListedFiles


@dataclass(frozen=True)
class NamedDataset:
    """A dataset on the Hub."""

    name: str
    repository: str
    about: str
    licence: str
    files: Mapping[str, Files]
    """By config; the first is the default. A dataset without configs has one called ``."""
    rows: str | None = None
    """The module of `pull/rows/` that gives its rows another shape; `None` keeps the files."""
    row_configs: tuple[str, ...] = field(default=())
    """Configs that choose the shape of the rows, not the files; the first is the default."""

    @property
    def configs(self) -> tuple[str, ...]:
        return self.row_configs or tuple(name for name in self.files if name)

    def files_of(self, config: str) -> Files:
        return self.files[""] if "" in self.files else self.files[config]


def _wikitext(config: str, train_files: int) -> FixedFiles:
    def paths(split: str, count: int) -> tuple[str, ...]:
        return tuple(f"{config}/{split}-{index:05}-of-{count:05}.parquet" for index in range(count))

    return FixedFiles(
        {TRAIN: paths(TRAIN, train_files), VALIDATION: paths(VALIDATION, 1), TEST: paths(TEST, 1)}
    )


CATALOGUE = (
    NamedDataset(
        "fineweb-edu",
        "karpathy/fineweb-edu-100b-shuffle",
        "100 billion tokens of educational web text, shuffled, in 1,823 shards of about 90 MB",
        "ODC-By 1.0",
        {"": NumberedShards("shard_{:05}.parquet", 1822, "..8")},
    ),
    NamedDataset(
        "climbmix",
        "karpathy/climbmix-400b-shuffle",
        "400 billion tokens of NVIDIA's ClimbMix, shuffled, in 6,543 shards of about 90 MB",
        "CC BY-NC 4.0",
        {"": NumberedShards("shard_{:05}.parquet", 6542, "..8")},
    ),
    NamedDataset(
        "fineweb",
        "HuggingFaceFW/fineweb",
        "web text; samples of 10 and 100 billion tokens",
        "ODC-By 1.0",
        {
            "sample-10BT": ListedFiles("sample/10BT/*.parquet"),
            "sample-100BT": ListedFiles("sample/100BT/*.parquet"),
        },
    ),
    NamedDataset(
        "tinystories",
        "roneneldan/TinyStories",
        "short stories by GPT-4, 2.2 GB of plain text with `<|endoftext|>` between them",
        "CDLA-Sharing 1.0",
        {
            "": FixedFiles(
                {
                    TRAIN: ("TinyStoriesV2-GPT4-train.txt",),
                    VALIDATION: ("TinyStoriesV2-GPT4-valid.txt",),
                }
            )
        },
    ),
    NamedDataset(
        "tinystories-hf",
        "roneneldan/TinyStories",
        "the first version of TinyStories, by GPT-3.5 and GPT-4, as Parquet",
        "CDLA-Sharing 1.0",
        {
            "": FixedFiles(
                {
                    TRAIN: (
                        "data/train-00000-of-00004-2d5a1467fff1081b.parquet",
                        "data/train-00001-of-00004-5852b56a2bd28fd9.parquet",
                        "data/train-00002-of-00004-a26307300439e943.parquet",
                        "data/train-00003-of-00004-d243063613e5a057.parquet",
                    ),
                    VALIDATION: ("data/validation-00000-of-00001-869c898b519ad725.parquet",),
                }
            )
        },
    ),
    NamedDataset(
        "wikitext",
        "Salesforce/wikitext",
        "good and featured Wikipedia articles, joined from lines; 103 or 2 million words",
        "CC BY-SA 3.0 and GFDL",
        {
            "wikitext-103-raw-v1": _wikitext("wikitext-103-raw-v1", 2),
            "wikitext-2-raw-v1": _wikitext("wikitext-2-raw-v1", 1),
        },
        rows="wikitext",
    ),
    NamedDataset(
        "owt-sample",
        "stanford-cs336/owt-sample",
        "a sample of OpenWebText, as the CS336 course uses it",
        "CC0 (the collection; the texts are their authors')",
        {"": FixedFiles({TRAIN: ("owt_train.txt.gz",), VALIDATION: ("owt_valid.txt.gz",)})},
    ),
    NamedDataset(
        "alpaca",
        "yahma/alpaca-cleaned",
        "52,000 instructions with answers; 2,000 for validation and 2,000 for testing by seed",
        "CC BY 4.0",
        {"": FixedFiles({TRAIN: ("alpaca_data_cleaned.json",)})},
        rows="alpaca",
    ),
    NamedDataset(
        "oasst1",
        "OpenAssistant/oasst1",
        "conversations with ranked answers: preference pairs, or the best path as messages",
        "Apache 2.0",
        {
            "": FixedFiles(
                {
                    TRAIN: ("data/train-00000-of-00001-b42a775f407cee45.parquet",),
                    VALIDATION: ("data/validation-00000-of-00001-134b8fd0c89408b6.parquet",),
                }
            )
        },
        rows="oasst1",
        row_configs=("preference", "messages"),
    ),
    NamedDataset(
        "ultrafeedback",
        "HuggingFaceH4/ultrafeedback_binarized",
        "61,000 prompts with a chosen and a rejected answer",
        "MIT",
        {
            "": FixedFiles(
                {
                    TRAIN: ("data/train_prefs-00000-of-00001.parquet",),
                    TEST: ("data/test_prefs-00000-of-00001.parquet",),
                }
            )
        },
        rows="ultrafeedback",
    ),
)


def find_dataset(name: str) -> NamedDataset:
    """The dataset called `name`. ConfigError with all names, and the nearest, if there is none."""
    for dataset in CATALOGUE:
        if dataset.name == name:
            return dataset
    from tokenmill.sources.choices import nearest_hint

    names = [dataset.name for dataset in CATALOGUE]
    listed = ", ".join(f"`{each}`" for each in names)
    raise ConfigError(
        f"unknown dataset `{name}`; there are {listed}",
        nearest_hint(name, names)
        or "an address starts with `https://`, `hf://`, `s3://` or `gs://`",
    )
