# pyright: basic
"""Whether a run fits the memory there is: before it starts by arithmetic, and in words when it did not."""

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
    """What training takes with some rows at once, and what there is."""

    config: ModelConfig
    rows: int
    available: int | None

    @property
    def wanted(self) -> int:
        return account(self.config, batch_size=self.rows).memory.total

    def most_rows(self) -> int | None:
        """How many rows at once would fit; 0 if the weights alone do not."""
        if self.available is None:
            return None
        one = account(self.config, batch_size=1).memory.total
        each = account(self.config, batch_size=2).memory.total - one
        fixed = one - each
        return max(0, (self.available - fixed) // each)

    def error(self) -> DeviceError:
        there = "" if self.available is None else f", and {size(self.available)} are there"
        asked = f"training with {quantity(self.rows, 'row')} at once takes about {size(self.wanted)}{there}"
        most = self.most_rows()
        if most == 0:
            return DeviceError(
                asked, "a smaller `--preset`: the weights and their moments alone do not fit"
            )
        fitting = "fewer" if most is None else f"{min(most, self.rows - 1):,}"
        return DeviceError(asked, f"pass `--micro-batch-size {fitting}`: the steps stay the same")


def memory_need(config: ModelConfig, rows: int, device: torch.device) -> MemoryNeed:
    return MemoryNeed(config, rows, _available(device))


def require_memory(config: ModelConfig, rows: int, device: torch.device) -> None:
    """DeviceError if the arithmetic says that a run cannot fit."""
    need = memory_need(config, rows, device)
    if need.available is not None and need.wanted > need.available:
        raise need.error()


def is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)


def _available(device: torch.device) -> int | None:
    if device.type != "cpu":
        return device_memory(device)
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found[0]) * 1024 if found else None
