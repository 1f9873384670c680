# pyright: basic
"""Keep a model of others as one of ours: an ImportedModel in, a run folder with one checkpoint out.

    DIR/
    ├── tokenizer/                  if there is one
    └── checkpoints/step-00000000/

So `open_model` opens it, and training starts from it, as from any run.
"""

import os
from pathlib import Path

import torch

from tokenmill.errors import ConfigError, FormatError
from tokenmill.lm.checkpoint import copy_weights, save_checkpoint, step_folder
from tokenmill.lm.import_model import ImportedModel
from tokenmill.lm.model import Model
from tokenmill.lm.open_model import CHECKPOINTS_FOLDER, TOKENIZER_FOLDER
from tokenmill.storage.files import local_path, write_folder_atomically
from tokenmill.tokenizer.tokenizer import Tokenizer


def save_imported(
    imported: ImportedModel,
    out: str | os.PathLike[str],
    *,
    tokenizer: Tokenizer | None = None,
    force: bool = False,
) -> Path:
    """Write the folder `out`, or nothing. `tokenizer` stands in for the model's own.

    FormatError if the weights do not fit the settings. A folder that is not empty is a ConfigError; `force` replaces one that
    this function wrote, and nothing else.
    """
    final = local_path(out)
    tokenizer = tokenizer if tokenizer is not None else imported.tokenizer
    _require_free(final, force=force)
    config = imported.config
    if tokenizer is not None and tokenizer.vocab_size > config.vocab_size:
        raise FormatError(
            f"the model knows {config.vocab_size:,} token ids, the tokenizer has {tokenizer.vocab_size:,}"
        )
    with torch.device("meta"):
        copy_weights(Model(config), imported.weights, "the imported model")
    state = {
        "step": 0,
        "model": config.as_json(),
        "tokenizer_sha256": None if tokenizer is None else tokenizer.sha256,
        "imported_from": imported.kind,
    }
    with write_folder_atomically(final) as filling:
        if tokenizer is not None:
            tokenizer.save(filling / TOKENIZER_FOLDER)
        save_checkpoint(step_folder(filling / CHECKPOINTS_FOLDER, 0), imported.weights, {}, state)
    return final


def _require_free(final: Path, *, force: bool) -> None:
    if not final.exists() or (final.is_dir() and not any(final.iterdir())):
        return
    is_ours = (
        final.is_dir()
        and {path.name for path in final.iterdir()} <= {TOKENIZER_FOLDER, CHECKPOINTS_FOLDER}
        and [path.name for path in (final / CHECKPOINTS_FOLDER).iterdir()] == ["step-00000000"]
    )
    if not is_ours:
        raise ConfigError(
            f"`{final}` exists and is no imported model", "choose a folder that does not exist yet"
        )
    if not force:
        raise ConfigError(
            f"`{final}` already holds an imported model", "choose another folder, or pass `--force`"
        )
