# pyright: basic
"""Whether a run fits the memory there is: before it starts by arithmetic, and in words when it did not."""

from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

import torch

from tokenmill.errors import DeviceError
from tokenmill.lm.accounting import account
from tokenmill.lm.hardware import device_memory
from tokenmill.lm.model_config import ModelConfig
from tokenmill.progress import quantity, size


@dataclass(frozen=True)
class MemoryNeed:
    """What training takes at least, with some rows at once, and what there is."""

    config: ModelConfig
    rows: int
    available: int | None
    precision: str = "fp32"
    is_frozen: bool = False
    """Whether adapters are trained and the weights are not."""

    @property
    def wanted(self) -> int:
        return self._least(self.rows)

    def _least(self, rows: int) -> int:
        """In 16 bits, products are kept in half of the bytes, while weights and all that is kept of them have 32. What is frozen has
        neither gradients nor moments."""
        parts = {
            each.name: each.value
            for each in account(self.config, batch_size=rows).memory.components
        }
        if self.precision != "fp32":
            parts["activations"] //= 2
        if self.is_frozen:
            parts["gradients"] = parts["optimizer"] = 0
        return sum(parts.values())

    def require(self) -> None:
        """DeviceError if the arithmetic says that a run cannot fit."""
        if self.available is not None and self.wanted > self.available:
            raise self.error()

    def most_rows(self) -> int | None:
        """How many of them would fit at once; 0 if one row does not."""
        if self.available is None:
            return None
        return bisect_right(range(1, self.rows + 1), self.available, key=self._least)

    def error(self) -> DeviceError:
        there = "" if self.available is None else f", and {size(self.available)} are there"
        asked = f"training with {quantity(self.rows, 'row')} at once takes about {size(self.wanted)}{there}"
        most = self.most_rows()
        if most == 0 or self.rows == 1:
            return DeviceError(
                asked, "a smaller `--preset` or `--context`: one row does not fit either"
            )
        fitting = "fewer" if most is None else f"{min(most, self.rows - 1):,}"
        return DeviceError(asked, f"pass `--micro-batch-size {fitting}`: the steps stay the same")


def is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def available_memory(device: torch.device) -> int | None:
    if device.type != "cpu":
        return device_memory(device)
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found[0]) * 1024 if found else None
