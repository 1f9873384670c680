"""What to measure: a frozen record for each report, with the defaults everybody else refers to."""

from dataclasses import dataclass

from tokenmill.sources.choices import require_whole_number
from tokenmill.tokenizer.threads import num_threads


@dataclass(frozen=True)
class ThroughputSettings:
    """What to time, and how often."""

    batch_size: int = 512
    """Documents that go to the tokenizer in one call."""
    batches: int = 60
    """Most batches to sample; a short text gives fewer."""
    rounds: int = 3
    """Warm rounds; one cold round comes before them."""
    seed: int = 0
    """Which documents are sampled."""
    threads: int | None = None
    """For every engine; `None` is one for each core."""

    def __post_init__(self) -> None:
        require_whole_number("batch size", self.batch_size, 1)
        require_whole_number("batches", self.batches, 1)
        require_whole_number("rounds", self.rounds, 1)
        require_whole_number("seed", self.seed, 0)
        num_threads(self.threads)

    @property
    def sample_size(self) -> int:
        return self.batch_size * self.batches


@dataclass(frozen=True)
class CompressionSettings:
    """Which documents of each row to measure."""

    sample: int | None = None
    """Documents of each row; `None` takes all."""
    seed: int = 0
    label_field: str | None = None
    """Column or key whose value is the row a document belongs to; `None` makes a row of each text."""
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.sample is not None:
            require_whole_number("sample", self.sample, 1)
        require_whole_number("seed", self.seed, 0)
        num_threads(self.threads)
