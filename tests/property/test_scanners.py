"""Every named pattern gives exactly the matches of Python's `regex`.

At least 200,000 strings for each pattern: every short string over one character per class that the pattern
distinguishes, twice; every assigned character in eight contexts; every other character; invalid bytes of every
kind at every offset up to 70; runs that end around the widths of vector registers; random text. With short
strings to length 4 there are 232,000 for gpt2, 247,000 for gpt4, llama3, qwen2 and nanochat and 546,000 for
gpt4o, 20 s in all on one core; to length 5 the short strings alone are 354,000, 543,000 and 6,740,000, 45 s.
"""

import functools
import itertools
import random
from collections.abc import Callable, Iterator

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from regex_oracle import (
    GENERAL_CATEGORIES,
    as_bytes,
    as_text,
    characters_alike,
    characters_of,
    whole_matches,
)

from tokenmill import _core

LEAST_STRINGS = 200_000
NAMED = _core.named_patterns()
INVALID_BYTE = "\udcff"

CONTRACTION = ["'", "[sdmt]", "l", "[vr]", "e"]
CONTRACTION_ANY_CASE = ["'", "(?i:[sdmt])", "(?i:l)", "(?i:[vr])", "(?i:e)"]
CL100K = [*CONTRACTION_ANY_CASE, " ", r"\p{L}", r"\p{N}", r"\s", r"[\r\n]"]
O200K = [*CL100K, r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", "/"]
DISTINGUISHES = {
    "gpt2": [*CONTRACTION, " ", r"\p{L}", r"\p{N}", r"\s"],
    "gpt4": CL100K,
    "cl100k": CL100K,
    "gpt4o": O200K,
    "llama3": CL100K,
    "qwen2": CL100K,
    "nanochat": CL100K,
}
"""What each pattern asks of one character. Two characters with the same answers are alike to it."""

# Of every kind: cut short, too long a form, a surrogate, beyond U+10FFFF, no lead byte, no such byte.
INVALID = [
    b"\xc3", b"\xdf", b"\xe2\x82", b"\xe2", b"\xe6\x96", b"\xf0\x9f\x98", b"\xf0\x9f", b"\xf0",
    b"\xc0\x80", b"\xc1\xbf", b"\xe0\x80\x80", b"\xe0\x9f\xbf", b"\xf0\x80\x80\x80", b"\xf0\x8f\xbf\xbf",
    b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xed\xa0\xbd\xed\xb8\x80", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80",
    b"\x80", b"\xbf\xbf", b"\x80\x80\x80\x80\x80", b"\xf8\x88\x80\x80\x80", b"\xfe", b"\xff\xff", b"\xc3\xc3\xa9",
]  # fmt: skip

SPELLINGS = {
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+": "gpt2",
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s": "gpt2",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+": "gpt4",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+": "nanochat",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,2}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+": "nanochat",
}
"""Other spellings of a named pattern that get its scanner."""


@functools.cache
def classes_of(name: str) -> list[str]:
    """The characters of each class that the pattern distinguishes."""
    return characters_alike(DISTINGUISHES[name])


@pytest.fixture(scope="module", params=["gpt2", "cl100k", "gpt4o"])
def family(request: pytest.FixtureRequest) -> tuple[list[str], list[str]]:
    """Names whose patterns distinguish the same classes, and those classes."""
    names = {
        "gpt2": ["gpt2"],
        "gpt4o": ["gpt4o"],
        "cl100k": ["gpt4", "llama3", "qwen2", "nanochat"],
    }
    return names[request.param], classes_of(names[request.param][0])


def short_strings(classes: list[str], length: int) -> Iterator[str]:
    """Every string up to `length` over the lowest character of each class, then over the highest, which has more
    bytes where the class has such."""
    for index in (0, -1):
        alphabet = [*(members[index] for members in classes), INVALID_BYTE]
        for size in range(length + 1):
            yield from map("".join, itertools.product(alphabet, repeat=size))


def every_assigned_character() -> Iterator[str]:
    """Each at both ends, doubled, and beside a letter, a number, a space, a line break and an apostrophe."""
    for category in GENERAL_CATEGORIES:
        if category not in ("Cn", "Co", "Cs"):
            members = characters_of(rf"\p{{{category}}}")
            assert members
            for c in members:
                yield f"{c}a{c}{c}1{c} {c}'{c}\n{c}"


def every_other_character() -> Iterator[str]:
    """Those without a meaning, 64 to a string."""
    members = characters_of(r"[\p{Cn}\p{Co}]")
    assert len(members) > 900_000
    for start in range(0, len(members), 64):
        some = members[start : start + 64]
        yield "a".join(some) + " ".join(some[:8]) + "1".join(some[-8:])


def invalid_bytes() -> Iterator[str]:
    """Each kind at every offset up to 70 behind a run of one class, at the end of the text and before more."""
    before = [b"a" * 70, b" " * 70, b"1=" * 35, "é".encode() * 35]
    after = [b"", b"s", b" ", b"1", b"!", "文".encode(), b"\xbf"]
    for invalid, run in itertools.product(INVALID, before):
        for offset in range(71):
            yield as_text(run[:offset] + invalid + after[offset % len(after)])
            yield as_text(run[:offset] + invalid)


def long_runs(classes: list[str]) -> Iterator[str]:
    """Runs of one class that end one before, at and one behind the widths of vector registers."""
    lengths = [width + more for width in (16, 32, 64, 128) for more in (-1, 0, 1)]
    alphabet = [*(c[0] for c in classes), *(c[-1] for c in classes), INVALID_BYTE]
    for first, second in itertools.product(dict.fromkeys(alphabet), repeat=2):
        for length in lengths:
            yield first * length + second + "x"


def random_text(classes: list[str]) -> Iterator[str]:
    """Short and long, from a few classes or all of them, with runs."""
    rng = random.Random(20250918)
    for index in range(12_000):
        some = rng.sample(classes, rng.randint(1, len(classes)))
        size = rng.randint(1_000, 5_000) if index % 200 == 0 else rng.randint(1, 60)
        parts = (rng.choice(rng.choice(some)) * rng.choice((1, 1, 1, 2, 5)) for _ in range(size))
        text = "".join(parts)
        yield text if index % 3 else text + as_text(rng.choice(INVALID)) + text[:5]


def compare(names: list[str], texts: Iterator[str]) -> int:
    """Number of strings compared. Patterns that are spelled alike are asked about once."""
    oracles: dict[str, list[_core.Splitter]] = {}
    for name in names:
        oracles.setdefault(NAMED[name], []).append(_core.Splitter(name))
    checks: list[tuple[regex.Pattern[str], Callable[[bytes], list[bytes]]]] = [
        (regex.compile(spelling), splitter.split)
        for spelling, splitters in oracles.items()
        for splitter in splitters
    ]
    number = 0
    for text in texts:
        data = text.encode("utf-8", "surrogateescape")
        asked: regex.Pattern[str] | None = None
        expected: list[bytes] = []
        for pattern, split in checks:
            if pattern is not asked:
                asked, expected = pattern, whole_matches(pattern, text)
            if split(data) != expected:
                raise AssertionError(f"{pattern.pattern}: {data!r}: {split(data)} != {expected}")
        number += 1
    return number


def test_scanners_give_the_matches_of_regex(
    family: tuple[list[str], list[str]], short_string_length: int
) -> None:
    names, classes = family
    kinds = {
        "short": short_strings(classes, short_string_length),
        "assigned": every_assigned_character(),
        "other": every_other_character(),
        "invalid": invalid_bytes(),
        "runs": long_runs(classes),
        "random": random_text(classes),
    }
    number = {kind: compare(names, texts) for kind, texts in kinds.items()}
    assert number["short"] >= 2 * (len(classes) + 1) ** short_string_length
    assert min(number.values()) >= 3_000, number
    assert number["assigned"] == len(characters_of(r"[^\p{Cn}\p{Co}]"))
    assert sum(number.values()) >= LEAST_STRINGS, number


def test_every_named_pattern_is_tested() -> None:
    assert set(DISTINGUISHES) == set(NAMED)
    assert len(GENERAL_CATEGORIES) == 30
    assert sum(len(characters_of(rf"\p{{{c}}}")) for c in GENERAL_CATEGORIES) == 0x110000 - 0x800


@pytest.mark.parametrize(("name", "num_classes"), [("gpt2", 10), ("gpt4", 11), ("gpt4o", 19)])
def test_the_classes_are_all_there_are(name: str, num_classes: int) -> None:
    """Characters of one class are interchangeable: matches have the same lengths with either."""
    classes = classes_of(name)
    assert len(classes) == num_classes
    assert sum(map(len, classes)) == 0x110000 - 0x800
    pattern = regex.compile(NAMED[name])
    rng = random.Random(5)
    for _ in range(2_000):
        kinds = [rng.randrange(num_classes) for _ in range(rng.randint(1, 8))]
        lowest = "".join(classes[kind][0] for kind in kinds)
        other = "".join(rng.choice(classes[kind]) for kind in kinds)
        assert [len(m) for m in pattern.findall(lowest)] == [len(m) for m in pattern.findall(other)]


@pytest.mark.parametrize(("spelling", "name"), SPELLINGS.items(), ids=range(len(SPELLINGS)))
def test_other_spellings_mean_the_same(spelling: str, name: str) -> None:
    splitter = _core.Splitter(spelling)
    assert splitter.name == name
    pattern = regex.compile(spelling)
    for text in short_strings(classes_of(name), 3):
        assert splitter.split(as_bytes(text)) == whole_matches(pattern, text), text


@pytest.mark.parametrize("name", NAMED)
def test_a_long_text_is_its_matches(name: str) -> None:
    text = "".join(random_text(classes_of(name)))
    assert len(text) > 400_000
    expected = whole_matches(regex.compile(NAMED[name]), text)
    assert _core.Splitter(name).split(as_bytes(text)) == expected
    assert b"".join(expected) == as_bytes(text)


@given(st.binary(max_size=200) | st.text(max_size=100))
def test_nothing_is_lost(text: str | bytes) -> None:
    data = text if isinstance(text, bytes) else text.encode()
    for name in NAMED:
        pretokens = _core.Splitter(name).split(text)
        assert b"".join(pretokens) == data
        assert all(pretokens)
