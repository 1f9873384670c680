"""The models that `bench lm` trains and writes with: a preset's, with our first weights, as ours and as transformers' Llama."""

import importlib.metadata
import os
from typing import Any


def import_transformers() -> Any:
    """transformers checks the release of `regex` when it is imported and wants a newer one than the one whose Unicode
    tables are ours (see tests/parity); what is measured here does not use it."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    version = importlib.metadata.version
    importlib.metadata.version = lambda name: "2025.10.22" if name == "regex" else version(name)
    try:
        import transformers
        from transformers import AutoTokenizer as AutoTokenizer
    finally:
        importlib.metadata.version = version
    return transformers


def our_model(name: str, **changes: Any) -> Any:
    from tokenmill.lm.model import Model
    from tokenmill.lm.model_config import preset

    return Model(preset(name, **changes), seed=0)


def llama(name: str, **changes: Any) -> Any:
    """What `lm export` writes for `our_model`, opened."""
    transformers = import_transformers()
    from tokenmill.lm.export import transformers_settings

    model = our_model(name, **changes)
    settings = transformers_settings(model.config)
    shape = transformers.LlamaConfig(**settings, attn_implementation="sdpa")
    theirs = transformers.LlamaForCausalLM(shape)
    theirs.load_state_dict(model.state_dict())
    return theirs
