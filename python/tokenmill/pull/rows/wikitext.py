# pyright: basic
# (pyarrow has no types to be strict about)
"""WikiText: rows of single lines in, one row for each article out.

An article starts at its title, ` = Title = ` on a line of its own; headings inside have more equals
signs. Blank lines go, and so do spaces at the ends of lines.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tokenmill.pull.rows.shape import Choice, Row

TITLE = re.compile(r"\s=\s[^=].*[^=]\s=\s\n?")


def rows(
    sources: Mapping[str, Sequence[Path]], choice: Choice, skipped: "Counter[str]"
) -> Iterator[tuple[str, Row]]:
    for split, paths in sources.items():
        for article in articles(line for path in paths for line in _lines(path)):
            yield split, {"text": article}


def articles(lines: Iterator[str]) -> Iterator[str]:
    """Articles joined from lines. What stands before the first title is one too."""
    gathered: list[str] = []
    for line in lines:
        if TITLE.fullmatch(line) and gathered:
            yield "\n".join(gathered)
            gathered = []
        if line.strip():
            gathered.append(line.strip())
    if gathered:
        yield "\n".join(gathered)


def _lines(path: Path) -> Iterator[str]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as parquet:
        for batch in parquet.iter_batches(8192, columns=["text"], use_threads=False):
            yield from batch.column(0).to_pylist()
