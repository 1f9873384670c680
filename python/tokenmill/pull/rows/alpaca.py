"""Alpaca, cleaned: one JSON array in; instruction, input and output out, in three splits.

2,000 rows drawn by the seed are for validation, the next 2,000 for testing; the others keep their
order.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from tokenmill.errors import FormatError
from tokenmill.pull.catalogue import TEST, TRAIN, VALIDATION
from tokenmill.pull.rows.shape import Choice, Row, drawn

HELD_OUT_ROWS = 2_000
FIELDS = ("instruction", "input", "output")


def rows(
    sources: Mapping[str, Sequence[Path]], choice: Choice, skipped: "Counter[str]"
) -> Iterator[tuple[str, Row]]:
    examples = [row for path in sources[TRAIN] for row in _examples(path, skipped)]
    count = min(HELD_OUT_ROWS, len(examples) // 4)
    keys = [str(index) for index in range(len(examples))]
    validation = drawn(keys, count, choice.seed)
    test = drawn(keys, 2 * count, choice.seed) - validation
    for key, example in zip(keys, examples, strict=True):
        yield (VALIDATION if key in validation else TEST if key in test else TRAIN), example


def _examples(path: Path, skipped: "Counter[str]") -> Iterator[Row]:
    try:
        found: Any = json.loads(path.read_bytes())
    except ValueError as error:
        raise FormatError(f"`{path.name}` is not JSON: {error}") from error
    if not isinstance(found, list):
        raise FormatError(f"`{path.name}` is no list of examples")
    for each in cast("list[object]", found):
        example = cast("dict[str, object]", each) if isinstance(each, dict) else {}
        if not all(isinstance(example.get(name), str) for name in FIELDS):
            skipped["rows without an instruction, input and output"] += 1
            continue
        yield {name: example[name] for name in FIELDS}
