"""vocab.json and merges.txt."""

from pathlib import Path
from typing import Any

import pytest
import tokenizers

from tokenmill.errors import FormatError
from tokenmill.tokenizer.artifact import read_tokenizer
from tokenmill.tokenizer.formats import gpt2_files
from tokenmill.tokenizer.vocab import Vocab, vocab_from_bytes, vocab_from_ids

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


@pytest.mark.parametrize("header", ["#version: 0.2\n", ""])
@pytest.mark.parametrize("special_tokens", [None, ["<s>", "日 本"], {"日 本": 262, "<s>": 261}])
def test_read_at_once_or_token_by_token(
    header: str, special_tokens: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = BYTES | {256: b'"\\', 257: b'\\"\\', 258: b"\n\n", 259: b" \xe6", 260: b"\x00\t"}
    merges = [
        (b'"', b"\\"),
        (b"\\", b'"\\'),
        (b"\n", b"\n"),
        (b" ", b"\xe6"),
        (b"\x00", b"\t"),
    ]
    vocab = vocab_from_bytes(tokens, merges, ["<s>", "日 本"], "gpt2")
    files = gpt2_files.write(vocab)
    (tmp_path / "vocab.json").write_bytes(files["vocab.json"])
    lines = files["merges.txt"].decode().partition("\n")[2]
    (tmp_path / "merges.txt").write_text(header + lines, encoding="utf-8")
    found = gpt2_files.read(tmp_path / "vocab.json", special_tokens=special_tokens)
    monkeypatch.setattr(gpt2_files, "_read_at_once", lambda *_: None)
    slowly = gpt2_files.read(tmp_path / "vocab.json", special_tokens=special_tokens)
    assert found == slowly == vocab


def test_what_the_files_do_not_say_is_added_or_refused(tmp_path: Path) -> None:
    for name, data in gpt2_files.write(example()).items():
        (tmp_path / name).write_bytes(data)
    file = tmp_path / "vocab.json"
    read = gpt2_files.read(file, special_tokens=["<s>", "<t>"])
    assert read.special_tokens == {"<s>": 259, "<t>": 260}
    for wrong, message in [("<s>", "the one string"), (["<s>", "<s>"], "given twice")]:
        with pytest.raises(FormatError, match=message):
            gpt2_files.read(file, special_tokens=wrong)


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


def test_windows_line_ends_and_a_byte_order_mark() -> None:
    data = "\ufeff#version: 0.2\r\na b\r\nĠ c\r\n".encode()
    assert gpt2_files.read_merges(data) == [(b"a", b"b"), (b" ", b"c")]


def written(
    folder: Path, vocab: Vocab, names: tuple[str, str] = ("vocab.json", "merges.txt")
) -> Path:
    for name, data in zip(names, gpt2_files.write(vocab).values(), strict=True):
        (folder / name).write_bytes(data)
    return folder / names[0]


@pytest.mark.parametrize(
    "names",
    [
        ("vocab.json", "merges.txt"),
        ("my-vocab.json", "my-merges.txt"),
        ("encoder.json", "vocab.bpe"),
    ],
)
def test_reading_the_pair(tmp_path: Path, names: tuple[str, str]) -> None:
    written(tmp_path, example(), names)
    for path in (tmp_path, tmp_path / names[0], tmp_path / names[1]):
        read = read_tokenizer(path)
        assert read == example(), "a key that no merge makes is special"
    assert read_tokenizer(tmp_path, pattern="gpt4").pattern == "gpt4"
    ordinary = read_tokenizer(tmp_path, special_tokens=[])
    assert ordinary.special_tokens == {}
    assert ordinary.proof.unreachable == (259,)
    more = read_tokenizer(tmp_path, special_tokens=["<s>", "日本"])
    assert more.special_tokens == {"<s>": 259, "日本": 260}


def test_reading_a_pair_that_does_not_fit(tmp_path: Path) -> None:
    vocab_file = written(tmp_path, example())
    merges_file = tmp_path / "merges.txt"
    good = merges_file.read_text()
    for lines, message in (
        (good + "x y\n", r"merges.txt` line 5 joins `x` and `y`, but `xy` is not in the vocab"),
        (
            good + "# Ġ\n",
            r"merges.txt` line 5 joins `#` and ` `, as `.*merges.txt` line 2 does already",
        ),
        (good.replace("Ġ æ", "Ġ 日"), "merges.txt` line 4 is not byte-level"),
        (
            good.replace("Ġ æ\n", ""),
            r"vocab.json` has 'Ġæ', which no merge of `.*` makes\nhint: was",
        ),
    ):
        merges_file.write_text(lines)
        with pytest.raises(FormatError, match=message):
            read_tokenizer(vocab_file)
    merges_file.unlink()
    with pytest.raises(FormatError, match=r"merges.txt` does not exist"):
        read_tokenizer(vocab_file)


@pytest.mark.parametrize(
    ("vocab", "message"),
    [
        ('{"a": 0, "b": 0}', "id 0 is given to `b` and to another token"),
        ('{"a": 0, "a": 1}', "key `a` stands twice"),
        ('{"a": 0, "日": 1}', "has no token for byte 0x00 and 254 more"),
        ('{"a": 0, "ab": 1}', "has 'ab', which no merge of"),
        ('{"a": 0, "\\ud800": 1}', "is not byte-level"),
        ('{"a": 0, "<\\ud800>": 1}', "is not byte-level"),
        ('{"a": 0}', "has no token for byte 0x00 and 254 more"),
        ('{"a": -1}', "has id -1"),
        ('{"a": 99999999999}', "up to id 99999999999, but no id 0"),
    ],
)
def test_hostile_vocabs(tmp_path: Path, vocab: str, message: str) -> None:
    (tmp_path / "vocab.json").write_text(vocab)
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    with pytest.raises(FormatError, match=message) as caught:
        read_tokenizer(tmp_path)
    assert "vocab.json`" in caught.value.message


def test_notes_about_what_they_cannot_say() -> None:
    tokens = [*BYTES.values(), b"the"]
    vocab = vocab_from_ids(tokens, [], {}, "gpt2", ignore_merges=True)
    (note,) = gpt2_files.notes(vocab)
    assert "cannot say `ignore_merges`, and no merges lead to `the`" in note


def test_broken_vocab() -> None:
    with pytest.raises(FormatError, match="the id of `a` is `1`, not a whole number"):
        gpt2_files.read_vocab(b'{"a": "1"}')
