"""Splitter: which pattern it runs, how special tokens are cut out, what it refuses."""

import random

import pytest

from tokenmill import _core, reference
from tokenmill.errors import ConfigError, SourceError

NAMED = _core.named_patterns()


def test_the_named_patterns() -> None:
    assert sorted(NAMED) == ["cl100k", "gpt2", "gpt4", "gpt4o", "llama3", "nanochat", "qwen2"]
    assert _core.UNICODE_VERSION == "16.0.0"


@pytest.mark.parametrize("name", NAMED)
def test_a_name_stands_for_its_regex(name: str) -> None:
    splitter = _core.Splitter(name)
    assert (splitter.name, splitter.regex, splitter.special_tokens) == (name, NAMED[name], [])


@pytest.mark.parametrize("name", sorted(set(NAMED) - {"llama3"}))
def test_a_regex_that_has_a_name_gets_it(name: str) -> None:
    assert _core.Splitter(NAMED[name]).name == name


def test_llama3_is_gpt4_by_another_name() -> None:
    assert NAMED["llama3"] == NAMED["gpt4"]
    assert _core.Splitter(NAMED["llama3"]).name == "gpt4"


def test_any_other_regex_runs_in_the_general_engine() -> None:
    splitter = _core.Splitter(r"\w+")
    assert (splitter.name, splitter.regex) == (None, r"\w+")
    assert splitter.split("to be, or") == [b"to", b" ", b"be", b", ", b"or"]


@pytest.mark.parametrize(
    ("name", "pretokens"),
    [
        ("gpt2", ["I", "'ll", " pay", " 12345", " EUR", " ", " don", "'t", " DON", "'", "T", "?\n".strip(), "\n"]),
        ("gpt4", ["I", "'ll", " pay", " ", "123", "45", " EUR", " ", " don", "'t", " DON", "'T", "?\n"]),
        ("gpt4o", ["I'll", " pay", " ", "123", "45", " EUR", " ", " don't", " DON'T", "?\n"]),
        ("nanochat", ["I", "'ll", " pay", " ", "12", "34", "5", " EUR", " ", " don", "'t", " DON", "'T", "?\n"]),
        ("qwen2", ["I", "'ll", " pay", " ", *"12345", " EUR", " ", " don", "'t", " DON", "'T", "?\n"]),
    ],
)  # fmt: skip
def test_a_sentence(name: str, pretokens: list[str]) -> None:
    text = "I'll pay 12345 EUR  don't DON'T?\n"
    assert _core.Splitter(name).split(text) == [pretoken.encode() for pretoken in pretokens]


def test_text_and_its_bytes_are_the_same() -> None:
    text = "größer 日本語 😀\n"
    for name in NAMED:
        splitter = _core.Splitter(name)
        assert splitter.split(text) == splitter.split(text.encode())
        assert splitter.split("") == splitter.split(b"") == []


def test_the_longest_special_token_wins() -> None:
    splitter = _core.Splitter("gpt2", ["<s>", "<s><s>", "a<s>"])
    assert splitter.special_tokens == ["<s>", "<s><s>", "a<s>"]
    assert splitter.split("x<s><s><s>a<s>y") == [b"x", b"y"]


def test_pretokens_end_at_special_tokens() -> None:
    """As at the end of a text: the spaces before one are not kept apart."""
    splitter = _core.Splitter("gpt4", ["<s>"])
    assert splitter.split("one  <s>  two") == [b"one", b"  ", b" ", b" two"]
    assert splitter.split("one'<s>s") == [b"one", b"'", b"s"]


@pytest.mark.parametrize("pattern", [*NAMED, r"\p{L}+|(?<=\s)\S|\s+$"])
def test_special_tokens_are_cut_out_as_the_reference_does(pattern: str) -> None:
    rng = random.Random(1)
    sets = [
        ["<s>"],
        ["<s>", "<s><s>", "s>"],
        ["aa", "aba", "ab"],
        ["é", "日本", "\n\n"],
        [" ", "  "],
    ]
    for _ in range(400):
        specials = rng.choice(sets)
        splitter, plain = _core.Splitter(pattern, specials), _core.Splitter(pattern)
        parts = ["<", "s", ">", "a", "b", " ", "\n", "é", "日", "本", *specials, *specials]
        text = "".join(rng.choices(parts, k=rng.randint(0, 25))).encode()
        expected: list[bytes] = []
        for stretch, is_special in reference.cut_at_special(text, specials):
            expected += [] if is_special else plain.split(stretch)
        assert splitter.split(text) == expected, (text, specials)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "pattern `\\(` is neither a named pattern nor a regex"),
        (r"\p{Nonsense}", "is neither a named pattern nor a regex"),
        ("a*", "pattern `a\\*` matches the empty string"),
        ("", "pattern `` matches the empty string"),
        ("a|b?", "matches the empty string"),
    ],
)
def test_patterns_that_are_refused(pattern: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        _core.Splitter(pattern)


def test_an_empty_match_found_late_names_its_place() -> None:
    with pytest.raises(ConfigError, match="matches the empty string at byte 5"):
        _core.Splitter(r"(?=b)|é").split("éaéb")


def test_an_exploding_regex_gives_up() -> None:
    with pytest.raises(SourceError, match="the split pattern gave up at byte 2"):
        _core.Splitter(r"(?:a|a)+(?<!a)|\s").split("\n\n" + "a" * 40)


@pytest.mark.parametrize(
    ("special_tokens", "message"),
    [
        (["<s>", "<s>"], "special token `<s>` is given twice"),
        (["<s>", ""], "special token 1 is empty"),
    ],
)
def test_special_tokens_that_are_refused(special_tokens: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        _core.Splitter("gpt2", special_tokens)


@pytest.mark.parametrize("text", [None, 3, bytearray(b"a"), ["a"]])
def test_only_text_is_split(text: object) -> None:
    with pytest.raises(TypeError, match="expected text as `str` or `bytes`"):
        _core.Splitter("gpt2").split(text)  # pyright: ignore[reportArgumentType]
