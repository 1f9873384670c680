"""How large the demo is. No torch."""

from dataclasses import asdict, dataclass
from typing import Any

FORMAT_VERSION = 1


@dataclass(frozen=True)
class DemoSettings:
    """Every choice of a demo; what it makes depends on nothing else."""

    seed: int = 0
    """Of the world, of weights and of the order of rows."""
    stories: int = 20_000
    validation_stories: int = 400
    vocab_size: int = 1024
    num_layers: int = 4
    context: int = 128
    base_steps: int = 1000
    conversations: int = 12_000
    pairs: int = 1600
    questions: int = 256
    """To test with; as many pairs of answers are tested with too."""

    @staticmethod
    def fast(seed: int = 0) -> "DemoSettings":
        """Less of everything: under a minute, and still answers."""
        return DemoSettings(
            seed=seed,
            stories=6000,
            validation_stories=200,
            num_layers=2,
            base_steps=250,
            conversations=7200,
            pairs=800,
        )

    @property
    def model(self) -> dict[str, Any]:
        """What is changed of the preset `1m`."""
        return {"num_layers": self.num_layers, "context": self.context, "qk_norm": True}

    @property
    def test_start(self) -> int:
        """The first story to test with: behind all that were trained on."""
        return 10_000_000

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


BASE: dict[str, Any] = {"batch_size": 8, "lr": 4e-3, "min_lr": 0.0}
SFT: dict[str, Any] = {"batch_size": 8, "lr": 2e-3}
DPO: dict[str, Any] = {"batch_size": 16, "lr": 5e-5}
"""Small batches learn most from few rows, which is what two cores have time for."""
