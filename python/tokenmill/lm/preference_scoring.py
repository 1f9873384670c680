# pyright: basic
"""A model on pairs of answers: how often it finds the chosen one likelier than the rejected one."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from tokenmill.dataset.dataset import Dataset
from tokenmill.errors import ConfigError
from tokenmill.lm.chat_format import chat_format
from tokenmill.lm.fitting import fit_documents
from tokenmill.lm.model import Model
from tokenmill.lm.pair_objective import score_answers
from tokenmill.lm.pairs import PairRows
from tokenmill.lm.token_data import open_split
from tokenmill.lm.vocab_growth import require_extension
from tokenmill.progress import Meter
from tokenmill.tokenizer.tokenizer import Tokenizer

PAIRS_AT_ONCE = 32


@dataclass(frozen=True)
class PreferenceAccuracy:
    """What a model thinks of pairs."""

    pairs: int
    dropped_pairs: int
    """Longer than the context, or nothing to score."""
    accuracy: float
    """How often log p of the chosen answer is higher."""
    accuracy_per_token: float
    """The same of the mean over its tokens, which does not care for length."""
    chosen_log_prob: float
    rejected_log_prob: float
    """Means over pairs, of whole answers."""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def score_preferences(
    model: Model,
    tokenizer: Tokenizer,
    data: str | os.PathLike[str],
    *,
    split: str | None = None,
    profile: Mapping[str, Any] | None = None,
    meter: Meter | None = None,
) -> PreferenceAccuracy:
    """How `model` ranks the pairs of `data`: a dataset of `encode --mode preference`, or rows that such a one is made of.

    Rows are rendered in the chat format of the model; `profile` is what its run says of it. Without a
    `split`, `validation` is scored if there is one, else `train`. ConfigError naming both hashes for a dataset of another tokenizer.
    """
    with tempfile.TemporaryDirectory(prefix="tokenmill-") as folder:
        rows = _rows(model, tokenizer, data, split, profile, Path(folder))
        return _scored(model, rows, meter or Meter(False))


def _rows(
    model: Model,
    tokenizer: Tokenizer,
    data: str | os.PathLike[str],
    split: str | None,
    profile: Mapping[str, Any] | None,
    folder: Path,
) -> PairRows:
    place = Path(data)
    if not place.is_dir():
        from tokenmill.dataset.encode import encode_dataset

        place = folder / "pairs"
        form = chat_format(tokenizer, profile).profile
        how: Any = {"chat_template": "tokenizer"} if form is None else {"profile": form}
        encode_dataset(str(data), tokenizer, place, mode="preference", progress=False, **how)
    dataset = Dataset.open(place)
    if dataset.mode != "preference":
        raise ConfigError(
            f"`{data}` holds documents of mode `{dataset.mode}`, not pairs of answers",
            "encode the rows with `tokenmill encode --mode preference`",
        )
    require_extension("the model", tokenizer, str(data), dataset.tokenizer)
    usual = "validation" if "validation" in dataset.splits else "train"
    found = open_split(place, dataset[split or usual].name)
    # A model may have room for more ids than its tokenizer has; those it has not seen either.
    if found.vocab_size > tokenizer.vocab_size:
        raise ConfigError(
            f"`{data}` has {found.vocab_size:,} tokens and the model {tokenizer.vocab_size:,}: it has not seen those that "
            "say who speaks",
            "`tokenmill lm sft` teaches a model to talk",
        )
    width = model.config.context + 1
    try:
        return PairRows(found, fit_documents(found, width, "drop"), width)
    except ConfigError as error:
        # There it is a run that could be asked otherwise.
        raise ConfigError(error.message, "the model needs shorter pairs") from None


def _scored(model: Model, rows: PairRows, meter: Meter) -> PreferenceAccuracy:
    was_training = model.training
    model.eval()
    meter.begin("scoring", "pairs")
    found: list[torch.Tensor] = []
    try:
        for at in range(0, len(rows), PAIRS_AT_ONCE):
            some = range(at, min(at + PAIRS_AT_ONCE, len(rows)))
            with torch.no_grad():
                scores = score_answers(model, rows.load(some).to(model.device))
            found.append(torch.stack((scores.log_probs_P2, scores.num_tokens_P2)).cpu().double())
            meter.update(some.stop, some.stop / len(rows))
    finally:
        meter.end()
        model.train(was_training)
    log_probs, tokens = torch.cat(found, dim=1)
    means = log_probs / tokens
    return PreferenceAccuracy(
        len(rows),
        rows.dropped,
        _share(log_probs),
        _share(means),
        float(log_probs[:, 0].mean()),
        float(log_probs[:, 1].mean()),
    )


def _share(scores_P2: torch.Tensor) -> float:
    return float((scores_P2[:, 0] > scores_P2[:, 1]).double().mean())
