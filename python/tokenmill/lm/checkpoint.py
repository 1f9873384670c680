# pyright: basic
"""Checkpoints: a folder that is whole or absent, opened without running anybody's code.

    step-00000500/
    ├── model.safetensors        weights, by Llama's names
    ├── optimizer.safetensors    moments, by the names of the weights; what training goes on with
    └── state.json               step, model settings, hash of each file; written last

A folder that was cut short or edited is told by the hashes, and the one before it is used.
"""

import json
import logging
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from tokenmill.errors import FormatError
from tokenmill.lm.model_config import ModelConfig
from tokenmill.storage.files import sha256_of, unreadable, write_folder_atomically

MODEL_FILE = "model.safetensors"
OPTIMIZER_FILE = "optimizer.safetensors"
STATE_FILE = "state.json"
FORMAT = "tokenmill checkpoint"

log = logging.getLogger("tokenmill")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk; its tensors are read when asked for."""

    folder: Path
    state: Mapping[str, Any]
    """Everything that is not a tensor."""

    @property
    def step(self) -> int:
        return self.state["step"]

    @property
    def config(self) -> ModelConfig:
        return ModelConfig.from_json(self.state["model"])

    def weights(self) -> dict[str, Tensor]:
        return _tensors(self.folder / MODEL_FILE)

    def optimizer(self) -> dict[str, Tensor]:
        return _tensors(self.folder / OPTIMIZER_FILE)


def save_checkpoint(
    folder: Path,
    weights: Mapping[str, Tensor],
    optimizer: Mapping[str, Tensor],
    state: Mapping[str, Any],
) -> Checkpoint:
    """Write the folder `folder`, or nothing."""
    with write_folder_atomically(folder) as filling:
        hashes = {}
        for name, tensors in ((MODEL_FILE, weights), (OPTIMIZER_FILE, optimizer)):
            save_file(_on_cpu(tensors), filling / name)
            hashes[name] = sha256_of(filling / name)
        full = {"format": FORMAT, "format_version": 1, **state, "sha256": hashes}
        (filling / STATE_FILE).write_text(json.dumps(full, indent=1) + "\n")
    return Checkpoint(folder, full)


def _on_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}


def open_checkpoint(folder: Path) -> Checkpoint:
    """The checkpoint at `folder`, its files compared with their hashes. FormatError if one differs."""
    state = read_state(folder)
    for name, wanted in state["sha256"].items():
        try:
            found = sha256_of(folder / name)
        except FileNotFoundError:
            raise FormatError(f"`{folder}` has no `{name}`, so it is no whole checkpoint") from None
        if found != wanted:
            raise FormatError(
                f"`{folder / name}` is not what was saved: its sha256 is `{found[:16]}…`, not `{wanted[:16]}…`"
            )
    return Checkpoint(folder, state)


def read_state(folder: Path) -> dict[str, Any]:
    """What `state.json` says. FormatError if it is none of ours."""
    file = folder / STATE_FILE
    try:
        state = json.loads(file.read_bytes())
    except OSError as error:
        raise unreadable(file, error) from error
    except ValueError as error:
        raise FormatError(f"`{file}` is not valid JSON: {error}") from None
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise FormatError(f"`{file}` is no checkpoint of ours")
    for key, kind in (("step", int), ("model", dict), ("sha256", dict)):
        if not isinstance(state.get(key), kind):
            raise FormatError(f"`{file}` has no `{key}`")
    return state


def find_checkpoints(folder: Path) -> list[Path]:
    """Checkpoint folders below `folder`, the latest first; they may be broken."""
    return sorted(folder.glob("step-*"), reverse=True) if folder.is_dir() else []


def latest_checkpoint(folder: Path) -> Checkpoint | None:
    """The latest good checkpoint below `folder`; a warning names those that are not good."""
    for path in find_checkpoints(folder):
        try:
            return open_checkpoint(path)
        except (FormatError, ValueError) as error:
            log.warning("%s; the checkpoint before it is used", error)
    return None


def best_checkpoint(folder: Path) -> Path | None:
    """The folder with the lowest validation loss, `None` if none has one."""
    losses: list[tuple[float, Path]] = []
    for path in find_checkpoints(folder):
        try:
            loss = read_state(path).get("validation_loss")
        except ValueError:
            continue
        if isinstance(loss, float):
            losses.append((loss, path))
    return min(losses)[1] if losses else None


def step_folder(folder: Path, step: int) -> Path:
    return folder / f"step-{step:08}"


def remove_checkpoint(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _tensors(file: Path) -> dict[str, Tensor]:
    try:
        return load_file(file)
    except (SafetensorError, OSError) as error:
        raise FormatError(f"`{file}` cannot be read: {error}") from None


def copy_weights(model: torch.nn.Module, weights: Mapping[str, Tensor], name: str) -> None:
    """Fill `model` with `weights`. FormatError naming what is missing, too much or of another shape."""
    wanted = weights_of(model)
    for key in wanted.keys() ^ weights.keys():
        raise FormatError(f"{name} {'lacks' if key in wanted else 'has an unknown'} weight `{key}`")
    with torch.no_grad():
        for key, tensor in wanted.items():
            if tensor.shape != weights[key].shape:
                raise FormatError(
                    f"weight `{key}` of {name} has the shape {tuple(weights[key].shape)}, not {tuple(tensor.shape)}"
                )
            tensor.copy_(weights[key])


def weights_of(model: torch.nn.Module) -> dict[str, Tensor]:
    """Every weight once, by name: a tied head is the embedding."""
    return dict(model.named_parameters())
