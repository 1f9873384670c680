# pyright: basic
"""Where the weights of a run come from, if they are not drawn: a model in, its shape and weights out.

A run remembers what it was begun from: the path as it was given, and the hash of the weights. While it has no checkpoint, it begins
from those weights and no others; afterwards it goes on from its own, and the model it came from may change or go.
"""

import hashlib
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from tokenmill.errors import ConfigError
from tokenmill.lm.checkpoint import weights_of
from tokenmill.lm.model_config import ModelConfig
from tokenmill.lm.open_model import LoadedModel, open_model
from tokenmill.lm.settings import differing_setting
from tokenmill.lm.token_data import TokenData
from tokenmill.lm.vocab_growth import grown
from tokenmill.tokenizer.tokenizer import Tokenizer

# Neither is a property of the weights: positions may be more or fewer where none was learned, and dropout is a way to train.
FREE = ("context", "dropout")
POSITIONS = "model.embed_positions.weight"


@dataclass(frozen=True)
class Start:
    """A model whose weights a run begins with. They are read when asked for, so that they are in memory once."""

    path: str
    """As it was given."""
    step: int | None
    sha256: str
    """Of the weights, in whatever files they are."""
    config: ModelConfig
    """Of the model; of the run, if that goes on."""
    tokenizer_sha256: str | None = None
    """`None` if it is not known."""
    tokenizer: Tokenizer | None = None
    """The model's own; not of a run that goes on."""
    new_ids: tuple[int, ...] = ()
    """Of tokens that the model is about to get."""

    def as_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {"path": self.path, "step": self.step, "sha256": self.sha256}
        return {**told, "new_ids": list(self.new_ids)} if self.new_ids else told

    def weights(self, config: ModelConfig) -> dict[str, Tensor]:
        """The weights for a run of the shape `config`. ConfigError naming both hashes if they are others by now."""
        found = weights_of(_open(self.path).model)
        digest = weights_sha256(found)
        if digest != self.sha256:
            raise ConfigError(
                f"the run was begun from weights of sha256 `{self.sha256}`, those of `{self.path}` "
                f"are `{digest}` by now",
                "pass `--force` to start anew from these",
            )
        if config.positions == "learned":
            found[POSITIONS] = found[POSITIONS][: config.context]
        return grown(found, config.vocab_size, self.new_ids)


def find_start(
    path: str | os.PathLike[str] | None, out: Path, before: Mapping[str, Any] | None
) -> Start | None:
    """What the run at `out` starts from, or was begun from if that is what `before` describes; `None` if weights are drawn.

    ConfigError naming both if `path` is another model than the one that the run was begun from.
    """
    if before is None:
        return None if path is None else open_start(path, out)
    origin = before.get("from")
    if origin is None and path is None:
        return None
    if origin is None:
        raise ConfigError(
            f"`{out}` was begun with weights of its own, not from `{path}`",
            "choose another folder, or pass `--force` to start anew",
        )
    config = ModelConfig.from_json(before["model"])
    new_ids = tuple(origin.get("new_ids", ()))
    known = Start(
        **{**origin, "new_ids": new_ids},
        config=config,
        tokenizer_sha256=before["tokenizer_sha256"],
    )
    # The same command again: what has become of that model since is not asked.
    if path is not None and str(path) != known.path:
        given = open_start(path, out)
        if given.sha256 != known.sha256:
            raise ConfigError(
                f"`{out}` was begun from `{known.path}` with weights of sha256 `{known.sha256}`, "
                f"those of `{path}` are `{given.sha256}`",
                "choose another folder, or pass `--force` to start anew",
            )
        return replace(known, path=given.path, step=given.step)
    return known


def open_start(path: str | os.PathLike[str], out: Path) -> Start:
    """The model at `path`. ConfigError if it lies in `out`, where the new run would be in its way."""
    loaded = _open(path)
    if loaded.folder.resolve().is_relative_to(out.resolve()):
        raise ConfigError(
            f"`{path}` is in `{out}`, where the new run is to be", "choose another folder for it"
        )
    digest = weights_sha256(weights_of(loaded.model))
    return Start(
        str(path),
        loaded.step,
        digest,
        loaded.model.config,
        loaded.tokenizer_sha256,
        loaded.tokenizer,
    )


def _open(path: str | os.PathLike[str]) -> LoadedModel:
    return open_model(path, device="cpu")


def weights_sha256(weights: Mapping[str, Tensor]) -> str:
    """One hash for the same weights, however they are cut into files: of names, shapes and float32 values, by name."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        tensor = weights[name].detach().float().cpu().contiguous()
        digest.update(f"{name} {list(tensor.shape)}\n".encode())
        digest.update(tensor.numpy().data)
    return digest.hexdigest()


def shape_from(start: Start, asked: ModelConfig, stated: Collection[str]) -> ModelConfig:
    """The shape of a run from `start`: that of the model, with what `asked` says of `FREE` if it is `stated`.

    ConfigError naming both where `asked` disagrees in anything else, and for more positions than were learned.
    """
    found = start.config
    changes = {name: getattr(asked, name) for name in FREE if name in stated}
    # How weights are drawn does not matter here, and the vocab is looked at with the data.
    same = {name: getattr(found, name) for name in (*FREE, "init")}
    if "vocab_size" not in stated:
        same["vocab_size"] = found.vocab_size
    difference = differing_setting(_resolved(found), _resolved(replace(asked, **same)))
    if difference is not None:
        raise ConfigError(
            f"`{start.path}` has {difference}",
            "the shape of a model comes with its weights: leave it out",
        )
    made = replace(found, **changes)
    if found.positions == "learned" and made.context > found.context:
        raise ConfigError(
            f"`{start.path}` has learned {found.context:,} positions, so its context cannot be {made.context:,}"
        )
    return made


def _resolved(config: ModelConfig) -> dict[str, Any]:
    """The settings with those filled in that follow from others."""
    filled = {"num_kv_heads": config.kv_heads, "head_dim": config.d_head, "d_ff": config.ff_width}
    return {**config.as_json(), **filled}


def require_same_vocab(start: Start, train: TokenData) -> None:
    """ConfigError naming both hashes if the ids of `train` mean something else to the model."""
    ours, theirs = start.tokenizer_sha256, train.tokenizer_sha256
    size = start.config.vocab_size
    if ours is None or theirs is None:
        fits = size == train.vocab_size
    else:
        # With one tokenizer a model may have room for more ids than there are, as many of others do.
        fits = ours == theirs and size >= train.vocab_size
    if not fits:
        raise ConfigError(
            f"`{start.path}` and `{train.name}` do not belong together: the model has a vocab of "
            f"{size:,} and the tokenizer of sha256 `{ours}`, the ids have {train.vocab_size:,} and `{theirs}`",
            "encode the text with the tokenizer of the model",
        )
