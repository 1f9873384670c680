"""What fine-tuning and preference training have to choose besides how to train. No torch."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from tokenmill.errors import ConfigError
from tokenmill.lm.model_config import ModelConfig
from tokenmill.lm.settings import TrainSettings
from tokenmill.sources.choices import require_one_of, require_whole_number

TOO_LONG = ("drop", "keep-start", "keep-end", "error")
LOSS_NAMES = ("sigmoid", "ipo")
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
"""The matrices of a block, by the names that transformers gives them."""

_SAME = TrainSettings(
    weight_decay=0.0, schedule="wsd", packing="best-fit", document_mask=True, min_lr=0.0
)
SFT = replace(_SAME, lr=2e-4)
"""A fifth of pretraining's peak."""
LORA = replace(_SAME, lr=2e-3)
"""Adapters begin at 0, and take ten times as much."""
DPO = replace(_SAME, lr=5e-6)
DPO_LORA = replace(_SAME, lr=5e-5)


@dataclass(frozen=True)
class LoraSettings:
    """How large adapters are, and where."""

    rank: int = 8
    alpha: float = 16.0
    """The product counts alpha / rank times."""
    targets: tuple[str, ...] = TARGETS
    """The matrices of each block that get one."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "targets", tuple(self.targets))
        require_whole_number("rank of LoRA", self.rank, 1)
        if not (math.isfinite(self.alpha) and self.alpha > 0):
            raise ConfigError(f"alpha {self.alpha} of LoRA is not above 0")
        if not self.targets:
            raise ConfigError("LoRA has no targets", f"choose among {', '.join(TARGETS)}")
        for name in self.targets:
            require_one_of("target of LoRA", name, TARGETS)

    def require_some_in(self, config: ModelConfig) -> None:
        """ConfigError if a model of this shape has none of the targets."""
        there = [name for name in TARGETS if name != "gate_proj" or config.is_gated]
        if not set(self.targets) & set(there):
            raise ConfigError(
                f"LoRA is to be on `{', '.join(self.targets)}`, of which a model with activation `{config.activation}` has none",
                f"choose among {', '.join(there)}",
            )

    @property
    def scale(self) -> float:
        return self.alpha / self.rank

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "targets": list(self.targets)}


@dataclass(frozen=True)
class SftSettings:
    """What fine-tuning has to choose."""

    epochs: float = 2.0
    """How often each row is seen; `max_steps`, if given, decide instead."""
    too_long: str = "drop"
    """What happens to a conversation that is longer than the context."""
    lora: LoraSettings | None = None
    """`None` trains all weights."""

    def __post_init__(self) -> None:
        _require_choices(self.epochs, self.too_long)

    @property
    def defaults(self) -> TrainSettings:
        """How it is trained where nobody says otherwise."""
        return SFT if self.lora is None else LORA

    def as_json(self) -> dict[str, Any]:
        """Those that decide weights, and are not steps."""
        return {"too_long": self.too_long, "lora": _json_of(self.lora)}


@dataclass(frozen=True)
class DpoSettings:
    """What preference training has to choose."""

    beta: float = 0.1
    """How closely the model is held to the reference."""
    loss: str = "sigmoid"
    sft_weight: float = 0.0
    """How much −log p of the tokens of chosen answers, on average, counts beside the loss."""
    epochs: float = 1.0
    too_long: str = "drop"
    """What happens to a pair of which an answer is longer than the context."""
    lora: LoraSettings | None = None

    def __post_init__(self) -> None:
        _require_choices(self.epochs, self.too_long)
        require_one_of("loss", self.loss, LOSS_NAMES)
        if not (math.isfinite(self.beta) and self.beta > 0):
            raise ConfigError(f"beta {self.beta} is not above 0")
        if not (math.isfinite(self.sft_weight) and self.sft_weight >= 0):
            raise ConfigError(f"sft_weight {self.sft_weight} is below 0")

    @property
    def defaults(self) -> TrainSettings:
        """How it is trained where nobody says otherwise."""
        return DPO if self.lora is None else DPO_LORA

    def as_json(self) -> dict[str, Any]:
        """Those that decide weights, and are not steps."""
        return {
            "beta": self.beta,
            "loss": self.loss,
            "sft_weight": self.sft_weight,
            "too_long": self.too_long,
            "lora": _json_of(self.lora),
        }


def lora_of(stage_settings: Mapping[str, Any]) -> LoraSettings | None:
    """The adapters of a run, as its file tells; `None` if it has none."""
    found = stage_settings.get("lora")
    return None if found is None else LoraSettings(**found)


def _json_of(lora: LoraSettings | None) -> dict[str, Any] | None:
    return None if lora is None else lora.as_json()


def _require_choices(epochs: float, too_long: str) -> None:
    if not (math.isfinite(epochs) and epochs > 0):
        raise ConfigError(f"epochs {epochs} are not above 0")
    require_one_of("too-long policy", too_long, TOO_LONG)
