# pyright: basic
"""Files that hold weights of others: tensors in float32 and plain JSON out, no code run."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from tokenmill.errors import FormatError
from tokenmill.storage.files import unreadable

_FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


def read_json(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_bytes())
    except OSError as error:
        raise unreadable(file, error) from error
    except ValueError as error:
        raise FormatError(f"`{file}` is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise FormatError(f"`{file}` holds no JSON object")
    return value


def read_safetensors(file: Path) -> Iterator[tuple[str, Tensor]]:
    """Names and tensors of a file, in float32."""
    if not file.is_file():
        raise FormatError(f"`{file}` does not exist, but it should hold weights")
    try:
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118 - it is no mapping
                yield name, as_float32(opened.get_tensor(name), name, file)
    except (SafetensorError, OSError) as error:
        raise FormatError(f"`{file}` cannot be read as safetensors: {error}") from None


def as_float32(tensor: Tensor, name: str, file: Path) -> Tensor:
    if tensor.dtype not in _FLOATS:
        raise FormatError(
            f"weight `{name}` of `{file}` is of type `{str(tensor.dtype).removeprefix('torch.')}`; "
            "floats of 16 or more bits are read"
        )
    return tensor.to(torch.float32)
