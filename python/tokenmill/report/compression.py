"""Compression: several tokenizers on several texts, how many tokens each needs.

All tokenizers see the same documents, each encoded on its own; special tokens in a text are text.
Bytes are those of the text as it was read, also for a tokenizer that normalizes it. What a word is,
words.py says. Text is let go as soon as it is counted, unless it is in a sample.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tokenmill.progress import Meter, ProgressChoice
from tokenmill.report.labels import LabelledReading
from tokenmill.report.sampling import (
    DocumentReading,
    Reservoir,
    Text,
    num_bytes_of,
    require_documents,
)
from tokenmill.report.settings import CompressionSettings
from tokenmill.report.words import count_kept_whole, find_words
from tokenmill.sources.inputs import Inputs, find_inputs
from tokenmill.sources.options import ReadOptions
from tokenmill.sources.source import TextSource
from tokenmill.tokenizer.threads import num_threads
from tokenmill.tokenizer.tokenizer import Tokenizer

FLUSH_BYTES = 1 << 20
"""Documents go to the tokenizers in batches of about this size."""
ALL = "all"
"""The row that adds up the others."""


@dataclass(frozen=True)
class Tokens:
    """What one tokenizer made of the text of a row."""

    tokenizer: str
    num_tokens: int
    num_whole_words: int
    """Words that became one token, repeats included."""


@dataclass(frozen=True)
class Row:
    """A text, or all documents of one label."""

    name: str
    documents: int
    documents_read: int
    """What the sample was chosen from."""
    bytes: int
    characters: int
    words: int
    tokens: tuple[Tokens, ...]
    """In the order of the tokenizers."""

    def bytes_per_token(self) -> list[float]:
        return [self.bytes / each.num_tokens for each in self.tokens]

    def tokens_per_word(self) -> list[float | None]:
        """Fertility; `None` where white space is all there is."""
        return [each.num_tokens / self.words if self.words else None for each in self.tokens]

    def whole_word_share(self) -> list[float | None]:
        return [each.num_whole_words / self.words if self.words else None for each in self.tokens]

    def as_json(self) -> dict[str, object]:
        columns = zip(
            self.tokens,
            self.bytes_per_token(),
            self.tokens_per_word(),
            self.whole_word_share(),
            strict=True,
        )
        fewest = min(each.num_tokens for each in self.tokens)
        return {
            "text": self.name,
            "documents": self.documents,
            "documents_read": self.documents_read,
            "bytes": self.bytes,
            "characters": self.characters,
            "words": self.words,
            "tokenizers": [
                {
                    "tokenizer": tokens.tokenizer,
                    "tokens": tokens.num_tokens,
                    "bytes_per_token": bytes_per_token,
                    "tokens_per_word": tokens_per_word,
                    "single_token_words": share,
                    "best": tokens.num_tokens == fewest,
                }
                for tokens, bytes_per_token, tokens_per_word, share in columns
            ],
        }


@dataclass(frozen=True)
class CompressionReport:
    """Every row, and their sum if there are several."""

    tokenizers: tuple[str, ...]
    rows: tuple[Row, ...]
    total: Row
    settings: CompressionSettings
    skipped_records: int

    def as_json(self) -> dict[str, object]:
        alone = len(self.tokenizers) == 1
        return {
            "bytes_per_token": self.total.bytes_per_token()[0] if alone else None,
            "tokenizers": list(self.tokenizers),
            "sample": self.settings.sample,
            "seed": self.settings.seed,
            "label_field": self.settings.label_field,
            "skipped_records": self.skipped_records,
            "texts": [row.as_json() for row in self.rows],
            "all": self.total.as_json(),
        }


def measure_compression(
    tokenizers: Mapping[str, Tokenizer],
    texts: Sequence[tuple[str, Inputs]],
    settings: CompressionSettings | None = None,
    *,
    options: ReadOptions | None = None,
    progress: ProgressChoice = None,
) -> CompressionReport:
    """Count the tokens of `texts`, given as (name, what `tm.count` takes), by each tokenizer.

    Texts of one name are one row. SourceError if one has no document at all.
    """
    settings, options = settings or CompressionSettings(), options or ReadOptions()
    table = _Table(tokenizers, settings)
    meter = Meter(progress)
    skipped = 0
    try:
        for name, inputs in texts:
            meter.begin("measuring", "bytes")
            skipped += _read(name, find_inputs(inputs, options), table, options, meter)
        rows = table.finish()
    finally:
        meter.end()
    if settings.label_field is not None:
        rows.sort(key=lambda row: row.name)
    return CompressionReport(tuple(tokenizers), tuple(rows), _sum(rows), settings, skipped)


def _read(
    name: str, sources: Sequence[TextSource], table: "_Table", options: ReadOptions, meter: Meter
) -> int:
    """Put every document into the row it belongs to. The number of records left out."""
    label_field = table.settings.label_field
    if label_field is None:
        reading = DocumentReading(sources, options, meter)
        table.add_all((name, document) for document in reading)
    else:
        reading = LabelledReading(sources, options, label_field, meter)
        table.add_all(reading)
    require_documents(reading.report.documents, sources)
    return reading.report.skipped_records


@dataclass
class _RowInMaking:
    documents: int = 0
    bytes: int = 0
    characters: int = 0
    words: Counter[str] = field(default_factory=Counter[str])
    tokens: Counter[str] = field(default_factory=Counter[str])
    """By name of the tokenizer."""


class _Table:
    """Rows being filled: through a sample, or batch by batch as documents come."""

    def __init__(self, tokenizers: Mapping[str, Tokenizer], settings: CompressionSettings) -> None:
        self._tokenizers = tokenizers
        self.settings = settings
        self._threads = num_threads(settings.threads)
        self._rows: dict[str, _RowInMaking] = {}
        self._samples: dict[str, Reservoir] = {}
        self._waiting: dict[str, list[Text]] = {}
        self._waiting_bytes: Counter[str] = Counter()

    def add_all(self, documents: Iterable[tuple[str, Text]]) -> None:
        add: Callable[[str, Text], None] = (
            self._add_to_batch if self.settings.sample is None else self._add_to_sample
        )
        for name, document in documents:
            add(name, document)

    def finish(self) -> list[Row]:
        for name, sample in self._samples.items():
            for document in sample.documents():
                self._add_to_batch(name, document)
        for name in self._waiting:
            self._flush(name)
        return [self._row(name, row) for name, row in self._rows.items()]

    def _add_to_sample(self, name: str, document: Text) -> None:
        if name not in self._samples:
            assert self.settings.sample is not None
            self._samples[name] = Reservoir(self.settings.sample, self.settings.seed)
        self._samples[name].add(document)

    def _add_to_batch(self, name: str, document: Text) -> None:
        self._waiting.setdefault(name, []).append(document)
        self._waiting_bytes[name] += num_bytes_of(document)
        if self._waiting_bytes[name] >= FLUSH_BYTES:
            self._flush(name)

    def _flush(self, name: str) -> None:
        documents = self._waiting[name]
        if not documents:
            return
        row = self._rows.setdefault(name, _RowInMaking())
        row.documents += len(documents)
        row.bytes += self._waiting_bytes[name]
        for document in documents:
            text = document if isinstance(document, str) else document.decode("utf-8", "replace")
            row.characters += len(text)
            row.words.update(find_words(text))
        for label, tokenizer in self._tokenizers.items():
            batch = tokenizer.encode_batch(documents, disallowed_special=(), threads=self._threads)
            row.tokens[label] += batch.num_tokens
        self._waiting[name] = []
        self._waiting_bytes[name] = 0

    def _row(self, name: str, row: _RowInMaking) -> Row:
        tokens = tuple(
            Tokens(label, row.tokens[label], count_kept_whole(tokenizer, row.words, self._threads))
            for label, tokenizer in self._tokenizers.items()
        )
        sample = self._samples.get(name)
        read = row.documents if sample is None else sample.num_seen
        return Row(name, row.documents, read, row.bytes, row.characters, row.words.total(), tokens)


def _sum(rows: Sequence[Row]) -> Row:
    columns = zip(*(row.tokens for row in rows), strict=True)
    return Row(
        ALL,
        sum(row.documents for row in rows),
        sum(row.documents_read for row in rows),
        sum(row.bytes for row in rows),
        sum(row.characters for row in rows),
        sum(row.words for row in rows),
        tuple(
            Tokens(
                column[0].tokenizer,
                sum(each.num_tokens for each in column),
                sum(each.num_whole_words for each in column),
            )
            for column in columns
        ),
    )
