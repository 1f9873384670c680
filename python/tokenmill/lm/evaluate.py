# pyright: basic
"""Evaluate: a model and a split in; loss, perplexity and bits per byte over whole documents out.

What is scored. Every token of every document's text, once. The special tokens around a document (bos, eos) are no part of the text:
they are given, never scored, but the loss of the eos is told apart from the rest. The first token of a text follows the bos if the dataset
has one, else an eos, as it does in training; a dataset with neither gives the first token of each document, which is then not scored
and counted in `num_given`. Loss is nats for a token. Bits per byte divides all of it by the bytes of the raw texts, as counted when
they were encoded: the same number of bytes for every tokenizer, so that models can be compared across vocabs.

A document longer than the context is read by windows that overlap: each begins `stride` tokens after the last, and scores the
tokens that no window before it did, so all but the first `context` are predicted from at least `context - stride` others.

Token files that do not say where documents end are scored as one long stream, without bits per byte, and `note` says so.

Shapes: B windows, T positions, D width of the stream, N positions that are scored.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tokenmill.dataset.windows import NOT_TRAINED
from tokenmill.errors import ConfigError, FormatError, VocabError
from tokenmill.lm.evaluate_settings import EvaluateSettings
from tokenmill.lm.loss import CHUNK_BYTES
from tokenmill.lm.model import Model
from tokenmill.progress import Meter

if TYPE_CHECKING:
    from tokenmill.dataset.split_view import SplitView

_POOL_BATCHES = 32
"""Windows are sorted by length among so many batches."""


@dataclass(frozen=True)
class Evaluation:
    """What a model makes of a split."""

    loss: float
    """Nats for each scored token."""
    perplexity: float
    bits_per_byte: float | None
    """`None` where nobody counted the bytes of the texts."""
    num_tokens: int
    """Scored ones."""
    num_bytes: int | None
    num_documents: int
    num_given: int
    """Tokens of texts that nothing stood before, which were not scored."""
    eos_loss: float | None
    """Nats for the token that ends a document; in no other number here."""
    note: str | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class _Window:
    """Ids to read, and behind each what is to be scored there: a text's token, an eos, or nothing."""

    ids: np.ndarray
    targets: np.ndarray
    is_eos: np.ndarray


@dataclass
class _Totals:
    nats: float = 0.0
    tokens: int = 0
    eos_nats: float = 0.0
    eos_tokens: int = 0
    documents: int = 0
    given: int = 0
    num_bytes: int | None = 0


def evaluate(
    model: Model,
    split: "SplitView",
    *,
    tokenizer_sha256: str | None = None,
    meter: Meter | None = None,
    **settings: Any,
) -> Evaluation:
    """Score `split` by the settings of `EvaluateSettings`.

    ConfigError naming both hashes if the split was encoded with another tokenizer than `tokenizer_sha256`, and for conversations,
    whose texts are not whole. VocabError for an id that the model does not know.
    """
    chosen = EvaluateSettings(**settings)
    _require_same_tokenizer(split, tokenizer_sha256)
    if split.origin.mode != "pretrain":
        raise ConfigError(
            f"`{split.origin.path}` holds documents of mode `{split.origin.mode}`; bits per byte are "
            "those of `pretrain`, where a document is a text"
        )
    totals = _Totals()
    stride = chosen.stride_for(model.config.context)
    windows = _windows(split, model.config.context, stride, chosen.max_documents, totals)
    meter = meter or Meter(False)
    meter.begin("scoring", "tokens")
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            for batch in _batches(windows, chosen.batch_tokens):
                _score(model, batch, totals)
                done = totals.tokens + totals.eos_tokens + totals.given
                meter.update(done, done / split.num_tokens)
    finally:
        model.train(was_training)
        meter.end()
    return _evaluation(split, totals)


def _require_same_tokenizer(split: "SplitView", wanted: str | None) -> None:
    manifest = split.origin.manifest
    if manifest is not None and wanted is not None and manifest.tokenizer.sha256 != wanted:
        raise ConfigError(
            f"`{split.origin.path}` was encoded with the tokenizer of sha256 "
            f"`{manifest.tokenizer.sha256}`, the model was trained with `{wanted}`",
            "ids mean something else in another tokenizer: encode the text with the one of the model",
        )


def _windows(
    split: "SplitView", context: int, stride: int, max_documents: int | None, totals: _Totals
) -> Iterator[_Window]:
    """The windows of all documents, or of the whole split where nobody knows its documents."""
    manifest = split.origin.manifest
    if not split.num_documents and split.num_tokens:
        totals.num_bytes, totals.given = None, 1
        yield from _cut(split.tokens, context, stride, None)
        return
    special = {} if manifest is None else manifest.tokenizer.special_tokens
    bos = special.get(manifest.bos or "") if manifest is not None else None
    eos = special.get(manifest.eos or "") if manifest is not None else None
    for index, stored in enumerate(split):
        if index == max_documents:
            return
        totals.documents += 1
        num_bytes = split.bytes_of(index)
        if totals.num_bytes is not None:
            totals.num_bytes = None if num_bytes is None else totals.num_bytes + num_bytes
        ids = np.asarray(stored, dtype=np.int64)
        if bos is None or not len(ids) or ids[0] != bos:
            if eos is not None:
                ids = np.concatenate(([eos], ids))
            elif len(ids):
                totals.given += 1
        yield from _cut(ids, context, stride, eos)


def _cut(ids: Any, context: int, stride: int, eos: int | None) -> Iterator[_Window]:
    """Windows over a sequence of which every token but the first is scored, once."""
    scored = 1
    while scored < len(ids):
        end = min(len(ids), context + 1 if scored == 1 else scored + stride)
        start = max(0, end - context - 1)
        part = np.asarray(ids[start:end], dtype=np.int64)
        targets = part[1:].copy()
        targets[: scored - 1 - start] = NOT_TRAINED
        is_eos = np.zeros(len(targets), dtype=bool)
        # An eos in the middle can only be a text that spells it; it is scored as the text it is.
        if end == len(ids) and eos is not None:
            is_eos[-1] = targets[-1] == eos
        yield _Window(part[:-1], targets, is_eos)
        scored = end


def _batches(windows: Iterator[_Window], batch_tokens: int) -> Iterator[list[_Window]]:
    """Windows of about one length together, so that little is padding."""
    pool: list[_Window] = []
    pooled = 0
    for window in windows:
        pool.append(window)
        pooled += len(window.ids)
        if pooled >= _POOL_BATCHES * batch_tokens:
            yield from _sorted_batches(pool, batch_tokens)
            pool, pooled = [], 0
    yield from _sorted_batches(pool, batch_tokens)


def _sorted_batches(pool: list[_Window], batch_tokens: int) -> Iterator[list[_Window]]:
    batch: list[_Window] = []
    # The longest first: whatever runs out of memory does so at once.
    for window in sorted(pool, key=lambda window: -len(window.ids)):
        if batch and (len(batch) + 1) * len(batch[0].ids) > batch_tokens:
            yield batch
            batch = []
        batch.append(window)
    if batch:
        yield batch


def _score(model: Model, batch: list[_Window], totals: _Totals) -> None:
    """Padding stands behind the tokens, where a causal model does not look."""
    length = len(batch[0].ids)
    ids_BT = np.zeros((len(batch), length), dtype=np.int64)
    targets_BT = np.full((len(batch), length), NOT_TRAINED, dtype=np.int64)
    is_eos_BT = np.zeros((len(batch), length), dtype=bool)
    for row, window in enumerate(batch):
        size = len(window.ids)
        ids_BT[row, :size], targets_BT[row, :size] = window.ids, window.targets
        is_eos_BT[row, :size] = window.is_eos
    most = int(max(ids_BT.max(), targets_BT.max()))
    if most >= model.config.vocab_size:
        raise VocabError(
            f"token id {most} is none of the {model.config.vocab_size:,} the model knows"
        )
    hidden_BTD = model.hidden(torch.from_numpy(ids_BT).to(model.device))
    is_scored_BT = targets_BT != NOT_TRAINED
    hidden_ND = hidden_BTD[torch.from_numpy(is_scored_BT).to(model.device)]
    nats_N = _nats(model, hidden_ND, torch.from_numpy(targets_BT[is_scored_BT]).to(model.device))
    is_eos_N = torch.from_numpy(is_eos_BT[is_scored_BT])
    totals.nats += nats_N[~is_eos_N].sum().item()
    totals.eos_nats += nats_N[is_eos_N].sum().item()
    totals.eos_tokens += int(is_eos_N.sum())
    totals.tokens += len(nats_N) - int(is_eos_N.sum())


def _nats(model: Model, hidden_ND: Tensor, targets_N: Tensor) -> Tensor:
    """−log p of each target, in float64 on the CPU; the logits of some positions at a time."""
    rows = max(1, CHUNK_BYTES // (4 * model.config.vocab_size))
    parts = [
        F.cross_entropy(
            model.logits(hidden_ND[start : start + rows]).float(),
            targets_N[start : start + rows],
            reduction="none",
        )
        for start in range(0, len(hidden_ND), rows)
    ]
    return torch.cat(parts).double().cpu()


def _evaluation(split: "SplitView", totals: _Totals) -> Evaluation:
    if not totals.tokens:
        raise ConfigError(
            f"split `{split.name}` of `{split.origin.path}` has nothing to score: {totals.documents:,} "
            f"documents, {split.num_tokens:,} tokens"
        )
    loss = totals.nats / totals.tokens
    if not math.isfinite(loss):
        raise FormatError(
            f"the loss is `{loss}`", "the weights are damaged, or the training diverged"
        )
    note = None
    if not totals.documents:
        note = "nothing says where documents end: scored as one stream, without bits per byte"
    elif totals.num_bytes is None:
        note = "nobody counted the bytes of the texts: no bits per byte"
    elif totals.given:
        note = "no special token stands before a document, so its first token is given, not scored"
    return Evaluation(
        loss=loss,
        perplexity=math.exp(loss) if loss < 700 else math.inf,
        bits_per_byte=totals.nats / math.log(2) / totals.num_bytes if totals.num_bytes else None,
        num_tokens=totals.tokens,
        num_bytes=totals.num_bytes,
        num_documents=totals.documents,
        num_given=totals.given,
        eos_loss=totals.eos_nats / totals.eos_tokens if totals.eos_tokens else None,
        note=note,
    )
