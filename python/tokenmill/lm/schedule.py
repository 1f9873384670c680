"""Learning rates: step in, rate out; pure arithmetic, so resuming needs nothing."""

import math
from dataclasses import dataclass

from tokenmill.errors import ConfigError
from tokenmill.sources.choices import require_one_of

SCHEDULES = ("cosine", "wsd", "constant")


@dataclass(frozen=True)
class Schedule:
    """The rate of each step from 0 on."""

    kind: str
    peak: float
    floor: float
    """The rate of the last steps."""
    warmup_steps: int
    max_steps: int
    cooldown_steps: int = 0
    """Of `wsd`: linear from the peak to the floor."""

    def __post_init__(self) -> None:
        require_one_of("schedule", self.kind, SCHEDULES)
        if not 0 <= self.floor <= self.peak:
            raise ConfigError(
                f"learning rate {self.peak} falls to {self.floor}, which is not below it"
            )
        for name in ("warmup_steps", "cooldown_steps"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name.replace('_', ' ')} {getattr(self, name)} is below 0")
        if self.kind == "wsd" and self.warmup_steps + self.cooldown_steps > self.max_steps:
            raise ConfigError(
                f"{self.warmup_steps} warm-up and {self.cooldown_steps} cool-down steps are more than "
                f"the {self.max_steps} there are"
            )

    def rate(self, step: int) -> float:
        """The learning rate of `step`. Warm-up ends with the first step at the peak."""
        if step < self.warmup_steps:
            return self.peak * (step + 1) / (self.warmup_steps + 1)
        match self.kind:
            case "cosine":
                return self._cosine(step)
            case "wsd":
                return self._trapezoid(step)
            case _:
                return self.peak

    def _cosine(self, step: int) -> float:
        """Half a wave from the peak, at the end of warm-up, to the floor at the last step."""
        last = self.max_steps - 1
        if step >= last:
            return self.floor if last > self.warmup_steps else self.peak
        share = (step - self.warmup_steps) / (last - self.warmup_steps)
        return self.floor + 0.5 * (1 + math.cos(math.pi * share)) * (self.peak - self.floor)

    def _trapezoid(self, step: int) -> float:
        before = self.max_steps - self.cooldown_steps
        if step < before:
            return self.peak
        share = min(1.0, (step - before + 1) / max(1, self.cooldown_steps))
        return self.peak + share * (self.floor - self.peak)
