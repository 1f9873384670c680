# pyright: basic
"""Open a model: a folder in, a Model with its tokenizer out.

The folder is a run (its last good checkpoint, its best, or one by number), a checkpoint, or a folder of transformers. The weights
and the tokenizer are held against the hashes that were saved with them; nothing in a folder is executed.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tokenmill.errors import ConfigError, FormatError
from tokenmill.lm.checkpoint import (
    STATE_FILE,
    Checkpoint,
    copy_weights,
    find_checkpoints,
    latest_checkpoint,
    open_checkpoint,
    read_state,
    step_folder,
)
from tokenmill.lm.hardware import find_device
from tokenmill.lm.import_model import CONFIG_FILE, import_model
from tokenmill.lm.lora import merge_lora
from tokenmill.lm.model import Model
from tokenmill.lm.model_config import ModelConfig
from tokenmill.lm.post_training_settings import lora_of
from tokenmill.storage.files import local_path
from tokenmill.tokenizer.tokenizer import Tokenizer

CHECKPOINTS_FOLDER = "checkpoints"
TOKENIZER_FOLDER = "tokenizer"
LOSS_KEY = "validation_loss"
"""Of state.json: what `best` compares. A checkpoint that was not evaluated lacks it or has null."""


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to be asked: on its device, in float32, dropout off."""

    model: Model
    tokenizer: Tokenizer | None
    """`None` if the model was trained on ids that came without one."""
    step: int | None
    """Of the checkpoint; `None` for a folder of transformers."""
    folder: Path
    """Where the weights came from."""
    tokenizer_sha256: str | None
    profile: Mapping[str, Any] | None = None
    """How it was taught to talk, as its run says; `None` where nobody says, or by a template of others."""


def open_model(
    path: str | os.PathLike[str],
    *,
    step: str | int = "last",
    device: str | None = None,
    tokenizer: Tokenizer | str | os.PathLike[str] | None = None,
) -> LoadedModel:
    """The model at `path`, which is a run, a checkpoint or a folder of transformers.

    `step` is for runs: `last`, `best` (lowest loss on validation data) or a number. `device` is one of torch's names, `None` the
    GPU if there is one. `tokenizer` stands in for the one beside the model. FormatError if no good checkpoint is there, if the
    tokenizer is missing, or if it has another hash than the one the model was trained with; DeviceError if the device is not there.
    """
    place = find_device(device or "auto")
    folder = _require_folder(local_path(path))
    if (folder / STATE_FILE).is_file():
        _refuse_step(folder, step)
        return _from_checkpoint(open_checkpoint(folder), _runs_folder(folder), tokenizer, place)
    if (folder / CHECKPOINTS_FOLDER).is_dir():
        checkpoint = find_checkpoint(folder / CHECKPOINTS_FOLDER, step)
        return _from_checkpoint(checkpoint, folder, tokenizer, place)
    if (folder / CONFIG_FILE).is_file():
        _refuse_step(folder, step)
        return _from_transformers(folder, tokenizer, place)
    raise FormatError(
        f"`{folder}` holds no model: no `{CHECKPOINTS_FOLDER}`, no `{STATE_FILE}`, no `{CONFIG_FILE}`",
        "name a run, a checkpoint or a folder of transformers",
    )


def _require_folder(path: Path) -> Path:
    if path.is_dir():
        return path
    if not path.exists():
        raise FormatError(f"`{path}` does not exist, so no model can be opened there")
    raise FormatError(
        f"`{path}` is a file, a model is a folder",
        "`tokenmill lm import` makes a folder out of a course checkpoint",
    )


def _refuse_step(folder: Path, step: str | int) -> None:
    if step != "last":
        raise ConfigError(f"`{folder}` is one model, so step `{step}` cannot be chosen from it")


def _runs_folder(checkpoint: Path) -> Path:
    """Where the tokenizer of a checkpoint is: beside it, or in the run it belongs to."""
    parent = checkpoint.absolute().parent
    if not (checkpoint / TOKENIZER_FOLDER).is_dir() and parent.name == CHECKPOINTS_FOLDER:
        return parent.parent
    return checkpoint


def find_checkpoint(folder: Path, step: str | int) -> Checkpoint:
    """The checkpoint below `folder` that `step` names: `last`, `best` or a number."""
    if step == "best":
        return _best_checkpoint(folder)
    if step != "last":
        return _numbered_checkpoint(folder, step)
    found = latest_checkpoint(folder)
    if found is None:
        raise FormatError(f"`{folder}` has no good checkpoint{_listed_broken(folder)}")
    return found


def _listed_broken(folder: Path) -> str:
    broken = find_checkpoints(folder)
    return f": all {len(broken)} are broken" if broken else ", it has none at all"


def _numbered_checkpoint(folder: Path, step: str | int) -> Checkpoint:
    try:
        number = int(step)
    except ValueError:
        raise ConfigError(f"step `{step}` is neither `last`, `best` nor a number") from None
    path = step_folder(folder, number)
    if path.is_dir():
        return open_checkpoint(path)
    there = [
        str(int(each.name.removeprefix("step-"))) for each in reversed(find_checkpoints(folder))
    ]
    raise ConfigError(
        f"`{folder}` has no checkpoint of step {number}, it has {', '.join(there) or 'none'}"
    )


def _best_checkpoint(folder: Path) -> Checkpoint:
    """The one of the lowest loss; the earlier one of two that are equal."""
    losses: list[tuple[float, int, Path]] = []
    for path in find_checkpoints(folder):
        try:
            state = read_state(path)
        except ValueError:
            continue
        loss = state.get(LOSS_KEY)
        if isinstance(loss, int | float) and loss == loss:
            losses.append((loss, state["step"], path))
    if not losses:
        raise FormatError(
            f"no checkpoint of `{folder}` says its loss on validation data, so none is the best",
            "ask for the last one",
        )
    return open_checkpoint(min(losses)[2])


def _from_checkpoint(
    checkpoint: Checkpoint,
    folder: Path,
    given: Tokenizer | str | os.PathLike[str] | None,
    device: torch.device,
) -> LoadedModel:
    wanted = checkpoint.state.get("tokenizer_sha256")
    tokenizer = _find_tokenizer(checkpoint.folder, folder / TOKENIZER_FOLDER, given, wanted)
    name = f"`{checkpoint.folder}`"
    _require_ids_fit(checkpoint.config, tokenizer, name)
    stage = checkpoint.state.get("stage_settings", {})
    weights, lora = checkpoint.weights(), lora_of(stage)
    if lora is not None:
        weights = merge_lora(weights, lora)
    model = model_of(checkpoint.config, weights, name, device)
    profile = stage.get("profile")
    return LoadedModel(model, tokenizer, checkpoint.step, checkpoint.folder, wanted, profile)


def _find_tokenizer(
    model: Path,
    folder: Path,
    given: Tokenizer | str | os.PathLike[str] | None,
    wanted: str | None,
) -> Tokenizer | None:
    if isinstance(given, Tokenizer):
        tokenizer = given
    elif given is not None or folder.is_dir():
        tokenizer = Tokenizer.load(given if given is not None else folder)
    elif wanted is None:
        return None
    else:
        raise FormatError(
            f"`{model}` was trained with the tokenizer of sha256 `{wanted}`, but `{folder}` does not exist",
            "pass `--tokenizer DIR` (`tokenizer=`)",
        )
    if wanted is not None and tokenizer.sha256 != wanted:
        raise FormatError(
            f"`{model}` was trained with the tokenizer of sha256 `{wanted}`, this one has "
            f"`{tokenizer.sha256}`",
            "ids mean something else in another tokenizer: use the one of the model",
        )
    return tokenizer


def _require_ids_fit(config: ModelConfig, tokenizer: Tokenizer | None, name: str) -> None:
    if tokenizer is not None and tokenizer.vocab_size > config.vocab_size:
        raise FormatError(
            f"{name} knows {config.vocab_size:,} token ids, its tokenizer has {tokenizer.vocab_size:,}"
        )


def _from_transformers(
    folder: Path, given: Tokenizer | str | os.PathLike[str] | None, device: torch.device
) -> LoadedModel:
    imported = import_model(folder)
    tokenizer = imported.tokenizer
    if given is not None:
        tokenizer = given if isinstance(given, Tokenizer) else Tokenizer.load(given)
    _require_ids_fit(imported.config, tokenizer, f"`{folder}`")
    model = model_of(imported.config, imported.weights, f"`{folder}`", device)
    digest = None if tokenizer is None else tokenizer.sha256
    return LoadedModel(model, tokenizer, None, folder, digest)


def model_of(
    config: ModelConfig, weights: Mapping[str, Tensor], name: str, device: torch.device
) -> Model:
    """A model with these weights in float32, dropout off. FormatError for what does not fit."""
    # Without memory at first: weights that are about to be replaced need not be drawn.
    with torch.device("meta"):
        model = Model(config)
    copy_weights(model, weights, name)
    filled = {key: tensor.to(device, torch.float32) for key, tensor in weights.items()}
    model.load_state_dict(filled, strict=False, assign=True)
    if config.tied_head:
        model.lm_head.weight = model.model.embed_tokens.weight
    return model.eval()
