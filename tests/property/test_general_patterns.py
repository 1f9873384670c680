"""Any regex that has no scanner of its own gives the matches of Python's `regex`, and the gaps between them.

Where the two engines read a regex differently, docs/pretokenizer.md says so; nothing else may differ.
"""

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import regex
from regex_oracle import ALL_CHARACTERS, as_bytes, as_text, matches_and_gaps

from tokenmill import _core
from tokenmill.errors import ConfigError

NAMED = _core.named_patterns()
DOCS = (Path(__file__).parents[2] / "docs" / "pretokenizer.md").read_text(encoding="utf-8")

PATTERNS = {
    **{f"wrapped {name}": f"(?:{spelling})" for name, spelling in NAMED.items()},
    "possessive gpt2": r"'(?:[sdmt]|ll|ve|re)| ?+\p{L}++| ?+\p{N}++| ?+[^\s\p{L}\p{N}]++|\s++(?!\S)|\s+",
    "words": r"\w+|[^\w\s]+|\s+",
    "bounded words": r"\b\w+\b|\S|\s+",
    "scripts": r"\p{Han}+|\p{Hiragana}+|\p{Katakana}+|\p{L}+|\p{N}|[^\p{L}\p{N}]+?(?=\p{L}|\p{N}|\s)|\s",
    "deepseek": r"\p{N}{1,3}|[一-龥぀-ゟ゠-ヿ]+|[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "tekken": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "starcoder": r"\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "digits from the right": r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))|\P{N}+",
    "gaps between letters": r"\p{L}+|\p{N}{2}",
    "gaps almost everywhere": r"(?<=\s)'s(?=\s)",
    "behind a space": r"(?<=\s)\S+|(?<!\S)\s|[^\S\n]+",
    "behind a word": r"(?<=\p{Ll})\p{Lu}\p{Ll}*|\p{L}+?(?=\p{Lu}|\P{L})|\P{L}",
    "lazy to the next space": r"(?s:.)+?(?=\s)|\s+",
    "atomic": r"(?>\p{L}+|\s)s|\p{L}|\s+",
    "twice the same": r"(\p{L})\1+|(?P<sign>')(?P=sign)|\s",
    "lines": r"(?m)^.+$|\n",
    "either case": r"(?i:bs?|straße|Ω|k)|\p{L}|\P{L}+",
}

SAME_CHARACTERS = [
    r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", r".", r"(?s:.)", r"\p{L}", r"\p{Lu}", r"\p{Lt}",
    r"\p{LC}", r"\p{M}", r"\p{N}", r"\p{P}", r"\p{S}", r"\p{Z}", r"\p{C}", r"\p{Co}", r"\P{L}",
    r"\p{^L}", r"\pN", r"\p{Alphabetic}", r"\p{Lowercase}", r"\p{White_Space}", r"\p{XID_Start}",
    r"\p{Emoji}", r"\p{Han}", r"\p{Script=Thai}", r"\p{scx=Han}", r"[^\s\p{L}\p{N}]",
    r"[\p{L}\p{M}]", r"(?i:k)", r"(?i:s)", r"(?i:ß)", r"(?i:Σ)", r"(?i:[å-ö])", r"[\u4e00-\u9fff]",
    r"[]a]", r"[\d\-x]", r"[[:digit:]]",
]  # fmt: skip

# (as docs/pretokenizer.md writes it, a pattern with it, a text)
DIFFERENT = [
    (r"$", r"a(?=b*$)|b", "aa\n"),
    (r"\Z", r"a\Z|b", "aa\n"),
    (r"\h", r"\h+|a", "aa \t"),
    (r"\N", r"\N{LATIN SMALL LETTER A}|b", "aabb"),
    (r"\<", r"\<a|b", "aabb"),
    (r"[[:alpha:]]", r"[[:alpha:]]+", "éé11"),
    (r"[[:punct:]]", r"[[:punct:]]+", "¡¡11"),
    (r"[a-z&&[^b]]", r"[a-z&&[^b]]", "aabb"),
    (r"[\w--\d]", r"[\w--\d]", "aa11"),
    (r"[a[bc]]", r"[a[bc]]", "aabb"),
    (r"(?i:i)", r"(?i:i)", "İİ"),
    (r"(?i:i)", r"(?i:[a-z])", "İİ"),
    (r"(?i:\p{Lu})", r"(?i:\p{Lu})", "ʛʛĸĸ"),
    (r"(?:ab){e<=1}", r"(?:ab){e<=1}", "abax"),
    (r"(.)\1", r"(.)\1", "\udcff\udcfe\udcff"),
    (r"\p{Cs}", r"\p{Cs}", "\udcff\udcff"),
    (r"\p{Cn}", r"\p{Cn}", "\udcff\udcff"),
    (r"\U0010FFFF", r"[^\U0010FFFF]", "\udcff\udcff"),
    (r"\X", r"\X", "aa"),
    (r"\m", r"\ma", "aa"),
    (r"(?|", r"(?|(a)|(b))", "aa"),
    (r"(?R)", r"a(?R)?b", "aabb"),
    (r"(?a)", r"(?a:\w)", "éé"),
    (r"\p{L&}", r"\p{L&}", "aa"),
    (r"\p{InBasic_Latin}", r"\p{InBasic_Latin}", "aa"),
]


def texts() -> Iterator[str]:
    """16,105 short strings, all there are over eleven characters, and 600 longer ones."""
    alphabet = "aBs1' \n!é文\udcff"
    for size in range(5):
        yield from map("".join, itertools.product(alphabet, repeat=size))
    rng = random.Random(3)
    wide = "abcstrvelSTß'’ \t\r\n\u00a0\u3000123²٣.,/!?_-éêΩσςKſǅ文字かカ\u0301\u200d😀\udcff\udc80\udced"
    for index in range(600):
        size = 2_000 if index % 100 == 0 else rng.randint(5, 60)
        # There and back, because invalid bytes side by side can make a valid character.
        yield as_text(as_bytes("".join(rng.choices(wide, k=size))))


@pytest.mark.parametrize("name", PATTERNS)
def test_general_engine_gives_matches_and_gaps(name: str) -> None:
    splitter = _core.Splitter(PATTERNS[name])
    assert splitter.name is None
    oracle = regex.compile(PATTERNS[name])
    number = 0
    for text in texts():
        assert splitter.split(as_bytes(text)) == matches_and_gaps(oracle, text), text
        number += 1
    assert number == sum(11**size for size in range(5)) + 600


@pytest.mark.parametrize("question", SAME_CHARACTERS)
def test_same_characters(question: str) -> None:
    """Runs over all characters, and one by one over the first twelve thousand."""
    everything = ALL_CHARACTERS[:0xD800] + ALL_CHARACTERS[0xE000:]
    for pattern, text in (
        (f"(?:{question})+", everything),
        (f"(?:{question})", everything[:0x3000]),
    ):
        expected = matches_and_gaps(regex.compile(pattern), text)
        assert _core.Splitter(pattern).split(text) == expected


@pytest.mark.filterwarnings("ignore:Possible:FutureWarning")  # `regex` on nested sets
@pytest.mark.parametrize(("construct", "pattern", "text"), DIFFERENT, ids=range(len(DIFFERENT)))
def test_every_difference_is_documented(construct: str, pattern: str, text: str) -> None:
    """A difference may go away; one that nobody wrote down may not stay."""
    try:
        ours = _core.Splitter(pattern).split(as_bytes(text))
    except ConfigError:
        ours = None
    same = ours == matches_and_gaps(regex.compile(pattern), text)
    assert same or f"`{construct}`" in DOCS, ours


PARTS = [
    r"a", r"b", r"B", r"é", r"文", r"\s", r"\S", r"\w", r"\W", r"\d", r"\p{L}", r"\p{Lu}",
    r"\p{Ll}", r"\p{N}", r"\p{M}", r"\P{L}", r"[^\s\p{L}]", r"[ab]", r"[^a]", r"[\r\n]", r" ",
    r"'", r"\p{Han}", r".", r"(?s:.)",
]  # fmt: skip
REPEATS = [
    "+", "*", "?", "{2}", "{1,2}", "{2,}", "+?", "*?", "??", "{1,3}?", "++", "*+", "?+",
    "{1,2}+",
]  # fmt: skip
PLACES = [
    r"\b", r"\B", r"^", r"(?m:^)", r"(?m:$)", r"(?<=a)", r"(?<!\s)", r"(?<=\p{L})",
    r"(?<![ab])",
]  # fmt: skip


class RandomRegex:
    """Regexes made of what both engines read alike, by a fixed sequence of random choices."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def make(self, depth: int) -> str:
        rng = self.rng
        kind = rng.random() if depth > 0 else 0.0
        if kind < 0.35:
            return rng.choice(PARTS)
        if kind < 0.60:
            return self.make(depth - 1) + self.make(depth - 1)
        if kind < 0.75:
            return f"(?:{self.make(depth - 1)}|{self.make(depth - 1)})"
        if kind < 0.90:
            return f"(?:{self.make(depth - 1)}){rng.choice(REPEATS)}"
        if kind < 0.97:
            return f"{rng.choice(['(?=', '(?!', '(?>'])}{self.make(depth - 2)})"
        return rng.choice(PLACES)

    def pattern(self) -> str:
        return "|".join(self.make(3) for _ in range(self.rng.randint(1, 4)))

    def text(self) -> str:
        characters = "abAB é文1' \n\r\t\u0301.ǅ²_\udc80"
        return "".join(self.rng.choices(characters, k=self.rng.randint(0, 14)))


def test_random_regexes() -> None:
    """At least 1,500 regexes, ten texts each; those that can match the empty string are refused or left out."""
    made = RandomRegex(seed=1)
    compared = 0
    while compared < 1_500:
        pattern = made.pattern()
        try:
            splitter = _core.Splitter(pattern)
        except ConfigError:
            continue
        oracle = regex.compile(pattern)
        some = [made.text() for _ in range(10)]
        if any(not match.group() for text in some for match in oracle.finditer(text)):
            continue
        for text in some:
            assert splitter.split(as_bytes(text)) == matches_and_gaps(oracle, text), (pattern, text)
        compared += 1


def test_invalid_bytes_keep_their_places() -> None:
    """Positions are mapped back from a text in which every invalid byte has become one character."""
    rng = random.Random(9)
    parts = [b"a", "é".encode(), "文".encode(), b"1", b"\xe6\x96", b"\xff", b"\xf0\x9f"]
    splitter, oracle = _core.Splitter(r"\p{L}+|\p{N}"), regex.compile(r"\p{L}+|\p{N}")
    for _ in range(5_000):
        data = b"".join(rng.choices(parts, k=12))
        assert splitter.split(data) == matches_and_gaps(oracle, as_text(data)), data
