"""Reading in blocks cannot be seen in the counts: they are those of each document split as a whole.

Documents, special tokens, characters and pretokens may lie across the edge of a block, whatever its size.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from tokenmill import _core, reference

PATTERNS = [*_core.named_patterns(), r"\p{L}+|\p{N}{2}|(?<=\s)\S", r"\w+|\W"]
BLOCK_BYTES = [16, 17, 19, 23, 32, 61, 64, 127, 1000, 4096]
PIECES = [
    "a", "the", "The", "s", "'s", "'ll", "'LL", "’", " ", "  ", "\n", "\r\n", "\t", "1", "123", "٣", ".", "!?", "/",
    "é", "\u0301", "文字", "😀", "\u00a0", "\u2003", "A" * 40, "文" * 30, "=" * 50, " " * 40, "'" * 20, "a1" * 30,
]  # fmt: skip
# Some overlap each other, some themselves, as does one of the separators.
SPECIAL_TOKENS = [
    [],
    ["<|endoftext|>"],
    ["<|a|>", "<|a|><|a|>", "|>"],
    ["a.a.", "日本"],
    [" the the", "s "],
]
INVALID = [b"\xff", b"\x80", b"\xe6\x96", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc3"]


def expected_counts(data: bytes, separator: bytes, splitter: _core.Splitter) -> Counter[bytes]:
    """By `bytes.split` and one call for each document."""
    counts: Counter[bytes] = Counter()
    for document in data.removeprefix(b"\xef\xbb\xbf").split(separator):
        counts.update(splitter.split(document))
    return counts


def as_dict(counts: _core.Counts) -> dict[bytes, int]:
    return dict(counts.most_common(len(counts)))


def counted(
    sources: Iterator[_core.Source], splitter: _core.Splitter, block_bytes: int, threads: int
) -> tuple[dict[bytes, int], _core.Reader, _core.Counter]:
    reader = _core.Reader(invalid_utf8="keep", block_bytes=block_bytes)
    counter = _core.Counter(splitter, threads)
    counter.count(reader, sources)
    return as_dict(counter.take()), reader, counter


def random_data(rng: random.Random, extra: Sequence[str], num_pieces: int) -> bytes:
    """Text in which `extra`, whole and in parts, and invalid bytes turn up all the time."""
    out: list[bytes] = []
    for _ in range(num_pieces):
        kind = rng.random()
        if kind < 0.70 or not extra:
            out.append(rng.choice(PIECES).encode())
        elif kind < 0.80:
            out.append(rng.choice(extra).encode())
        elif kind < 0.95:
            whole = rng.choice(extra).encode()
            at = rng.randrange(len(whole))
            out.append(whole[at:] if kind < 0.87 else whole[: at + 1])
        else:
            out.append(rng.choice(INVALID))
    return b"".join(out)


def plain_text(path: Path, data: bytes, separator: bytes) -> Callable[[], Iterator[_core.Source]]:
    path.write_bytes(data)
    return lambda: iter([_core.Source.plain_text(str(path), name="test", separator=separator)])


@pytest.mark.parametrize("pattern", PATTERNS, ids=[*_core.named_patterns(), "look-behind", "words"])
def test_blocks_of_any_size_give_the_same_counts(tmp_path: Path, pattern: str) -> None:
    rng = random.Random(f"blocks {pattern}")
    for specials in SPECIAL_TOKENS:
        splitter = _core.Splitter(pattern, specials)
        for separator in (b"<|endoftext|>", b"\n\n", b"abab", b"\xff"):
            data = random_data(rng, [*specials, separator.decode("latin-1")], 400)
            sources = plain_text(tmp_path / "text", data, separator)
            expected = expected_counts(data, separator, splitter)
            for block_bytes in BLOCK_BYTES:
                threads = rng.choice([1, 2, 3])
                found, reader, counter = counted(sources(), splitter, block_bytes, threads)
                assert found == expected, (specials, separator, block_bytes, threads)
                check_reports(data, separator, splitter, reader, counter)


def check_reports(
    data: bytes,
    separator: bytes,
    splitter: _core.Splitter,
    reader: _core.Reader,
    counter: _core.Counter,
) -> None:
    documents = [document for document in data.split(separator) if document]
    assert reader.report["documents"] == len(documents)
    assert reader.report["bytes"] == sum(map(len, documents))
    stretches = [
        cut for d in documents for cut in reference.cut_at_special(d, splitter.special_tokens)
    ]
    assert counter.report["special_tokens"] == sum(is_special for _, is_special in stretches)
    if splitter.name is not None:
        assert counter.report["unmatched"] == 0


@pytest.mark.parametrize("name", _core.named_patterns())
def test_one_huge_line_is_cut_without_a_trace(tmp_path: Path, name: str) -> None:
    """No separator, no line break, and every kind of run right where a block ends."""
    rng = random.Random(2)
    words = [
        "a",
        "B",
        "don't",
        "文字",
        "12345",
        "é",
        "x'",
        "'s",
        "!",
        "/",
        "?!",
        "\xad",
        "ǅ",
        "٣",
        "\xa0",
    ]
    data = "".join(
        rng.choice(words) + rng.choice(["", "", " ", "  "]) for _ in range(20_000)
    ).encode()
    splitter = _core.Splitter(name)
    expected = Counter(splitter.split(data))
    sources = plain_text(tmp_path / "text", data, b"<|endoftext|>")
    for block_bytes in (16, 50, 333, 5_000, 50_000):
        found, reader, _ = counted(sources(), splitter, block_bytes, threads=2)
        assert found == expected, block_bytes
        assert (reader.report["documents"], reader.report["bytes"]) == (1, len(data))


@pytest.mark.parametrize("special", ["|x|", "a a", "1.1", "x-x-x", "文 文", "a<a"])
def test_special_tokens_that_overlap_themselves(tmp_path: Path, special: str) -> None:
    """Found from the left: which of two overlapping ones counts depends on all the text before."""
    splitter = _core.Splitter("gpt4", [special])
    period = next(i for i in range(1, len(special)) if special.startswith(special[i:]))
    for repeats in range(1, 40):
        data = b"z " + (special[:period] * repeats + special).encode() + b" zz"
        expected = Counter(splitter.split(data))
        sources = plain_text(tmp_path / "text", data, b"\n")
        for block_bytes in range(16, 40):
            found, _, counter = counted(sources(), splitter, block_bytes, threads=1)
            assert found == expected, (data, block_bytes)
            assert counter.report["special_tokens"] == data.count(special.encode())


@pytest.mark.parametrize("pattern", ["gpt2", "gpt4", "gpt4o"])
def test_runs_without_a_place_to_cut(tmp_path: Path, pattern: str) -> None:
    splitter = _core.Splitter(pattern, ["<|endoftext|>"])
    for run in (" ", "a", "=", "'", "\n", "文", "\u0301", "1", "a'", "\xa0"):
        for end in ("", "x", "\n", "<|endoftext|>"):
            data = (run * 3_000 + end).encode()
            sources = plain_text(tmp_path / "text", data, b"\x00")
            for block_bytes in (16, 100, 4096):
                found, _, _ = counted(sources(), splitter, block_bytes, threads=2)
                assert found == Counter(splitter.split(data)), (run, end, block_bytes)


def test_ranges_of_a_file_add_up(tmp_path: Path) -> None:
    """However a file is cut into ranges, each document belongs to exactly one."""
    rng = random.Random(4)
    splitter = _core.Splitter("gpt4", ["<|endoftext|>"])
    for separator in (b"<|endoftext|>", b"\n", b"--="):
        data = random_data(rng, [separator.decode()], 300)
        path = tmp_path / "text"
        path.write_bytes(data)
        expected = expected_counts(data, separator, splitter)
        for _ in range(20):
            edges = sorted(
                {0, len(data), *(rng.randrange(len(data)) for _ in range(rng.randint(0, 9)))}
            )
            sources = (
                _core.Source.plain_text(
                    str(path), name="test", separator=separator, start=start, end=end
                )
                for start, end in pairwise(edges)
            )
            found, reader, _ = counted(sources, splitter, rng.choice(BLOCK_BYTES), threads=2)
            assert found == expected, (separator, edges)
            assert reader.report["documents"] == sum(map(bool, data.split(separator)))


def test_streams_that_return_little_at_a_time() -> None:
    class Trickle:
        """Gives one to five bytes, as a pipe may."""

        def __init__(self, data: bytes, rng: random.Random) -> None:
            self.data, self.rng = data, rng

        def read(self, size: int, /) -> bytes:
            size = min(size, self.rng.randint(1, 5))
            part, self.data = self.data[:size], self.data[size:]
            return part

    rng = random.Random(6)
    splitter = _core.Splitter("gpt4o", ["<|endoftext|>"])
    data = b"\xef\xbb\xbf" + random_data(rng, ["<|endoftext|>", "\n\n"], 500)
    for block_bytes in BLOCK_BYTES:
        source = _core.Source.plain_text(Trickle(data, rng), name="pipe", separator=b"\n\n")
        found, _, _ = counted(iter([source]), splitter, block_bytes, threads=2)
        assert found == expected_counts(data, b"\n\n", splitter)


def test_strings_are_documents() -> None:
    rng = random.Random(8)
    splitter = _core.Splitter("nanochat", ["<|bos|>"])
    documents = [random_data(rng, ["<|bos|>"], rng.randint(0, 60)) for _ in range(300)]
    expected = Counter(pretoken for document in documents for pretoken in splitter.split(document))
    for block_bytes in BLOCK_BYTES:
        source = _core.Source.strings(iter(documents), name="test")
        found, reader, _ = counted(iter([source]), splitter, block_bytes, threads=3)
        assert found == expected
        assert reader.report["documents"] == sum(map(bool, documents))
