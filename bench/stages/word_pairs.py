"""Make more distinct pretokens than any corpus at hand holds, out of its real words.

The corpus's words come first with their own counts, then compounds of word i and word j, most likely ones
first (i × j up to a bound). A compound counts as often as chance would put the two side by side, at least
once. The same corpus gives the same counts on every machine.
"""

import re
import sys
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from bench.documents import stream_documents
from bench.job import BenchError

WORD = re.compile(r"[^\W\d_]+")
WordCount = tuple[bytes, int]


def count_words(path: Path, separator: str) -> list[WordCount]:
    """The words of a text with a space before them, most frequent first, equal ones by bytes."""
    counts: Counter[str] = Counter()
    for document in stream_documents(path, separator):
        counts.update(WORD.findall(document))
    words = [(b" " + word.encode(), count) for word, count in counts.items()]
    return sorted(words, key=lambda item: (-item[1], item[0]))


def bound_for(num_pairs: int, num_words: int) -> int:
    """The least bound with at least `num_pairs` pairs of ranks i, j ≤ `num_words` and i × j ≤ bound."""
    if num_pairs > num_words * num_words:
        raise BenchError(f"{num_words:,} words make fewer than {num_pairs:,} pairs of words")
    low, high = 1, num_words * num_words
    while low < high:
        middle = (low + high) // 2
        enough = sum(min(num_words, middle // i) for i in range(1, num_words + 1)) >= num_pairs
        low, high = (low, middle) if enough else (middle + 1, high)
    return low


def compounds(words: Sequence[WordCount], bound: int) -> Iterator[WordCount]:
    total = sum(count for _, count in words)
    for i, (left, left_count) in enumerate(words, start=1):
        for right, right_count in words[: bound // i]:
            yield left + right[1:], max(1, left_count * right_count // total)


def distinct_pretokens(words: Sequence[WordCount], num_distinct: int) -> dict[bytes, int]:
    """Exactly `num_distinct` pretokens with their counts."""
    inventory = dict(islice(words, num_distinct))
    # Two pairs may spell one compound: ask for more until there are enough distinct ones.
    wanted = num_distinct - len(inventory)
    while len(inventory) < num_distinct:
        bound = bound_for(wanted, len(words))
        inventory = dict(words)
        for compound, count in compounds(words, bound):
            inventory.setdefault(compound, count)
            if len(inventory) == num_distinct:
                break
        wanted += max(1, wanted // 20)
    return inventory


def write_counts(inventory: dict[bytes, int], folder: Path) -> None:
    """The three buffers `_core.Counts.from_buffers` takes, as files of machine words."""
    offsets = array("q", [0])
    end = 0
    for pretoken in inventory:
        end += len(pretoken)
        offsets.append(end)
    (folder / "offsets").write_bytes(offsets)
    (folder / "data").write_bytes(b"".join(inventory))
    (folder / "counts").write_bytes(array("Q", inventory.values()))


def main(path: str, separator: str, *targets: str) -> None:
    """`python -m bench.stages.word_pairs TEXT SEPARATOR NUMBER FOLDER [NUMBER FOLDER …]`."""
    words = count_words(Path(path), separator)
    for number, folder in zip(targets[::2], targets[1::2], strict=True):
        Path(folder).mkdir(parents=True)
        write_counts(distinct_pretokens(words, int(number)), Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
