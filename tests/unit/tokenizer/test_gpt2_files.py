"""vocab.json and merges.txt."""

from pathlib import Path

import pytest
import tokenizers

from tokenmill.errors import FormatError
from tokenmill.tokenizer.formats import gpt2_files
from tokenmill.tokenizer.vocab import Vocab, vocab_from_bytes

BYTES = {byte: bytes([byte]) for byte in range(256)}


def example() -> Vocab:
    vocab = BYTES | {256: b"# ", 257: b"\n\n", 258: b" \xe6"}
    merges = [(b"#", b" "), (b"\n", b"\n"), (b" ", b"\xe6")]
    return vocab_from_bytes(vocab, merges, ["<s>"], "gpt2")


def test_files_say_what_the_vocab_says(tmp_path: Path) -> None:
    files = gpt2_files.write(example())
    assert gpt2_files.read_vocab(files["vocab.json"])["<s>"] == 259
    assert gpt2_files.read_merges(files["merges.txt"]) == example().merges_as_bytes()
    assert files["merges.txt"].decode() == "#version: 0.2\n# Ġ\nĊ Ċ\nĠ æ\n"
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    theirs = tokenizers.models.BPE.from_file(
        str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt")
    )
    assert [token.id for token in theirs.tokenize("#ĠĊĊĊ")] == [256, 257, 10]
    assert gpt2_files.notes(example()) == []


def test_a_merge_that_looks_like_the_header_is_noted() -> None:
    parts = [b"#" + b"version"[:length] for length in range(1, 8)]
    merges = [(part[:-1], part[-1:]) for part in parts] + [(b"#version", b"s")]
    tokens = [left + right for left, right in merges]
    vocab = BYTES | {256 + i: token for i, token in enumerate(tokens)}
    (note,) = gpt2_files.notes(vocab_from_bytes(vocab, merges, [], "gpt4"))
    assert "the merge `#version s` starts like the header" in note


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"#version: 0.2\na b\na\n", "`merges.txt` line 3 is `a`, not two tokens"),
        (b"#version: 0.2\n\na b\n", "`merges.txt` line 2 is ``, not two tokens"),
        (b"a b c\n", "`merges.txt` line 1 is `a b c`"),
        ("#version: 0.2\na 日\n".encode(), "`merges.txt` line 2 is not byte-level"),
        (b"\xff", "is not UTF-8: bad byte at 0"),
    ],
)
def test_broken_merges(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        gpt2_files.read_merges(data)


def test_merges_without_header_or_last_newline() -> None:
    assert gpt2_files.read_merges(b"a b\nc d") == [(b"a", b"b"), (b"c", b"d")]


def test_broken_vocab() -> None:
    with pytest.raises(FormatError, match="the id of `a` is `1`, not a whole number"):
        gpt2_files.read_vocab(b'{"a": "1"}')
