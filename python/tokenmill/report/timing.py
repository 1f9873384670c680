"""Timing: what a clock showed over rounds on the same batches, and the numbers people ask for."""

from dataclasses import dataclass

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Work:
    """What is done in one round."""

    num_batches: int
    num_documents: int
    num_bytes: int
    num_tokens: int


@dataclass(frozen=True)
class Timing:
    """Seconds of each round of the same work. Rates and averages are over all rounds."""

    rounds: tuple[float, ...]
    work: Work

    @property
    def seconds(self) -> float:
        """Of one round, on average; never zero, for a clock may be coarser than the work."""
        return max(sum(self.rounds) / len(self.rounds), 1e-9)

    @property
    def batch_seconds(self) -> float:
        return self.seconds / self.work.num_batches

    @property
    def document_seconds(self) -> float:
        return self.seconds / self.work.num_documents

    @property
    def bytes_per_second(self) -> float:
        return self.work.num_bytes / self.seconds

    @property
    def megabytes_per_second(self) -> float:
        return self.bytes_per_second / MEGABYTE

    @property
    def tokens_per_second(self) -> float:
        return self.work.num_tokens / self.seconds

    def as_json(self) -> dict[str, object]:
        return {
            "rounds_seconds": list(self.rounds),
            "batch_seconds": self.batch_seconds,
            "document_seconds": self.document_seconds,
            "megabytes_per_second": self.megabytes_per_second,
            "tokens_per_second": self.tokens_per_second,
        }


@dataclass(frozen=True)
class ColdAndWarm:
    """The first round with a new tokenizer, and the rounds after it."""

    cold: Timing
    warm: Timing

    def as_json(self) -> dict[str, object]:
        return {"cold": self.cold.as_json(), "warm": self.warm.as_json()}
