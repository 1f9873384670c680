"""Does a pattern cover a text? Held against Python's `regex` on every short string."""

import itertools

import pytest
import regex

from tokenmill.compat.coverage import Coverage

PATTERNS = [
    r"\p{L}+",
    r"\p{L}+| ",
    r"\p{L}+|\s+(?!\S)",
    r" ?\p{L}+|\s+(?!\S)",
    r"\p{L}+|\s+(?=\p{L})|!",
    r"\p{L}{2}|!+| ",
    r"(?<!!)\p{L}+|[ !]",
    r"\p{L}+|[^\p{L}]",
]


def is_covered(pattern: str, text: str) -> bool:
    return sum(len(match.group()) for match in regex.finditer(pattern, text)) == len(text)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_short_string(pattern: str) -> None:
    coverage = Coverage(pattern)
    seen = set[bool]()
    for length in range(5):
        for letters in itertools.product("aé !", repeat=length):
            text = "".join(letters)
            expected = is_covered(pattern, text)
            assert coverage.covers(text, ()) == expected, text
            seen.add(expected)
    assert True in seen


def test_special_tokens_are_not_left_out() -> None:
    coverage = Coverage(r"\p{L}+")
    assert coverage.covers("ab<x>cd", {"<x>", "<x>c"})
    assert coverage.covers(b"ab<x>cd", {"<x>"})
    assert not coverage.covers("ab<x>cd", ())
    assert not coverage.covers("ab!<x>cd", {"<x>"})
