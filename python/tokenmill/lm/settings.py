"""How a model is trained: one frozen record of every choice, with the defaults everybody else refers to. No torch."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from tokenmill.errors import ConfigError
from tokenmill.lm.model_config import ModelConfig
from tokenmill.lm.schedule import SCHEDULES, Schedule
from tokenmill.sources.choices import require_one_of, require_whole_number

PACKINGS = ("wrapped", "best-fit")
OPTIMIZERS = ("adamw", "adamw-plain", "sgd")
PRECISIONS = ("fp32", "bf16", "fp16")
COMPILES = ("auto", "on", "off")


@dataclass(frozen=True)
class TrainSettings:
    """Every choice about training, besides data and model."""

    batch_size: int = 32
    """Rows of one step, on all ranks together."""
    micro_batch_size: int | None = None
    """Rows that one rank computes at once; `None` takes all of its share."""
    max_steps: int = 1000
    lr: float = 1e-3
    """The peak of the learning rate."""
    min_lr: float | None = None
    """What it falls to; `None` is a tenth of the peak."""
    schedule: str = "cosine"
    warmup_steps: int | None = None
    """`None` is a twentieth of all steps."""
    cooldown_steps: int | None = None
    """Of `wsd`; `None` is a fifth of all steps."""
    optimizer: str = "adamw"
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    weight_decay: float = 0.1
    """On matrices; gains do not decay."""
    clip: float | None = 1.0
    """Longest gradient, as a norm over all weights."""
    seed: int = 0
    """Of weights, order of rows, dropout."""
    packing: str = "wrapped"
    document_mask: bool = False
    """Whether documents in one row are kept from looking at each other."""
    precision: str = "fp32"
    compile: str = "auto"
    """Whether torch.compile is used; `auto` does on a GPU for a run that is long enough to repay it."""
    device: str = "auto"
    """`cpu`, `cuda`, `cuda:1`, `mps`; `auto` is a GPU if there is one."""
    threads: int | None = None
    eval_every: int | None = None
    """Steps between validation losses; `None` is a twentieth of all steps, 0 is never."""
    eval_rows: int = 256
    """Rows of validation text for each, the same ones every time."""
    save_every: int | None = None
    """Steps between checkpoints; `None` is a tenth of all steps."""
    keep_last: int = 2
    """Checkpoints that are kept beside the best one."""
    log_every: int = 10
    sample_every: int = 0
    """Steps between samples; 0 is never."""
    sample_prompts: tuple[str, ...] = ("",)
    sample_tokens: int = 64

    def __post_init__(self) -> None:
        for name, known in (
            ("schedule", SCHEDULES),
            ("optimizer", OPTIMIZERS),
            ("packing", PACKINGS),
            ("precision", PRECISIONS),
            ("compile", COMPILES),
        ):
            require_one_of(name, getattr(self, name), known)
        for name, least in _LEAST.items():
            if getattr(self, name) is not None:
                require_whole_number(name.replace("_", " "), getattr(self, name), least)
        for name in ("lr", "eps"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} {getattr(self, name)} is not above 0")
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} {getattr(self, name)} is not between 0 and 1")
        if self.clip is not None and not self.clip > 0:
            raise ConfigError(f"clip {self.clip} is not above 0", "leave it out to clip nothing")
        if self.weight_decay < 0:
            raise ConfigError(f"weight decay {self.weight_decay} is below 0")
        self.learning_rates()

    def learning_rates(self) -> Schedule:
        """The schedule, with what is left open filled in."""
        return Schedule(
            self.schedule,
            self.lr,
            self.lr / 10 if self.min_lr is None else self.min_lr,
            self.max_steps // 20 if self.warmup_steps is None else self.warmup_steps,
            self.max_steps,
            self.max_steps // 5 if self.cooldown_steps is None else self.cooldown_steps,
        )

    def with_warmup_of(self, before: "TrainSettings") -> "TrainSettings":
        """These settings with the warm-up of `before`, if they leave it open: it follows from `max_steps`, which may be
        others by now, and what is done is done."""
        kept = before.learning_rates().warmup_steps
        if self.warmup_steps is not None or kept == self.learning_rates().warmup_steps:
            return self
        return replace(self, warmup_steps=kept)

    @property
    def steps_between_evals(self) -> int:
        return max(1, self.max_steps // 20) if self.eval_every is None else self.eval_every

    @property
    def steps_between_saves(self) -> int:
        return max(1, self.max_steps // 10) if self.save_every is None else self.save_every

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "sample_prompts": list(self.sample_prompts)}

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "TrainSettings":
        """What `as_json` gave; names of other versions are passed over."""
        known = {field.name for field in fields(TrainSettings)}
        kept: dict[str, Any] = {name: value for name, value in values.items() if name in known}
        if "sample_prompts" in kept:
            kept["sample_prompts"] = tuple(kept["sample_prompts"])
        return TrainSettings(**kept)


_LEAST = {
    "batch_size": 1,
    "micro_batch_size": 1,
    "max_steps": 1,
    "warmup_steps": 0,
    "cooldown_steps": 0,
    "seed": 0,
    "threads": 1,
    "eval_every": 0,
    "eval_rows": 1,
    "save_every": 1,
    "keep_last": 1,
    "log_every": 1,
    "sample_every": 0,
    "sample_tokens": 1,
}

# What may differ when a run goes on: none of it decides a weight.
FREE_TO_CHANGE = frozenset(
    {
        "keep_last",
        "log_every",
        "save_every",
        "sample_every",
        "sample_prompts",
        "sample_tokens",
        "eval_every",
        "eval_rows",
        "device",
        "compile",
        "threads",
    }
)

# What may differ as long as no step that is done would have had another learning rate.
OF_SCHEDULE = ("max_steps", "schedule", "min_lr", "warmup_steps", "cooldown_steps")


def differing_setting(
    before: Mapping[str, Any], now: Mapping[str, Any], free: Collection[str] = FREE_TO_CHANGE
) -> str | None:
    """The first setting that decides weights and is not what it was; `None` if there is none."""
    for name in {**before, **now}:
        if name not in free and before.get(name) != now.get(name):
            return f"`{name}` `{before.get(name)}`, not `{now.get(name)}`"
    return None


def differing_shape(before: ModelConfig, now: ModelConfig) -> str | None:
    """The same for the model's shape."""
    return differing_setting(before.as_json(), now.as_json())
