"""Patterns in another engine's spelling: rewritten only where they must, to the same splits."""

import itertools

import pytest
import regex
import tiktoken
import tokenizers

from tokenmill import _core
from tokenmill.tokenizer.formats.split_regex import (
    from_oniguruma,
    from_tiktoken,
    oniguruma_spelling,
    tiktoken_spelling,
)


@pytest.mark.parametrize("name", sorted(_core.named_patterns().keys() - {"cl100k"}))
def test_named_patterns_stay_as_they_are(name: str) -> None:
    written = _core.named_patterns()[name]
    assert oniguruma_spelling(written) == (written, [])
    assert from_oniguruma(written) == written
    assert from_tiktoken(written) == tiktoken_spelling(written) == written


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (r"\p{N}{1,3}+", r"(?>\p{N}{1,3})"),
        (r"a{2}+b{,3}+c{4,}+", r"(?>a{2})(?>b{,3})(?>c{4,})"),
        (r"[^\]a-z]{1,2}+x", r"(?>[^\]a-z]{1,2})x"),
        (r"[]a]{2}+|[^]a]{2}+", r"(?>[\]a]{2})|(?>[^\]a]{2})"),
        (r"[a[bc]]{2}+", r"[a\[bc](?>]{2})"),
        (r"[a&&b~~c&d]", r"[a\&\&b\~\~c&d]"),
        (r"[[:alpha:][:digit:]_\h]\h", r"[\p{Alphabetic}0-9_\t\p{Zs}][\t\p{Zs}]"),
        (r"(?:a|(b{2}+)){1,2}+", r"(?>(?:a|((?>b{2}))){1,2})"),
        (r"(?i:ab){2}+", r"(?>(?i:ab){2})"),
        (r"\{{2}+", r"(?>\{{2})"),
        (r"\\{2}+", r"(?>\\{2})"),
        (r"a++b?+c*+d+?e{2}?", r"a++b?+c*+d+?e{2}?"),
        (r"\s++$", r"\s++(?=\n?(?![\s\S]))"),
        (r"\s++\Z|\<\z", r"\s++(?![\s\S])|<\z"),
        (r"^a|[$^]|\$", r"(?<![\s\S])a|[$^]|\$"),
        (r"(?<=a)b(?<!c)d(?=e)f(?!g)(?>h)(?P<n>i)(?<m>j)", None),
        (r"(?s:.)|(?s-i)\n.", r"(?m:.)|(?m-i)\n."),
        (r"(?m)^a$", r"(?<![^\n])a(?![^\n])"),
        (
            r"(?m:^a$|(?-m:^b))^c",
            r"(?:(?<![^\n])a(?![^\n])|(?:(?<![\s\S])b))(?<![\s\S])c",
        ),
        (r"(?:(?m)$|b$)c\Z", r"(?:(?![^\n])|b(?![^\n]))c(?![\s\S])"),
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
    ("theirs", "ours"),
    [
        (r"(?>\p{N}{1,3})|\s++(?![\s\S])|(?i:'s)|\(?x|[$^]", "the same"),
        (
            r"[\p{L}&&[^\p{Han}]]+|[a-z&&[\p{L}x]]",
            r"(?:(?![\p{Han}])[\p{L}])+|(?:(?=[\p{L}x])[a-z])",
        ),
        (r"a$", None),
        (r"^a", None),
        (r"a\Z", None),
        (r"\h", None),
        (r"a{1,2}+", None),
        (r"(?m:.)", None),
        (r"(?x)a", None),
        (r"[a[b]]", None),
        (r"[a&&b]", None),
    ],
)
def test_from_hugging_face(theirs: str, ours: str | None) -> None:
    assert from_oniguruma(theirs) == (theirs if ours == "the same" else ours)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (r"\p{N}{1,3}+|\s++$|^a|\b", r"\p{N}{1,3}+|\s++\Z|^a|\b"),
        (r"a\z|b\Z|\h[\]x]", r"a\Z|b(?=\n*\Z)|[0-9A-Fa-f][\]x]"),
        (r"(?m)a$", r"(?m)a$"),
        (r"[\p{Lu}\p{M}&&[^\p{Han}]]*", r"(?:(?![\p{Han}])[\p{Lu}\p{M}])*"),
        (r"[a[b]]", None),
        (r"[a&&b]", None),
        (r"\<a", None),
    ],
)
def test_from_tiktoken(theirs: str, ours: str | None) -> None:
    assert from_tiktoken(theirs) == ours


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
        r"a$|1\Z|a\n|1\n|.|\n",
        r"[a[]1|[[:digit:]&&]+|\h+|.|\n",
    ],
)
def test_other_engines_split_alike(written: str) -> None:
    split = tokenizers.pre_tokenizers.Split(
        tokenizers.Regex(oniguruma_spelling(written).regex), "isolated"
    )
    texts = ["".join(t) for n in range(1, 6) for t in itertools.product("a1' \n", repeat=n)]
    # With every text a token, tiktoken's tokens are its pretokens.
    tokens = [*(bytes([byte]) for byte in range(256)), *(t.encode() for t in texts if len(t) > 1)]
    encoding = tiktoken.Encoding(
        "every text",
        pat_str=tiktoken_spelling(written),
        mergeable_ranks={token: rank for rank, token in enumerate(tokens)},
        special_tokens={},
    )
    ours = _core.Splitter(written)
    oracle = regex.compile(written)
    for text in texts:
        expected = [match.group() for match in oracle.finditer(text)]
        assert [piece.decode() for piece in ours.split(text)] == expected, repr(text)
        assert [piece for piece, _ in split.pre_tokenize_str(text)] == expected, repr(text)
        theirs = encoding.decode_tokens_bytes(encoding.encode_ordinary(text))
        assert [piece.decode() for piece in theirs] == expected, repr(text)


@pytest.mark.parametrize(
    "theirs", [r"a$|a\n|.|\n", r"a\z|1\Z|1\n|.|\n", r"[a1 &&[^1]]+|\h|.|\n", r"(?m)^a$|.|\n"]
)
def test_regexes_of_tiktoken_split_alike(theirs: str) -> None:
    ours = from_tiktoken(theirs)
    assert ours is not None
    texts = ["".join(t) for n in range(1, 6) for t in itertools.product("a1 \n", repeat=n)]
    tokens = [*(bytes([byte]) for byte in range(256)), *(t.encode() for t in texts if len(t) > 1)]
    ranks = {token: rank for rank, token in enumerate(tokens)}
    encoding = tiktoken.Encoding("x", pat_str=theirs, mergeable_ranks=ranks, special_tokens={})
    splitter = _core.Splitter(ours)
    for text in texts:
        expected = encoding.decode_tokens_bytes(encoding.encode_ordinary(text))
        assert splitter.split(text) == expected, repr(text)
