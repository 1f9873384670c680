"""Conversations and pairs of answers for tests, datasets of them, and models to start from."""

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from make_dataset import small_tokenizer
from make_model import save_run, small_model

import tokenmill as tm
from tokenmill.chat import prepare_tokenizer
from tokenmill.lm.fitting import fit_documents
from tokenmill.lm.model import Model
from tokenmill.lm.model_config import ModelConfig
from tokenmill.lm.pairs import PairRows
from tokenmill.lm.token_data import DataSettings, TokenData, open_data

Row = Mapping[str, Any]
CONTEXT = 64
WORDS = ("cat", "mat", "the", "done", "def", "sat on", "x")


def say(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}


def conversations(count: int) -> list[Row]:
    """One to three turns of each side, with and without a system message, of up to 64 tokens."""
    made: list[Row] = []
    for number in range(count):
        word, times = WORDS[number % len(WORDS)], 1 + number % 2
        messages = [say("system", "a cat")] if number % 3 == 0 else []
        for turn in range(1 + number % 3):
            messages += [say("user", f"{word} " * (1 + turn)), say("assistant", word * times)]
        made.append({"messages": messages})
    return made


def preferences(count: int) -> list[Row]:
    """The chosen answer is the word that was asked for, a few times; the rejected one another, fewer or more."""
    made: list[Row] = []
    for number in range(count):
        word, other = (WORDS[(number + more) % len(WORDS)] for more in (0, 1))
        made.append(
            {
                "prompt": [say("user", f"say {word} " * (1 + number % 3))],
                "chosen": [say("assistant", word * (1 + number % 4))],
                "rejected": [say("assistant", other * (1 + number % 5))],
            }
        )
    return made


def chat_tokenizer(profile: str = "chat") -> tm.Tokenizer:
    return prepare_tokenizer(small_tokenizer(), profile)


def encode_rows(
    out: Path, rows: Sequence[Row], mode: str, tokenizer: tm.Tokenizer | None = None, **more: Any
) -> Path:
    """The dataset `out` of `rows`, by default with the tokenizer that models of `talking_model` have."""
    file = out.parent / f"{out.name}.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    tm.encode_dataset(file, tokenizer or small_tokenizer(), out, mode=mode, progress=False, **more)
    return out


def talking_model(folder: Path, seed: int = 0, **changes: Any) -> Path:
    """A run of a model that has the tokens of the profile `chat`, and has learned nothing."""
    tokenizer = chat_tokenizer()
    shape = {"vocab_size": tokenizer.vocab_size, "context": CONTEXT, **changes}
    return save_run(folder, {1: small_model(seed, **shape)}, tokenizer)


def train_data(dataset: Path) -> TokenData:
    return open_data(DataSettings(dataset), progress=False)[0]


def pair_rows(dataset: Path, context: int = CONTEXT, too_long: str = "drop") -> PairRows:
    data = train_data(dataset)
    return PairRows(data, fit_documents(data, context + 1, too_long), context + 1)


def one_per_row(lengths: Any, width: int) -> Any:
    """Stands in for `packing.best_fit`: each document has a row of its own."""
    return np.arange(len(lengths))


def scripted_model(tokenizer: tm.Tokenizer, script: str, context: int = CONTEXT) -> Model:
    """A model that says `script` from its second token on, once it has read the first, whatever came before.

    It looks at the last token alone: the stream is that token, and the head knows what follows it. So no token may occur twice but the
    last, which leads on from where it was before.
    """
    ids = tokenizer.encode(script, allowed_special="all")
    size = tokenizer.vocab_size
    shape: dict[str, Any] = {
        "d_model": size,
        "num_heads": 1,
        "head_dim": 2,
        "num_layers": 1,
        "d_ff": 1,
    }
    model = Model(ModelConfig(vocab_size=size, context=context, **shape)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.fill_(1.0 if weight.ndim == 1 else 0.0)
        model.model.embed_tokens.weight.copy_(torch.eye(size))
        for here, following in itertools.pairwise(ids):
            model.lm_head.weight[following, here] = 9.0
    return model
