"""Token counts: how many tokens a dataset has, how long its documents are, which ids it uses.

Files are read in blocks, and lengths are counted by length, so memory does not grow with the dataset.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tokenmill.dataset.arrays import BLOCK_ITEMS, Array
from tokenmill.dataset.dataset import Dataset
from tokenmill.dataset.shards import ShardArrays
from tokenmill.dataset.split_view import SplitView
from tokenmill.errors import FormatError, TokenmillError
from tokenmill.progress import Meter

PERCENTILES = (0, 5, 25, 50, 75, 95, 99, 100)
NUM_BARS = 12
_COUNTED_LENGTHS = 1 << 20
_BLOCK_TOKENS = 1 << 22
# Nobody has a vocab of this size; a table for whatever a broken file says would fill the memory.
_MOST_IDS = 1 << 26


@dataclass(frozen=True)
class Bar:
    """Documents of `low` to `high` tokens, both included."""

    low: int
    high: int
    documents: int


@dataclass(frozen=True)
class Lengths:
    """Tokens of documents: percentiles, each a length that occurs, and bars of a histogram."""

    mean: float
    percentiles: dict[int, int]
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class SplitCounts:
    """One split, or several added up. What nobody knows is None."""

    name: str
    tokens: int
    documents: int | None
    bytes: int | None
    trained_tokens: int | None
    dtype: str
    lengths: Lengths | None = None

    @property
    def bytes_per_token(self) -> float | None:
        return None if not self.tokens or self.bytes is None else self.bytes / self.tokens

    @property
    def trained_share(self) -> float | None:
        known = self.trained_tokens is not None and self.tokens
        return self.trained_tokens / self.tokens if known and self.trained_tokens else None

    def as_json(self) -> dict[str, Any]:
        lengths = self.lengths
        return {
            "tokens": self.tokens,
            "documents": self.documents,
            "bytes": self.bytes,
            "bytes_per_token": self.bytes_per_token,
            "dtype": self.dtype,
            "trained_tokens": self.trained_tokens,
            "trained_share": self.trained_share,
            "document_tokens": None
            if lengths is None
            else {
                "mean": lengths.mean,
                "percentiles": {str(p): length for p, length in lengths.percentiles.items()},
                "histogram": [vars(bar) for bar in lengths.bars],
            },
        }


@dataclass(frozen=True)
class TokenUse:
    """How often one id occurs; `token` is None if no tokenizer says what it spells."""

    id: int
    token: bytes | None
    count: int


@dataclass(frozen=True)
class Usage:
    """Which ids occur. `num_unused` leaves ids out that have no token."""

    top: tuple[TokenUse, ...]
    vocab_size: int | None
    num_unused: int | None
    unused: tuple[TokenUse, ...]


@dataclass(frozen=True)
class TokenCounts:
    """What `tokenmill stats` shows of one dataset."""

    path: str
    mode: str
    splits: tuple[SplitCounts, ...]
    total: SplitCounts
    usage: Usage | None
    missing: tuple[str, ...] = field(default=())
    """Splits that were asked for and are not there."""

    def as_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "mode": self.mode,
            "splits": {split.name: split.as_json() for split in self.splits},
            "missing_splits": list(self.missing),
            "total": self.total.as_json(),
            "usage": None
            if self.usage is None
            else {
                "vocab_size": self.usage.vocab_size,
                "unused_tokens": self.usage.num_unused,
                "unused": [_use_json(each) for each in self.usage.unused],
                "top": [_use_json(each) for each in self.usage.top],
            },
        }


def _use_json(use: TokenUse) -> dict[str, Any]:
    spelled = None if use.token is None else use.token.decode("utf-8", "backslashreplace")
    return {"id": use.id, "token": spelled, "count": use.count}


def count_tokens(
    dataset: Dataset,
    *,
    splits: Sequence[str] | None = None,
    top: int = 10,
    read_tokens: bool = True,
    meter: Meter | None = None,
) -> TokenCounts:
    """Count what `dataset` holds, of all splits or of those in `splits`.

    With `read_tokens` every id is read, to know which ones occur; else only document ends are.
    """
    wanted = list(dataset.splits) if splits is None else list(splits)
    there, missing = list[SplitView](), list[str]()
    for name in wanted:
        try:
            there.append(dataset[name])
        except TokenmillError:
            missing.append(name)
    histograms = [_lengths_of(view) for view in there]
    counted = [_count_split(v, lengths) for v, lengths in zip(there, histograms, strict=True)]
    known = [histogram for histogram in histograms if histogram is not None]
    usage = _usage(dataset, there, top, meter or Meter(False)) if read_tokens else None
    total_lengths = _added(known) if known and len(known) == len(histograms) else None
    total = add_up(counted, None if total_lengths is None else total_lengths.summary())
    return TokenCounts(
        str(dataset.path), dataset.mode, tuple(counted), total, usage, tuple(missing)
    )


def _count_split(view: SplitView, lengths: "_LengthCounts | None") -> SplitCounts:
    manifest = view.origin.manifest
    trained = None if manifest is None else manifest.splits[view.name].trained_tokens
    has_ends = lengths is not None or view.num_documents > 0
    return SplitCounts(
        name=view.name,
        tokens=view.num_tokens,
        documents=view.num_documents if has_ends or manifest is not None else None,
        bytes=view.num_bytes,
        trained_tokens=trained,
        dtype=view.dtype,
        lengths=None if lengths is None else lengths.summary(),
    )


def add_up(splits: Sequence[SplitCounts], lengths: Lengths | None = None) -> SplitCounts:
    """The sum of `splits`; a number that one of them does not know is not known of the sum."""

    def total(values: list[int | None]) -> int | None:
        known = [value for value in values if value is not None]
        return sum(known) if len(known) == len(values) else None

    return SplitCounts(
        name="total",
        tokens=sum(split.tokens for split in splits),
        documents=total([split.documents for split in splits]),
        bytes=total([split.bytes for split in splits]),
        trained_tokens=total([split.trained_tokens for split in splits]) if splits else None,
        dtype=", ".join(dict.fromkeys(split.dtype for split in splits)),
        lengths=lengths,
    )


class _LengthCounts:
    """How many documents have each length. Lengths beyond a million are kept one by one: such
    documents are few, whatever the dataset."""

    def __init__(self) -> None:
        self.counts: Array = np.zeros(_COUNTED_LENGTHS, np.int64)
        self.longer: list[int] = []

    def add(self, lengths: Array) -> None:
        short = lengths[lengths < _COUNTED_LENGTHS].astype(np.int64)
        self.counts += np.bincount(short, minlength=_COUNTED_LENGTHS)
        self.longer += lengths[lengths >= _COUNTED_LENGTHS].tolist()

    def summary(self) -> Lengths | None:
        """None if there is no document."""
        occurring = np.flatnonzero(self.counts)
        longer = sorted(self.longer)
        values = np.concatenate([occurring, np.array(longer, np.int64)])
        counts = np.concatenate([self.counts[occurring], np.ones(len(longer), np.int64)])
        if not len(values):
            return None
        before = np.cumsum(counts)
        num_documents = int(before[-1])
        ranks = {p: max(math.ceil(p / 100 * num_documents), 1) for p in PERCENTILES}
        return Lengths(
            mean=float((values * counts).sum() / num_documents),
            percentiles={
                p: int(values[np.searchsorted(before, rank)]) for p, rank in ranks.items()
            },
            bars=_bars(values, counts),
        )


def _added(histograms: Sequence[_LengthCounts]) -> _LengthCounts:
    total = _LengthCounts()
    for each in histograms:
        total.counts += each.counts
        total.longer += each.longer
    return total


def _bars(values: Array, counts: Array) -> tuple[Bar, ...]:
    """Bars that double in width where lengths are far apart, else bars of equal width."""
    low, high = int(values[0]), int(values[-1])
    if high > 8 * max(low, 1) and high > NUM_BARS:
        first = max(int(math.log2(max(low, 1))), int(math.log2(high)) - NUM_BARS + 1)
        edges = [low, *(2**power for power in range(first + 1, int(math.log2(high)) + 1)), high + 1]
    else:
        width = max(1, -(-(high - low + 1) // NUM_BARS))
        edges = [*range(low, high + 1, width), high + 1]
    places = np.searchsorted(values, edges)
    return tuple(
        Bar(edges[i], edges[i + 1] - 1, int(counts[places[i] : places[i + 1]].sum()))
        for i in range(len(edges) - 1)
    )


def _lengths_of(view: SplitView) -> _LengthCounts | None:
    """None if nobody knows where documents end."""
    found = _LengthCounts()
    for shard in view.shards:
        try:
            for lengths in _shard_lengths(shard):
                found.add(lengths)
        except FormatError:
            if shard.num_documents and not shard.num_tokens:
                raise
            return None
    return found


def _shard_lengths(shard: ShardArrays) -> Iterator[Array]:
    last, ends = 0, shard.ends
    for start in range(0, len(ends), BLOCK_ITEMS):
        block = np.asarray(ends[start : start + BLOCK_ITEMS]).astype(np.int64)
        yield np.diff(block, prepend=last)
        last = int(block[-1])


def _usage(dataset: Dataset, views: Sequence[SplitView], top: int, meter: Meter) -> Usage:
    manifest = dataset.manifest
    vocab = dataset.tokenizer.vocab if dataset.has_tokenizer else None
    if dataset.has_tokenizer:
        vocab_size = dataset.tokenizer.vocab_size
    else:
        vocab_size = None if manifest is None else manifest.tokenizer.vocab_size
    counts = _id_counts(views, vocab_size, meter)
    spelled = dict[int, bytes]() if vocab is None else vocab
    by_count = np.argsort(-counts, kind="stable")[:top].tolist()
    most = tuple(TokenUse(i, spelled.get(i), int(counts[i])) for i in by_count if counts[i])
    if vocab_size is None:
        return Usage(most, None, None, ())
    unused: list[int] = np.flatnonzero(counts[:vocab_size] == 0).tolist()
    if vocab is not None:
        unused = [token_id for token_id in unused if token_id in vocab]
    # Learned tokens first: that a text does without some bytes is no news.
    by_interest = sorted(unused, key=lambda token_id: len(spelled.get(token_id, b"")) == 1)
    examples = tuple(TokenUse(i, spelled.get(i), 0) for i in by_interest[:top])
    return Usage(most, vocab_size, len(unused), examples)


def _id_counts(views: Sequence[SplitView], vocab_size: int | None, meter: Meter) -> Array:
    """How often each id occurs, by id. FormatError for what cannot be an id."""
    counts = np.zeros(vocab_size or 0, np.int64)
    total = sum(view.num_tokens for view in views) or 1
    done = 0
    meter.begin("reading", "tokens")
    try:
        for name, block in _token_blocks(views):
            _require_ids(name, block, vocab_size)
            found = np.bincount(block.astype(np.int64))
            if len(found) > len(counts):
                counts = np.concatenate([counts, np.zeros(len(found) - len(counts), np.int64)])
            counts[: len(found)] += found
            done += len(block)
            meter.update(done, done / total)
    finally:
        meter.end()
    return counts


def _require_ids(split: str, block: Array, vocab_size: int | None) -> None:
    limit = _MOST_IDS if vocab_size is None else vocab_size
    for extreme in (int(block.max()), int(block.min())):
        if not 0 <= extreme < limit:
            raise FormatError(
                f"split `{split}` has id {extreme}, ids run from 0 to {limit - 1:,}",
                "were these ids made with another tokenizer, or have they another type?",
            )


def _token_blocks(views: Sequence[SplitView]) -> Iterator[tuple[str, Array]]:
    for view in views:
        for shard in view.shards:
            for start in range(0, shard.num_tokens, _BLOCK_TOKENS):
                yield view.name, shard.tokens[start : start + _BLOCK_TOKENS]
