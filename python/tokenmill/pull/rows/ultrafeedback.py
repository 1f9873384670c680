# pyright: basic
# (pyarrow has no types to be strict about)
"""UltraFeedback, binarized: two whole conversations in; what they share, chosen and rejected out."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenmill.pull.rows.shape import Choice, Row, message


def rows(
    sources: Mapping[str, Sequence[Path]], choice: Choice, skipped: "Counter[str]"
) -> Iterator[tuple[str, Row]]:
    for split, paths in sources.items():
        for path in paths:
            for chosen, rejected in _conversations(path):
                row = preference(chosen, rejected)
                if row is None:
                    skipped["rows without two different answers to one prompt"] += 1
                else:
                    yield split, row


def preference(chosen: Any, rejected: Any) -> Row | None:
    """The pair as prompt and two answers; `None` if they are no such pair."""
    shared = 0
    for left, right in zip(chosen or [], rejected or [], strict=False):
        if left != right:
            break
        shared += 1
    prompt, better, worse = chosen[:shared], chosen[shared:], rejected[shared:]
    answers = better, worse
    if not prompt or not all(
        len(each) == 1 and each[0]["role"] == "assistant" and each[0]["content"] for each in answers
    ):
        return None
    return {
        "prompt": [message(each["role"], each["content"]) for each in prompt],
        "chosen": [message("assistant", better[0]["content"])],
        "rejected": [message("assistant", worse[0]["content"])],
    }


def _conversations(path: Path) -> Iterator[tuple[Any, Any]]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as parquet:
        for batch in parquet.iter_batches(1024, columns=["chosen", "rejected"], use_threads=False):
            for row in batch.to_pylist():
                yield row["chosen"], row["rejected"]
