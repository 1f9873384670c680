# pyright: basic
"""Score tokens: sequences of ids in, what each token costs behind those before it out.

A sequence longer than the context is read by windows that overlap: each begins `stride` tokens after the last, and scores the
tokens that no window before it did, so all but the first `context` are predicted from at least `context - stride` others. Windows
of about one length are read together. What a token costs does not depend on the windows beside its own, up to rounding.

Shapes: B windows, T positions, D width of the stream, N positions that are scored.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tokenmill.dataset.windows import NOT_TRAINED
from tokenmill.errors import VocabError
from tokenmill.lm.loss import CHUNK_BYTES
from tokenmill.lm.model import Model

_POOL_BATCHES = 32
"""Windows are sorted by length among so many batches."""


@dataclass(frozen=True)
class Window:
    """Ids to read, and behind each the token that is scored there, or `NOT_TRAINED`."""

    ids: np.ndarray
    targets: np.ndarray
    sequence: int
    """Which one it is a part of; for the caller."""
    is_last: bool
    """Whether its sequence ends with it."""


@dataclass(frozen=True)
class Scored:
    """A window and what came out, for each of its targets that is scored."""

    window: Window
    targets: np.ndarray
    nats: np.ndarray
    """−log p, in float64."""
    is_likeliest: np.ndarray
    """Whether no other token is likelier."""


def cut(
    ids: Any, context: int, stride: int, *, sequence: int = 0, given: int = 1
) -> Iterator[Window]:
    """Windows over `ids`, of which all but the first `given`, at least one, are scored, each once."""
    scored = given
    end = min(len(ids), given + context)
    while scored < len(ids):
        start = max(0, end - context - 1)
        part = np.asarray(ids[start:end], dtype=np.int64)
        targets = part[1:].copy()
        targets[: scored - 1 - start] = NOT_TRAINED
        yield Window(part[:-1], targets, sequence, end == len(ids))
        scored, end = end, min(len(ids), end + stride)


def score(model: Model, windows: Iterable[Window], batch_tokens: int) -> Iterator[Scored]:
    """Every window with its scores, in no order. VocabError for an id that the model does not know."""
    was_training = model.training
    model.eval()
    try:
        for batch in _batches(windows, batch_tokens):
            with torch.inference_mode():
                scored = _scored(model, batch)
            yield from scored
    finally:
        model.train(was_training)


def _batches(windows: Iterable[Window], batch_tokens: int) -> Iterator[list[Window]]:
    """Windows of about one length together, so that little is padding."""
    pool: list[Window] = []
    pooled = 0
    for window in windows:
        pool.append(window)
        pooled += len(window.ids)
        if pooled >= _POOL_BATCHES * batch_tokens:
            yield from _sorted_batches(pool, batch_tokens)
            pool, pooled = [], 0
    yield from _sorted_batches(pool, batch_tokens)


def _sorted_batches(pool: list[Window], batch_tokens: int) -> Iterator[list[Window]]:
    batch: list[Window] = []
    # The longest first: whatever runs out of memory does so at once.
    for window in sorted(pool, key=lambda window: -len(window.ids)):
        if batch and (len(batch) + 1) * len(batch[0].ids) > batch_tokens:
            yield batch
            batch = []
        batch.append(window)
    if batch:
        yield batch


def _scored(model: Model, batch: list[Window]) -> list[Scored]:
    """Padding stands behind the tokens, where a causal model does not look."""
    length = len(batch[0].ids)
    ids_BT = np.zeros((len(batch), length), dtype=np.int64)
    targets_BT = np.full((len(batch), length), NOT_TRAINED, dtype=np.int64)
    for row, window in enumerate(batch):
        size = len(window.ids)
        ids_BT[row, :size], targets_BT[row, :size] = window.ids, window.targets
    most = int(max(ids_BT.max(), targets_BT.max()))
    if most >= model.config.vocab_size:
        raise VocabError(
            f"token id {most} is none of the {model.config.vocab_size:,} the model knows"
        )
    hidden_BTD = model.hidden(torch.from_numpy(ids_BT).to(model.device))
    is_scored_BT = targets_BT != NOT_TRAINED
    hidden_ND = hidden_BTD[torch.from_numpy(is_scored_BT).to(model.device)]
    targets_N = targets_BT[is_scored_BT]
    nats_N, is_likeliest_N = _judged(model, hidden_ND, torch.from_numpy(targets_N).to(model.device))
    ends = np.cumsum(is_scored_BT.sum(axis=1))[:-1]
    parts = (np.split(array, ends) for array in (targets_N, nats_N, is_likeliest_N))
    return [Scored(*each) for each in zip(batch, *parts, strict=True)]


def _judged(model: Model, hidden_ND: Tensor, targets_N: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """−log p of each target, and whether it is the likeliest; the logits of some positions at a time."""
    rows = max(1, CHUNK_BYTES // (4 * model.config.vocab_size))
    nats, likeliest = [], []
    for start in range(0, len(hidden_ND), rows):
        logits_NV = model.logits(hidden_ND[start : start + rows]).float()
        targets = targets_N[start : start + rows]
        nats.append(F.cross_entropy(logits_NV, targets, reduction="none"))
        likeliest.append(logits_NV.argmax(-1) == targets)
    return torch.cat(nats).double().cpu().numpy(), torch.cat(likeliest).cpu().numpy()
