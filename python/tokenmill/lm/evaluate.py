# pyright: basic
"""Evaluate: a model and a split in; loss, perplexity and bits per byte over whole documents out.

What is scored. Every token of every document's text, once. The special tokens around a document (bos, eos) are no part of the text:
they are given, never scored, but the loss of the eos is told apart from the rest. The first token of a text follows the bos if the dataset
has one, else an eos, as it does in training; a dataset with neither gives the first token of each document, which is then not scored
and counted in `num_given`. Loss is nats for a token. Bits per byte divides all of it by the bytes of the raw texts, as counted when
they were encoded: the same number of bytes for every tokenizer, so that models can be compared across vocabs.

Documents longer than the context are read by windows that overlap (scoring.py). Token files that do not say where documents end are
scored as one long stream, without bits per byte, and `note` says so.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmill.errors import ConfigError, FormatError
from tokenmill.lm.evaluate_settings import EvaluateSettings
from tokenmill.lm.model import Model
from tokenmill.lm.scoring import Scored, Window, cut, score
from tokenmill.progress import Meter

if TYPE_CHECKING:
    from tokenmill.dataset.split_view import SplitView


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
class _Totals:
    nats: float = 0.0
    tokens: int = 0
    eos_nats: float = 0.0
    eos_tokens: int = 0
    documents: int = 0
    given: int = 0
    num_bytes: int | None = 0

    def add(self, scored: Scored, eos: int | None) -> None:
        # An eos in the middle can only be a text that spells it; it is scored as the text it is.
        if eos is not None and scored.window.is_last and scored.targets[-1] == eos:
            self.eos_nats += float(scored.nats[-1])
            self.eos_tokens += 1
            self.nats += float(scored.nats[:-1].sum())
            self.tokens += len(scored.nats) - 1
        else:
            self.nats += float(scored.nats.sum())
            self.tokens += len(scored.nats)


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
    totals, eos = _Totals(), _special_id(split, "eos")
    stride = chosen.stride_for(model.config.context)
    windows = _windows(split, model.config.context, stride, chosen.max_documents, totals)
    meter = meter or Meter(False)
    meter.begin("scoring", "tokens")
    try:
        for scored in score(model, windows, chosen.batch_tokens):
            totals.add(scored, eos)
            done = totals.tokens + totals.eos_tokens + totals.given
            meter.update(done, done / split.num_tokens)
    finally:
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


def _special_id(split: "SplitView", role: str) -> int | None:
    """The token that stands before (`bos`) or behind (`eos`) each document; `None` if none does."""
    manifest = split.origin.manifest
    if manifest is None:
        return None
    return manifest.tokenizer.special_tokens.get(getattr(manifest, role) or "")


def _windows(
    split: "SplitView", context: int, stride: int, max_documents: int | None, totals: _Totals
) -> Iterator[Window]:
    """The windows of all documents, or of the whole split where nobody knows its documents."""
    if not split.num_documents and split.num_tokens:
        totals.num_bytes, totals.given = None, 1
        yield from cut(split.tokens, context, stride)
        return
    bos, eos = _special_id(split, "bos"), _special_id(split, "eos")
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
        yield from cut(ids, context, stride)


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
