"""Language models: shapes, training, generation. torch is loaded by the first thing that needs it.

>>> import tokenmill as tm
>>> tm.lm.preset("17m").d_ff
1344
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tokenmill.lm.model_config import PRESETS, ModelConfig, preset
from tokenmill.lm.post_training_settings import DpoSettings, LoraSettings, SftSettings
from tokenmill.lm.settings import TrainSettings

if TYPE_CHECKING:
    from tokenmill.lm.accounting import account
    from tokenmill.lm.dpo import dpo
    from tokenmill.lm.evaluate import evaluate
    from tokenmill.lm.export import export_model
    from tokenmill.lm.generate import generate
    from tokenmill.lm.harness import HarnessModel
    from tokenmill.lm.import_model import import_model
    from tokenmill.lm.model import Model
    from tokenmill.lm.open_model import open_model
    from tokenmill.lm.pretrain import pretrain
    from tokenmill.lm.run import TrainedModel
    from tokenmill.lm.sft import sft
    from tokenmill.lm.sinks import LogSettings
    from tokenmill.lm.token_data import DataSettings

_LATER = {
    "account": "accounting",
    "dpo": "dpo",
    "evaluate": "evaluate",
    "export_model": "export",
    "generate": "generate",
    "HarnessModel": "harness",
    "import_model": "import_model",
    "Model": "model",
    "open_model": "open_model",
    "DataSettings": "token_data",
    "TrainedModel": "run",
    "pretrain": "pretrain",
    "LogSettings": "sinks",
    "sft": "sft",
}

_EXTRAS = {"torch": "lm", "safetensors": "lm", "lm_eval": "eval"}
"""What may be missing, and the extra that brings it."""

__all__ = [
    "PRESETS",
    "DataSettings",
    "DpoSettings",
    "HarnessModel",
    "LogSettings",
    "LoraSettings",
    "Model",
    "ModelConfig",
    "SftSettings",
    "TrainSettings",
    "TrainedModel",
    "account",
    "dpo",
    "evaluate",
    "export_model",
    "generate",
    "import_model",
    "open_model",
    "preset",
    "pretrain",
    "sft",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module `tokenmill.lm` has no `{name}`")
    import importlib

    try:
        found = getattr(importlib.import_module(f"tokenmill.lm.{_LATER[name]}"), name)
    except ModuleNotFoundError as error:
        if error.name not in _EXTRAS:
            raise
        from tokenmill.errors import ConfigError

        raise ConfigError(
            f"`tokenmill.lm.{name}` needs {error.name}, which is not installed",
            f"pip install 'tokenmill[{_EXTRAS[error.name]}]'",
        ) from None
    globals()[name] = found
    return found


class _Package(ModuleType):
    """Importing a module puts it into its package, and `generate` would be a module as soon as somebody imports that."""

    def __setattr__(self, name: str, value: object) -> None:
        if _LATER.get(name) == name and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
