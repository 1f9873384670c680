# pyright: basic
"""The device a run is on, and how many floating-point operations it could do in a second."""

import contextlib
import time
from typing import Any

import torch

from tokenmill.errors import DeviceError

# Dense peaks of matrix units in bf16, in units of 10^12 a second, from the makers' data sheets. Their larger
# figures are for sparse matrices.
_DENSE_PEAKS = {
    "H200": 989,
    "H100": 989,
    "A100": 312,
    "L40S": 362,
    "L4": 121,
    "A10": 125,
    "T4": 65,
    "V100": 125,
    "RTX 4090": 165,
    "RTX 3090": 71,
}


def find_device(name: str, local_rank: int = 0) -> torch.device:
    """The device called `name`. DeviceError if it is not there: nothing runs elsewhere in silence."""
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda", local_rank)
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise DeviceError(
            f"`{name}` is no device", "those are `cpu`, `cuda`, `cuda:1`, `mps`"
        ) from None
    if device.type == "cuda":
        found = torch.cuda.device_count() if torch.cuda.is_available() else 0
        index = local_rank if device.index is None else device.index
        if index >= found:
            listed = ", ".join(f"`cuda:{i}`" for i in range(found)) or "none"
            raise DeviceError(
                f"asked for `{name}`, found {found} CUDA devices ({listed})", "pass `--device cpu`"
            )
        return torch.device("cuda", index)
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise DeviceError(
            "asked for `mps`, which this machine does not have", "pass `--device cpu`"
        )
    if device.type not in ("cpu", "mps"):
        raise DeviceError(f"asked for `{name}`; models run on `cpu`, `cuda` and `mps`")
    return device


def peak_flops(device: torch.device) -> float | None:
    """What the device could do in a second: from its data sheet, or for a CPU measured with one large product."""
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        return next((peak * 1e12 for part, peak in _DENSE_PEAKS.items() if part in name), None)
    return _measured(device) if device.type == "cpu" else None


def _measured(device: torch.device) -> float:
    size = 768
    a, b = torch.randn(2, size, size, device=device)
    best = float("inf")
    for _ in range(6):
        started = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - started)
    return 2 * size**3 / best


def device_memory(device: torch.device) -> int | None:
    """Bytes that the device has, `None` where nobody says."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    return None


def autocast(device: torch.device, precision: str) -> Any:
    """What products are computed in: a context."""
    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
    kind = kinds.get(precision)
    if kind is None:
        return contextlib.nullcontext()
    return torch.autocast(device.type, dtype=kind)
