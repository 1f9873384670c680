"""Token counts as lines of text."""

from collections.abc import Iterator, Sequence

from tokenmill.progress import quantity
from tokenmill.report.render.terminal import table
from tokenmill.report.token_counts import Lengths, SplitCounts, TokenCounts, TokenUse

_BAR_WIDTH = 40
_BLOCKS = " ▏▎▍▌▋▊▉█"


def token_count_lines(reports: Sequence[TokenCounts], total: SplitCounts) -> Iterator[str]:
    """A table of all splits of all datasets, then lengths and ids of each dataset."""
    yield from _split_table(reports, total)
    for report in reports:
        if len(reports) > 1:
            yield ""
            yield f"{report.path}:"
        if report.total.lengths is not None:
            yield ""
            yield from _length_lines(report.total.lengths)
        if report.usage is not None:
            yield ""
            yield from _usage_lines(report)


def _split_table(reports: Sequence[TokenCounts], total: SplitCounts) -> Iterator[str]:
    several = len(reports) > 1
    masked = any(split.trained_tokens is not None for r in reports for split in r.splits)
    rows = [
        (*((report.path,) if several else ()), *_cells(split, masked=masked))
        for report in reports
        for split in report.splits
    ]
    rows.append((*(("",) if several else ()), *_cells(total, masked=masked)))
    headings = ["split", "tokens", "documents", "bytes/token", "dtype"]
    if masked:
        headings.append("trained on")
    if several:
        headings.insert(0, "dataset")
    yield from table(headings, rows, num_left=2 if several else 1)


def _cells(split: SplitCounts, *, masked: bool) -> tuple[str, ...]:
    ratio, share = split.bytes_per_token, split.trained_share
    cells = (
        split.name,
        f"{split.tokens:,}",
        "–" if split.documents is None else f"{split.documents:,}",
        "–" if ratio is None else f"{ratio:.3f}",
        split.dtype,
    )
    return (*cells, "–" if share is None else f"{share:.1%}") if masked else cells


def _length_lines(lengths: Lengths) -> Iterator[str]:
    parts = [f"{_percentile(p)} {length:,}" for p, length in lengths.percentiles.items()]
    yield f"tokens of a document: mean {lengths.mean:,.1f}, {', '.join(parts)}"
    most = max(bar.documents for bar in lengths.bars)
    rows = [
        (
            f"{bar.low:,}" if bar.low == bar.high else f"{bar.low:,} – {bar.high:,}",
            f"{bar.documents:,}",
        )
        for bar in lengths.bars
    ]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for row, bar in zip(rows, lengths.bars, strict=True):
        drawn = bar_of(bar.documents / most)
        yield f"  {row[0].rjust(widths[0])}  {row[1].rjust(widths[1])}  {drawn}".rstrip()


def _percentile(p: int) -> str:
    return {0: "shortest", 50: "median", 100: "longest"}.get(p, f"{p}%")


def bar_of(share: float) -> str:
    """A bar as long as `share` of its width; whatever is not nothing can be seen."""
    eighths = round(share * _BAR_WIDTH * 8)
    eighths = max(eighths, 1) if share > 0 else 0
    return "█" * (eighths // 8) + _BLOCKS[eighths % 8].strip()


def _usage_lines(report: TokenCounts) -> Iterator[str]:
    usage, tokens = report.usage, report.total.tokens
    assert usage is not None
    if usage.top:
        yield "most frequent tokens"
        rows = [
            (f"  {use.id}", _spelled(use), f"{use.count:,}", f"{use.count / tokens:.2%}")
            for use in usage.top
        ]
        yield from table(("  id", "token", "count", "share"), rows, num_left=2)
    if usage.num_unused is None:
        return
    ids = quantity(usage.vocab_size or 0, "id")
    examples = ", ".join(_spelled(use) for use in usage.unused)
    such = f", such as {examples}" if examples else ""
    yield f"{quantity(usage.num_unused, 'token')} of {ids} never used{such}"


def _spelled(use: TokenUse) -> str:
    return f"id {use.id}" if use.token is None else spelled(use.token)


def spelled(token: bytes) -> str:
    """A token in quotes, on one line whatever it holds."""
    return '"' + token.decode("utf-8", "backslashreplace").translate(_ESCAPES) + '"'


_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(32), 127)} | {
    ord("\n"): "\\n",
    ord("\t"): "\\t",
    ord("\r"): "\\r",
    ord('"'): '\\"',
}
