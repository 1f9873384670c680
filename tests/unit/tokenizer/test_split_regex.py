"""Patterns in another engine's spelling: rewritten only where they must, to the same splits."""

import itertools

import pytest
import regex
import tokenizers

from tokenmill import _core
from tokenmill.tokenizer.formats.split_regex import means_the_same_to_both, oniguruma_spelling


@pytest.mark.parametrize("name", sorted(_core.named_patterns()))
def test_named_patterns_stay_as_they_are(name: str) -> None:
    written = _core.named_patterns()[name]
    assert oniguruma_spelling(written) == (written, [])


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (r"\p{N}{1,3}+", r"(?>\p{N}{1,3})"),
        (r"a{2}+b{,3}+c{4,}+", r"(?>a{2})(?>b{,3})(?>c{4,})"),
        (r"[^\]a-z]{1,2}+x", r"(?>[^\]a-z]{1,2})x"),
        (r"[]a]{2}+|[^]a]{2}+", r"(?>[]a]{2})|(?>[^]a]{2})"),
        (r"[a[bc]]{2}+", r"(?>[a[bc]]{2})"),
        (r"(?:a|(b{2}+)){1,2}+", r"(?>(?:a|((?>b{2}))){1,2})"),
        (r"(?i:ab){2}+", r"(?>(?i:ab){2})"),
        (r"\{{2}+", r"(?>\{{2})"),
        (r"\\{2}+", r"(?>\\{2})"),
        (r"a++b?+c*+d+?e{2}?", r"a++b?+c*+d+?e{2}?"),
        (r"\s++$", r"\s++(?![\s\S])"),
        (r"^a|[$^]|\$", r"(?<![\s\S])a|[$^]|\$"),
        (r"(?<=a)b(?<!c)d(?=e)f(?!g)(?>h)(?P<n>i)(?<m>j)", None),
        (r"(?s:.)|(?s-i)\n.", r"(?m:.)|(?m-i)\n."),
        (r"(?m)^a$", r"^a$"),
        (r"(?m:^a$|(?-m:^b))^c", r"(?:^a$|(?:(?<![\s\S])b))(?<![\s\S])c"),
        (r"(?:(?m)$|b$)c$", r"(?:$|b$)c(?![\s\S])"),
        (r"(?x) a b", None),
        ("{", "{"),
        ("(", "("),
        ("[", "["),
        ("a)", "a)"),
        ("\\", "\\"),
    ],
)
def test_rewriting(written: str, expected: str | None) -> None:
    spelling = oniguruma_spelling(written)
    assert spelling.regex == (written if expected is None else expected)


@pytest.mark.parametrize(
    ("regex_of_theirs", "same"),
    [
        (r"(?>\p{N}{1,3})|\s++(?![\s\S])|(?i:'s)|\(?x|[$^]", True),
        (r"a$", False),
        (r"^a", False),
        (r"a{1,2}+", False),
        (r"(?m:.)", False),
        (r"(?x)a", False),
    ],
)
def test_what_may_be_taken_over(regex_of_theirs: str, same: bool) -> None:
    assert means_the_same_to_both(regex_of_theirs) is same


@pytest.mark.parametrize(
    ("written", "words"),
    [(r"\w+|\w", r"`\w`"), (r"\bx", r"`\b`"), (r"(?U)a+", "`U`")],
)
def test_notes(written: str, words: str) -> None:
    (note,) = oniguruma_spelling(written).notes
    assert words in note


def test_no_notes_for_case() -> None:
    assert oniguruma_spelling(r"(?i)ab|(?i:c)|(?-i:d)|(?P<name>e)|(?:f)").notes == []


@pytest.mark.parametrize(
    "written",
    [
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
        r"(?:a1){1,2}+|[a1]{3}+|^\s|\S|\s",
        r"a{1,2}+1?|\s+$|.|\n",
        r"(?s:a.)|(?m:^1$)|^1|\s+$|.|\n",
    ],
)
def test_hugging_face_splits_alike(written: str) -> None:
    split = tokenizers.pre_tokenizers.Split(
        tokenizers.Regex(oniguruma_spelling(written).regex), "isolated"
    )
    # A last newline may follow Python's `$`, in the engine of ours and tiktoken's it is the end of
    # the text.
    oracle = regex.compile(written.replace("+$", r"+\Z"))
    for length in range(1, 6):
        for letters in itertools.product("a1' \n", repeat=length):
            text = "".join(letters)
            expected = [match.group() for match in oracle.finditer(text)]
            assert [piece for piece, _ in split.pre_tokenize_str(text)] == expected, repr(text)
