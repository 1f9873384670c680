"""Reports as lines of text. Every number comes from the report; units stand in the headings, so that
two runs line up."""

from collections.abc import Callable, Iterator, Sequence

from tokenmill.progress import quantity, size
from tokenmill.report.compression import CompressionReport, Row
from tokenmill.report.sizes import span
from tokenmill.report.throughput import PeerResult, ThroughputReport
from tokenmill.report.timing import Timing
from tokenmill.work.read_report import ReadReport

Values = Callable[[Row], Sequence[float | None]]
"""A measure of a row: one number for each tokenizer."""

_LABEL_WIDTH = 9
_TIMING_HEADINGS = ("batch ms", "document µs", "MB/s", "tokens/s")


def throughput_lines(report: ThroughputReport, extrapolate_bytes: int | None) -> Iterator[str]:
    """The block that `report throughput` and `train --time-encode-decode` print."""
    work, sample = report.work, report.sample
    mean = work.num_bytes / work.num_documents
    yield _line(
        "sampled",
        f"{quantity(work.num_documents, 'document')} of {sample.read.documents:,}, "
        f"{mean:,.0f} bytes on average, {size(work.num_bytes)}, seed {sample.seed}",
    )
    yield from _skipped(sample.read)
    yield _line(
        "tokens", f"{work.num_tokens:,}, {work.num_bytes / work.num_tokens:.2f} bytes/token"
    )
    yield _line(
        "timed",
        f"{quantity(work.num_batches, 'call')} of up to {quantity(report.batch_size, 'document')}, "
        f"{quantity(report.threads, 'thread')}, 1 cold round, "
        f"{quantity(len(report.encode.warm.rounds), 'warm round')}",
    )
    yield ""
    rows = [
        (f"{what} {when}", *_cells(timing))
        for what, both in (("encode", report.encode), ("decode", report.decode))
        for when, timing in (("cold", both.cold), ("warm", both.warm))
    ]
    yield from table(("", *_TIMING_HEADINGS), rows)
    yield ""
    decoders = [(each.name, size(each.num_bytes), *_cells(each.timing)) for each in report.decoders]
    yield from table(("decoder", "size", *_TIMING_HEADINGS), decoders)
    yield ""
    held = (f"{name.replace('_', ' ')} {size(count)}" for name, count in report.memory.items())
    yield _line("held", ", ".join(held))
    for peer in report.peers:
        yield _line("compared", f"with {_peer_text(peer, report)}")
    if extrapolate_bytes is not None:
        yield from _extrapolation(report, extrapolate_bytes)


def _cells(timing: Timing) -> tuple[str, ...]:
    return (
        f"{timing.batch_seconds * 1e3:,.3f}",
        f"{timing.document_seconds * 1e6:,.3f}",
        f"{timing.megabytes_per_second:,.1f}",
        f"{timing.tokens_per_second:,.0f}",
    )


def _peer_text(peer: PeerResult, report: ThroughputReport) -> str:
    who = peer.name if peer.version is None else f"{peer.name} {peer.version}"
    if peer.refused is not None:
        return f"{who}: refused: {peer.refused}"
    if peer.difference is not None:
        what = "other text" if peer.same_ids else "other ids"
        return f"{who}: {what} at {peer.difference}"
    ratios = peer.times_faster(report)
    assert ratios is not None
    ids = "same ids" if peer.same_ids else "ids not compared"
    return (
        f"{who}: {ids}, {_times(ratios['encode_warm'])} "
        f"({_times(ratios['encode_cold'])} cold), decoding {_times(ratios['decode_warm'])}"
    )


def _times(ratio: float) -> str:
    return f"{ratio:.1f} times faster" if ratio >= 1 else f"{1 / ratio:.1f} times slower"


def _extrapolation(report: ThroughputReport, num_bytes: int) -> Iterator[str]:
    seconds = report.extrapolated_seconds(num_bytes)
    for when, timing in (("warm", report.encode.warm), ("cold", report.encode.cold)):
        yield _line(
            size(num_bytes),
            f"{when}: {num_bytes:,} bytes / {timing.bytes_per_second:,.0f} bytes/s = "
            f"{seconds[when]:,.1f} s = {span(seconds[when])}",
        )


def compression_lines(report: CompressionReport) -> Iterator[str]:
    """What was read, then a line for each text and tokenizer."""
    sample, settings = report.settings.sample, report.settings
    chosen = (
        "all documents"
        if sample is None
        else f"up to {quantity(sample, 'document')} of each text, seed {settings.seed}"
    )
    rows = [*report.rows, report.total] if len(report.rows) > 1 else list(report.rows)
    yield _line("measured", chosen)
    if report.skipped_records:
        yield _line("skipped", quantity(report.skipped_records, "record"))
    yield ""
    read = [
        (
            row.name,
            *(f"{number:,}" for number in (row.documents, row.bytes, row.characters, row.words)),
        )
        for row in rows
    ]
    yield from table(("text", "documents", "bytes", "characters", "words"), read)
    yield ""
    headings = ("text", "tokenizer", *(f"{title} " for title, *_ in _MEASURES))
    yield from table(headings, [line for row in rows for line in _measured(row)], num_left=2)
    if len(report.tokenizers) > 1:
        yield ""
        yield "* best of its text"


def _measured(row: Row) -> Iterator[tuple[str, ...]]:
    """A line for each tokenizer; the text's name stands in the first."""
    columns: list[list[str]] = []
    for _, values_of, form, best_of in _MEASURES:
        values = values_of(row)
        known = [value for value in values if value is not None]
        best = best_of(known) if len(known) > 1 else None
        columns.append([_marked(value, form, is_best=value == best) for value in values])
    for index, cells in enumerate(zip(*columns, strict=True)):
        yield (row.name if index == 0 else "", row.tokens[index].tokenizer, *cells)


def _num_tokens(row: Row) -> list[int]:
    return [each.num_tokens for each in row.tokens]


_MEASURES: tuple[tuple[str, Values, str, Callable[[list[float]], float]], ...] = (
    ("bytes/token", Row.bytes_per_token, ".3f", max),
    ("tokens", _num_tokens, ",d", min),
    ("tokens/word", Row.tokens_per_word, ".3f", min),
    ("single-token words", Row.whole_word_share, ".1%", max),
)
"""Title, where it is, how it is written, which is best."""


def _marked(value: float | None, form: str, *, is_best: bool) -> str:
    # The mark has a place of its own, so that digits stay below digits.
    if value is None:
        return "– "
    return format(value, form) + ("*" if is_best else " ")


def _skipped(read: ReadReport) -> Iterator[str]:
    if read.skipped_records:
        yield _line(
            "skipped", f"{quantity(read.skipped_records, 'record')}, such as {read.skipped[0]}"
        )


def _line(label: str, text: str) -> str:
    return f"{label:<{_LABEL_WIDTH}}{text}"


def table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], *, num_left: int = 1
) -> Iterator[str]:
    """Columns side by side: the first `num_left` to the left, numbers to the right."""
    lines = [headings, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(headings))]
    for line in lines:
        cells = [
            cell.ljust(width) if column < num_left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
