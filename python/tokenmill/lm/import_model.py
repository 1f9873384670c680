# pyright: basic
"""Models of others: a folder of transformers or a course checkpoint in, our settings and weights out.

Read are Llama and Qwen3 of transformers, whose weights have our names already, and checkpoints of the CS336 course
(import_course.py). What our model would compute otherwise is refused: scaled RoPE, biases, sliding windows, quantized weights.
Only tensors are read; nothing is executed.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tokenmill.errors import ConfigError, FormatError, TokenmillError
from tokenmill.lm.import_course import read_course
from tokenmill.lm.model_config import ModelConfig
from tokenmill.lm.weight_files import read_json, read_safetensors
from tokenmill.storage.files import local_path
from tokenmill.tokenizer.tokenizer import Tokenizer

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
MODEL_TYPES = ("llama", "qwen3")
# What transformers takes where config.json says nothing.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": {"max_position_embeddings": 2048, "num_key_value_heads": None, "head_dim": None},
    "qwen3": {"max_position_embeddings": 32_768, "num_key_value_heads": 32, "head_dim": 128},
}

log = logging.getLogger("tokenmill")


@dataclass(frozen=True)
class ImportedModel:
    """What a model of ours needs to be made."""

    config: ModelConfig
    weights: Mapping[str, Tensor]
    """By our names, in float32."""
    tokenizer: Tokenizer | None
    kind: str
    """`llama`, `qwen3` or `course`."""


def import_model(
    path: str | os.PathLike[str],
    *,
    num_heads: int | None = None,
    context: int | None = None,
    rope_theta: float | None = None,
    rope_layout: str | None = None,
) -> ImportedModel:
    """The model at `path`: a folder of transformers, or a course checkpoint.

    A course checkpoint is a .safetensors or .pt file, or a folder with one; the keywords say what its tensors do not, where no
    `model_config.json` stands beside it. For a folder of transformers they are a ConfigError.
    """
    place = local_path(path)
    if not place.exists():
        raise FormatError(f"`{place}` does not exist, so no model can be imported from there")
    given = {
        "num_heads": num_heads,
        "context": context,
        "rope_theta": rope_theta,
        "rope_layout": rope_layout,
    }
    if not (place / CONFIG_FILE).is_file():
        config, weights = read_course(place, **given)
        return ImportedModel(config, weights, None, "course")
    for name, value in given.items():
        if value is not None:
            raise ConfigError(
                f"`{place / CONFIG_FILE}` says itself what its {name} is, `{name}` may not"
            )
    settings = read_json(place / CONFIG_FILE)
    config = _config_of(settings, str(place / CONFIG_FILE))
    weights = dict(_weights_in(place))
    if config.tied_head:
        _drop_tied_head(weights, place)
    return ImportedModel(config, weights, _tokenizer_in(place), settings["model_type"])


def _config_of(settings: Mapping[str, Any], file: str) -> ModelConfig:
    """Our settings for a config.json. FormatError naming what our model does not compute."""
    kind = settings.get("model_type")
    if kind not in MODEL_TYPES:
        raise FormatError(
            f"`{file}` describes a model of type `{kind}`; `llama` and `qwen3` can be imported"
        )
    _refuse_others(settings, file)
    known = {**_DEFAULTS[kind], **settings}
    try:
        config = ModelConfig(
            vocab_size=known["vocab_size"],
            context=known["max_position_embeddings"],
            num_layers=known["num_hidden_layers"],
            d_model=known["hidden_size"],
            num_heads=known["num_attention_heads"],
            num_kv_heads=_unless(known["num_key_value_heads"], known["num_attention_heads"]),
            head_dim=_unless(
                known["head_dim"], known["hidden_size"] / known["num_attention_heads"]
            ),
            d_ff=known["intermediate_size"],
            norm_eps=known.get("rms_norm_eps", 1e-6),
            rope_theta=_rope_theta(settings, file),
            tied_head=bool(known.get("tie_word_embeddings", False)),
            qk_norm=kind == "qwen3",
            init="gpt2",
        )
    except KeyError as error:
        raise FormatError(f"`{file}` has no `{error.args[0]}`") from None
    except ConfigError as error:
        raise FormatError(f"`{file}`: {error.message}", error.hint) from None
    return config


def _unless(value: int | None, usual: float) -> int | None:
    """`None` for what follows from the others, so that equal models have equal settings."""
    return None if value == usual else value


def _refuse_others(settings: Mapping[str, Any], file: str) -> None:
    for key, fine in (
        ("hidden_act", ("silu", "swish")),
        ("attention_bias", (False,)),
        ("mlp_bias", (False,)),
        ("use_sliding_window", (False,)),
        ("quantization_config", (None,)),
        ("partial_rotary_factor", (1, None)),
    ):
        value = settings.get(key, fine[0])
        if value not in fine:
            raise FormatError(
                f"`{file}` has `{key}` = `{value}`, which our model does not compute; it would "
                f"have to be `{fine[0]}`"
            )
    others = [kind for kind in settings.get("layer_types") or () if kind != "full_attention"]
    if others:
        raise FormatError(
            f"`{file}` has layers of type `{others[0]}`; only `full_attention` is there"
        )


def _rope_theta(settings: Mapping[str, Any], file: str) -> float:
    """The base of RoPE, which newer files keep in `rope_parameters`. FormatError if it is scaled."""
    theta = settings.get("rope_theta", 10_000.0)
    for key in ("rope_parameters", "rope_scaling"):
        rope = settings.get(key) or {}
        kind = rope.get("rope_type", rope.get("type", "default"))
        if kind != "default":
            raise FormatError(
                f"`{file}` has RoPE of type `{kind}` in `{key}`; only `default`, which scales nothing, "
                "is computed here"
            )
        if rope.get("partial_rotary_factor", 1) != 1:
            raise FormatError(f"`{file}` turns a part of each head only (`partial_rotary_factor`)")
        theta = rope.get("rope_theta", theta)
    if not isinstance(theta, int | float):
        raise FormatError(f"`{file}` has the rope_theta `{theta}`, which is no number")
    return float(theta)


def _weights_in(folder: Path) -> Iterator[tuple[str, Tensor]]:
    for file in _weight_files(folder):
        for name, tensor in read_safetensors(file):
            # Older releases saved this table, which follows from the settings.
            if not name.endswith("rotary_emb.inv_freq"):
                yield name, tensor


def _weight_files(folder: Path) -> list[Path]:
    index = folder / INDEX_FILE
    if index.is_file():
        names = read_json(index).get("weight_map")
        if not isinstance(names, dict) or not names:
            raise FormatError(f"`{index}` has no `weight_map`")
        files = sorted({str(name) for name in names.values()})
        for name in files:
            if Path(name).name != name:
                raise FormatError(f"`{index}` names `{name}`, which is not in its own folder")
        return [folder / name for name in files]
    if (folder / WEIGHTS_FILE).is_file():
        return [folder / WEIGHTS_FILE]
    pickled = next(iter(sorted(folder.glob("*.bin"))), None)
    raise FormatError(
        f"`{folder}` has no `{WEIGHTS_FILE}` and no `{INDEX_FILE}`",
        None
        if pickled is None
        else f"`{pickled.name}` is a pickle, which could run code: save with `safe_serialization=True`",
    )


def _drop_tied_head(weights: dict[str, Tensor], folder: Path) -> None:
    head = weights.pop("lm_head.weight", None)
    embedding = weights.get("model.embed_tokens.weight")
    if head is not None and (embedding is None or not torch.equal(head, embedding)):
        raise FormatError(
            f"`{folder / CONFIG_FILE}` says `tie_word_embeddings`, but head and embedding differ"
        )


def _tokenizer_in(folder: Path) -> Tokenizer | None:
    """The tokenizer beside the weights. One that is not byte-level BPE is left out with a warning."""
    if not (folder / "tokenizer.json").is_file():
        log.warning("`%s` has no `tokenizer.json`: the model comes without a tokenizer", folder)
        return None
    try:
        return Tokenizer.load(folder)
    except TokenmillError as error:
        log.warning(
            "the model comes without its tokenizer, which cannot be opened: %s", error.message
        )
        return None
