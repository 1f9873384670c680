# pyright: basic
"""Write a model for others: a LoadedModel in, a folder that transformers opens as it is out.

A model without `qk_norm` is transformers' Llama, one with it is its Qwen3; weights have the names and layout of both already. What
has no counterpart there is refused, with all that is in the way named at once. The folder is whole or absent.
"""

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from tokenmill import _core
from tokenmill.errors import ConfigError, TokenmillError
from tokenmill.lm.chat_format import chat_format
from tokenmill.lm.checkpoint import weights_of
from tokenmill.lm.import_model import CONFIG_FILE, WEIGHTS_FILE
from tokenmill.lm.model_config import ModelConfig
from tokenmill.lm.open_model import LoadedModel
from tokenmill.sources.choices import require_one_of
from tokenmill.storage.files import local_path, sha256_of, write_folder_atomically
from tokenmill.tokenizer.formats import transformers_config
from tokenmill.tokenizer.tokenizer import Tokenizer

GENERATION_FILE = "generation_config.json"
README_FILE = "README.md"
EXPORT_DTYPES = ("float32", "bfloat16", "float16")
_NEEDED = {
    "norm": "rmsnorm",
    "norm_place": "pre",
    "positions": "rope",
    "activation": "swiglu",
    "softcap": None,
}
# Of a tokenizer folder, this would say that the whole folder is one.
_NOT_COPIED = ("manifest.json",)


def export_model(
    loaded: LoadedModel,
    out: str | os.PathLike[str],
    *,
    dtype: str = "float32",
    force: bool = False,
) -> Path:
    """Write the folder `out`: config.json, model.safetensors, generation_config.json, README.md and the tokenizer's files with
    its chat template.

    ConfigError for a model that transformers' Llama and Qwen3 do not compute, and for a folder that holds anything else than this
    very export: `force` replaces another export, and never files of others.
    """
    final = local_path(out)
    config = loaded.model.config
    require_counterpart(config)
    kind = getattr(torch, require_one_of("type of weights", dtype, EXPORT_DTYPES))
    roles = _roles(loaded.tokenizer)
    with write_folder_atomically(final) as filling:
        if loaded.tokenizer is not None:
            _write_tokenizer(loaded.tokenizer, filling)
        _write_json(
            filling / CONFIG_FILE, {**transformers_settings(config), **roles, "dtype": dtype}
        )
        _write_json(filling / GENERATION_FILE, _generation(loaded.tokenizer, roles))
        (filling / README_FILE).write_text(_readme(loaded, final.name, dtype))
        save_file(_as(loaded, kind), filling / WEIGHTS_FILE, metadata={"format": "pt"})
        _require_replaceable(final, filling, force=force)
    return final


def require_counterpart(config: ModelConfig) -> None:
    """ConfigError naming every setting that neither Llama nor Qwen3 has."""
    others = [
        f"{name.replace('_', ' ')} `{getattr(config, name)}`"
        for name, wanted in _NEEDED.items()
        if getattr(config, name) != wanted
    ]
    if others:
        raise ConfigError(
            f"a model with {' and '.join(others)} has no counterpart in transformers' Llama and Qwen3",
            "those have RMSNorm before each part, RoPE, SwiGLU and plain logits",
        )


def architecture_of(config: ModelConfig) -> str:
    return "Qwen3ForCausalLM" if config.qk_norm else "LlamaForCausalLM"


def transformers_settings(config: ModelConfig) -> dict[str, Any]:
    """What config.json says about the model. RoPE's base stands twice: older releases read the one outside."""
    return {
        "architectures": [architecture_of(config)],
        "model_type": "qwen3" if config.qk_norm else "llama",
        "vocab_size": config.vocab_size,
        "hidden_size": config.d_model,
        "intermediate_size": config.ff_width,
        "num_hidden_layers": config.num_layers,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.d_head,
        "max_position_embeddings": config.context,
        "hidden_act": "silu",
        "rms_norm_eps": config.norm_eps,
        "rope_theta": config.rope_theta,
        "rope_parameters": {"rope_type": "default", "rope_theta": config.rope_theta},
        "tie_word_embeddings": config.tied_head,
        "attention_bias": False,
        "attention_dropout": 0.0,
        **({} if config.qk_norm else {"mlp_bias": False}),
        "use_cache": True,
    }


def _roles(tokenizer: Tokenizer | None) -> dict[str, int | None]:
    """Ids of the tokens that begin, end and pad a text; said even where there are none, since Llama's own defaults are 1 and 2."""
    found = {} if tokenizer is None else transformers_config.roles(tokenizer._vocab)
    return {f"{role}_id": found.get(role) for role in ("bos_token", "eos_token", "pad_token")}


def _generation(
    tokenizer: Tokenizer | None, roles: Mapping[str, int | None]
) -> dict[str, int | list[int] | None]:
    """What ends a text there: the end of an answer as well, or a model that talks would talk on."""
    end, pad = roles["eos_token_id"], roles["pad_token_id"]
    ends = [] if end is None else [end]
    if tokenizer is not None and tokenizer.chat_template is not None:
        # A template of others may be one that nothing can be learned from.
        with contextlib.suppress(TokenmillError):
            stops = chat_format(tokenizer).stop_tokens
            ends = [*stops, *(token for token in ends if token not in stops)]
    found = ends if len(ends) > 1 else next(iter(ends), None)
    return {**roles, "eos_token_id": found, "pad_token_id": end if pad is None else pad}


def _write_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    apart = tokenizer.save(folder / "tokenizer")
    for file in apart.iterdir():
        if file.name in _NOT_COPIED:
            file.unlink()
        else:
            file.rename(folder / file.name)
    apart.rmdir()


def _write_json(file: Path, value: dict[str, Any]) -> None:
    file.write_text(json.dumps(value, indent=2) + "\n")


def _readme(loaded: LoadedModel, name: str, dtype: str) -> str:
    model = loaded.model
    origin = "" if loaded.step is None else f" at step {loaded.step:,}"
    return (
        f"# {name}\n\nA `{architecture_of(model.config)}` of {model.num_parameters:,} parameters in {dtype}, "
        f"written by tokenmill {_core.__version__}{origin}. `AutoModelForCausalLM.from_pretrained` opens it.\n"
    )


def _as(loaded: LoadedModel, dtype: torch.dtype) -> dict[str, Tensor]:
    return {
        name: weight.detach().to("cpu", dtype).contiguous()
        for name, weight in weights_of(loaded.model).items()
    }


def _require_replaceable(final: Path, filling: Path, *, force: bool) -> None:
    """ConfigError unless `final` is free, or holds what `filling` holds, or is an export to be replaced."""
    if not final.exists():
        return
    if not final.is_dir():
        raise ConfigError(f"`{final}` is a file")
    there, new = ({path.name for path in folder.iterdir()} for folder in (final, filling))
    if not there:
        return
    same = there == new and all(
        sha256_of(final / name) == sha256_of(filling / name) for name in new
    )
    if same:
        return
    # A chat template may have come or gone since.
    others = sorted(there - new - {transformers_config.TEMPLATE_FILE_NAME})
    if others or CONFIG_FILE not in there:
        raise ConfigError(
            f"`{final}` holds `{(others or sorted(there))[0]}`, which is no part of this export",
            "choose a folder that does not exist yet",
        )
    if not force:
        raise ConfigError(
            f"`{final}` already holds another model", "choose another folder, or pass `--force`"
        )
