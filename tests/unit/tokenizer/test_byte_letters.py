"""Bytes as letters and back."""

import pytest
import tokenizers

from tokenmill.tokenizer.formats.byte_letters import all_to_letters, from_letters, to_letters


def test_alphabet_is_hugging_faces() -> None:
    letters = [to_letters(bytes([byte])) for byte in range(256)]
    assert sorted(letters) == sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    assert (to_letters(b" "), to_letters(b"\n"), to_letters(b"\xad"), to_letters(b"a")) == (
        "Ġ",
        "Ċ",
        "Ń",
        "a",
    )


def test_round_trip() -> None:
    everything = bytes(range(256))
    assert from_letters(to_letters(everything)) == everything
    assert len(to_letters(everything)) == 256


def test_all_at_once() -> None:
    tokens = [b" the\n", b"", bytes(range(256)), b"a"]
    assert all_to_letters(tokens) == [to_letters(token) for token in tokens]
    assert all_to_letters([]) == []


@pytest.mark.parametrize("letters", ["a b", "日", "a\u0144", "\ud800", "\u00ad", "\x7f", "a\n"])
def test_characters_that_stand_for_no_byte(letters: str) -> None:
    with pytest.raises(ValueError, match="stands for no byte"):
        from_letters(letters)
