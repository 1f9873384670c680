"""Words are what `str.split` finds where there are spaces, and characters where there are none."""

import sysconfig
from collections import Counter
from pathlib import Path

import pytest

import tokenmill as tm
from tokenmill.report.words import bare_word, count_kept_whole, find_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        (" \n\t ", []),
        ("one  two\nthree ", ["one", " two", "three"]),
        ("l'homme, 2024!", ["l'homme,", " 2024!"]),
        ("नमस्ते दुनिया", ["नमस्ते", " दुनिया"]),
        ("한국어 문장", ["한국어", " 문장"]),
        ("日本語。", ["日", "本", "語。"]),
        ("「東京」タワー", ["「東", "京」", "タ", "ワ", "ー"]),
        ("ok 漢字ok", ["ok", " 漢", "字", "ok"]),
        ("ที่นี่", ["ที่", "นี่"]),
        ("a\u3000b", ["a", "b"]),
        ("𠜎𠜱", ["𠜎", "𠜱"]),
        ("-- … ☕", ["--", " …", " ☕"]),
    ],
)
def test_words(text: str, words: list[str]) -> None:
    assert find_words(text) == words


def test_spaced_text_has_the_words_of_split() -> None:
    library = Path(sysconfig.get_path("stdlib"))
    for name in ("this.py", "textwrap.py", "typing.py"):
        text = (library / name).read_text(encoding="utf-8")
        assert [word.removeprefix(" ") for word in find_words(text)] == text.split()


def test_a_long_run_of_punctuation_takes_linear_time() -> None:
    assert find_words("漢" + "-" * 300_000 + "x") == ["漢" + "-" * 300_000, "x"]


@pytest.mark.parametrize(
    ("word", "bare"),
    [
        ("word", "word"),
        (" word", " word"),
        (" word,", " word"),
        (' "word"', "word"),
        ("don't", "don't"),
        (" --", " --"),
        ("語。", "語"),
        (" दुनिया।", " दुनिया"),
        ("…", "…"),
    ],
)
def test_bare_words(word: str, bare: str) -> None:
    assert bare_word(word) == bare


def test_words_kept_whole() -> None:
    vocab = {byte: bytes([byte]) for byte in range(256)} | {256: b" a", 257: b"lo"}
    merges = [(b" ", b"a"), (b"l", b"o")]
    tokenizer = tm.Tokenizer.from_vocab(vocab, merges, ["zzz"], "gpt2")
    words = Counter({" a": 5, "lo,": 3, " lo": 2, "b": 1, "zzz": 7})
    # ` a`, `lo` and `b`; ` lo` is two tokens, and a special token in a text is text.
    assert count_kept_whole(tokenizer, words, 1) == 9
    assert count_kept_whole(tokenizer, Counter(), 1) == 0
