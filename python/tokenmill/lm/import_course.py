# pyright: basic
"""Checkpoints of the CS336 course: a state dict in, our settings and weights out.

Its model is ours by other names, but for RoPE: it turns neighbours (x[2i], x[2i + 1]) where Llama turns (x[i], x[i + E/2]). Sorting
the rows of the query and key matrices makes one of the other, with equal logits. A .pt file is read by torch's loader for weights
alone, which refuses everything but tensors and plain containers.
"""

import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tokenmill.errors import ConfigError, FormatError
from tokenmill.lm.model_config import ModelConfig
from tokenmill.lm.weight_files import as_float32, read_json, read_safetensors
from tokenmill.sources.choices import require_one_of, require_whole_number

COURSE_CONFIG_FILE = "model_config.json"
COURSE_SUFFIXES = (".safetensors", ".pt", ".pth")
ROPE_LAYOUTS = ("interleaved", "half-split")
_STATE_KEYS = ("model", "model_state_dict", "state_dict", "model_state")
_OUTER = {
    "token_embeddings.weight": "model.embed_tokens.weight",
    "ln_final.weight": "model.norm.weight",
    "lm_head.weight": "lm_head.weight",
}
_INNER = {
    "attn.q_proj": "self_attn.q_proj",
    "attn.k_proj": "self_attn.k_proj",
    "attn.v_proj": "self_attn.v_proj",
    "attn.output_proj": "self_attn.o_proj",
    "attn.out_proj": "self_attn.o_proj",
    "attn.o_proj": "self_attn.o_proj",
    "ln1": "input_layernorm",
    "ln2": "post_attention_layernorm",
    "ffn.w1": "mlp.gate_proj",
    "ffn.w2": "mlp.down_proj",
    "ffn.w3": "mlp.up_proj",
}
# Tables that follow from the settings, whatever they are called.
_TABLE = re.compile(r"rope|rotary|positional_encoder|mask|inv_freq")


def read_course(
    path: Path,
    *,
    num_heads: int | None,
    context: int | None,
    rope_theta: float | None,
    rope_layout: str | None,
) -> tuple[ModelConfig, dict[str, Tensor]]:
    """Settings and weights of the checkpoint at `path`, a file or the folder of one.

    What the tensors do not tell comes from the keywords, else from `model_config.json` beside them: the number of heads and the
    context must be said, RoPE is the course's unless said otherwise.
    """
    file = _weights_file(path)
    layout = require_one_of("RoPE layout", rope_layout or ROPE_LAYOUTS[0], ROPE_LAYOUTS)
    weights = _renamed(dict(_tensors(file)), file)
    said_file = file.with_name(COURSE_CONFIG_FILE)
    said = read_json(said_file) if said_file.is_file() else {}
    heads = _told("num_heads", num_heads, said.get("num_heads"), file)
    length = _told("context", context, said.get("context_length"), file)
    theta = rope_theta if rope_theta is not None else said.get("rope_theta", 10_000.0)
    config = _config_of(weights, file, heads, length, float(theta))
    _require_said(config, said, said_file)
    if layout == "interleaved":
        _sort_rows(weights, config)
    return config, weights


def _told(name: str, given: int | None, said: object, file: Path) -> int:
    """What the caller or else the file of settings tells."""
    value = said if given is None else given
    if value is None:
        raise ConfigError(
            f"the tensors of `{file}` do not tell `{name}`, and no `{COURSE_CONFIG_FILE}` does",
            f"pass `--{name.replace('_', '-')}`",
        )
    return require_whole_number(name, value, 1)


def _weights_file(path: Path) -> Path:
    if path.is_file():
        if path.suffix not in COURSE_SUFFIXES:
            raise FormatError(
                f"`{path}` ends in none of {', '.join(f'`{suffix}`' for suffix in COURSE_SUFFIXES)}"
            )
        return path
    found = sorted(file for file in path.iterdir() if file.suffix in COURSE_SUFFIXES)
    if len(found) != 1:
        names = ", ".join(f"`{file.name}`" for file in found) or "none"
        raise FormatError(
            f"`{path}` has no `config.json`, and not one file of weights but {names}",
            "name a folder of transformers, or the file of a course checkpoint",
        )
    return found[0]


def _tensors(file: Path) -> dict[str, Tensor]:
    if file.suffix == ".safetensors":
        return dict(read_safetensors(file))
    try:
        loaded = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise FormatError(
            f"`{file}` holds more than tensors and plain values, so it was not opened: it could run code",
            "save `model.state_dict()` alone",
        ) from None
    # A cut or foreign file makes the loader raise nearly anything.
    except Exception as error:
        raise FormatError(f"`{file}` cannot be read: {error}") from None
    for key in _STATE_KEYS:
        if isinstance(loaded, dict) and isinstance(loaded.get(key), dict):
            loaded = loaded[key]
            break
    if not isinstance(loaded, dict) or not all(isinstance(key, str) for key in loaded):
        raise FormatError(f"`{file}` holds no state dict")
    return {key: value for key, value in loaded.items() if isinstance(value, Tensor)}


def _renamed(tensors: Mapping[str, Tensor], file: Path) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = {}
    for full, tensor in tensors.items():
        name = full.removeprefix("_orig_mod.").removeprefix("module.")
        ours = _our_name(name)
        if ours is not None:
            weights[ours] = as_float32(tensor, full, file).contiguous()
        elif not _TABLE.search(name):
            raise FormatError(
                f"`{file}` has a weight `{full}` that the course's model does not have"
            )
    for name in ("model.embed_tokens.weight", "model.norm.weight"):
        if name not in weights:
            raise FormatError(f"`{file}` is no course checkpoint: it has no `{_course_name(name)}`")
    # Without a gate the two matrices are those around the activation.
    if not any(name.endswith("mlp.up_proj.weight") for name in weights):
        weights = {name.replace("gate_proj", "up_proj"): tensor for name, tensor in weights.items()}
    return weights


def _course_name(ours: str) -> str:
    return next(name for name, other in _OUTER.items() if other == ours)


def _our_name(name: str) -> str | None:
    if name in _OUTER:
        return _OUTER[name]
    match = re.fullmatch(r"layers\.(\d+)\.(.+)\.weight", name)
    if match is None or match[2] not in _INNER:
        return None
    return f"model.layers.{match[1]}.{_INNER[match[2]]}.weight"


def _config_of(
    weights: Mapping[str, Tensor], file: Path, num_heads: int, context: int, rope_theta: float
) -> ModelConfig:
    vocab_size, d_model = weights["model.embed_tokens.weight"].shape
    layers = {name.split(".")[2] for name in weights if name.startswith("model.layers.")}
    first = "model.layers.0.mlp.up_proj.weight"
    if first not in weights:
        raise FormatError(f"`{file}` has no `layers.0.ffn`")
    is_gated = "model.layers.0.mlp.gate_proj.weight" in weights
    return ModelConfig(
        vocab_size=vocab_size,
        context=context,
        num_layers=len(layers),
        d_model=d_model,
        num_heads=num_heads,
        d_ff=len(weights[first]),
        rope_theta=rope_theta,
        activation="swiglu" if is_gated else "silu",
        tied_head="lm_head.weight" not in weights,
    )


def _require_said(config: ModelConfig, said: Mapping[str, Any], file: Path) -> None:
    """FormatError where the file of settings contradicts the tensors."""
    for name in ("vocab_size", "d_model", "num_layers", "d_ff"):
        found = getattr(config, name)
        if said.get(name, found) != found:
            raise FormatError(f"`{file}` says {name} {said[name]}, but the weights have {found}")


def _sort_rows(weights: dict[str, Tensor], config: ModelConfig) -> None:
    """Rows (0, 1, 2, 3, …) of each head become (0, 2, …, 1, 3, …)."""
    for name, tensor in weights.items():
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            if tensor.shape[0] % config.d_head:
                raise FormatError(
                    f"{config.num_heads} heads of width {config.d_head} do not divide the "
                    f"{tensor.shape[0]} rows of `{name}`"
                )
            pairs = tensor.view(-1, config.d_head // 2, 2, tensor.shape[1])
            weights[name] = pairs.transpose(1, 2).reshape(tensor.shape)
