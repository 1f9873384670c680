"""Which kind of tokenizer a path holds, by what is in it."""

import base64
from pathlib import Path

import pytest

from tokenmill.errors import ConfigError, FormatError
from tokenmill.tokenizer.artifact import read_tokenizer
from tokenmill.tokenizer.formats import gpt2_files, huggingface_json
from tokenmill.tokenizer.formats.detect import detect
from tokenmill.tokenizer.vocab import Vocab, vocab_from_bytes

RANKS = b"".join(base64.b64encode(bytes([byte])) + b" %d\n" % byte for byte in range(256))


def example() -> Vocab:
    vocab = {byte: bytes([byte]) for byte in range(256)} | {256: b"th"}
    return vocab_from_bytes(vocab, [(b"t", b"h")], [], "gpt2")


def test_files(tmp_path: Path) -> None:
    pair = gpt2_files.write(example())
    files = {
        "tokenizer.json": (huggingface_json.write(example()), "huggingface"),
        "other.json": (huggingface_json.write(example()), "huggingface"),
        "broken.json": (b"[", "huggingface"),
        "vocab.json": (pair["vocab.json"], "gpt2"),
        "merges.txt": (pair["merges.txt"], "gpt2"),
        "x.tiktoken": (RANKS, "ranks"),
        "empty.tiktoken": (b"", "ranks"),
        "tokenizer.model": (RANKS, "ranks"),
        "9b5ad71b2ce5302211f9c61530b329a4922fc6a4": (RANKS, "ranks"),
        "course.json": (b'{"vocab": {"0": "AA=="}, "merges": []}', "course"),
        "model.pkl": (b"\x80\x04.", "course"),
    }
    for name, (data, _) in files.items():
        (tmp_path / name).write_bytes(data)
    for name, (_, kind) in files.items():
        assert detect(tmp_path / name).kind == kind, name
    assert detect(tmp_path / "merges.txt").file.name == "vocab.json"


def test_folders(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"has no `tokenizer\.json`, found nothing"):
        detect(tmp_path)
    (tmp_path / "readme.txt").write_text("x")
    with pytest.raises(FormatError, match=r"found `readme\.txt`"):
        detect(tmp_path)
    (tmp_path / "a.tiktoken").write_bytes(RANKS)
    assert detect(tmp_path) == ("ranks", tmp_path / "a.tiktoken")
    (tmp_path / "b.tiktoken").write_bytes(RANKS)
    with pytest.raises(FormatError, match=r"several files to choose from: `a.tiktoken`, `b.tik"):
        detect(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes(huggingface_json.write(example()))
    assert detect(tmp_path) == ("huggingface", tmp_path / "tokenizer.json")


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("readme.txt", b"hello", "is no tokenizer file that is known here"),
        ("empty.bin", b"", "is no tokenizer file that is known here"),
        ("x.gguf", b"GGUF\x03", "is a GGUF file, which tokenmill writes but does not read"),
        ("spm.model", b"\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02", "is a SentencePiece model"),
        ("nano.pkl", b"\x80\x04\x95", "pickle"),
    ],
)
def test_what_is_refused(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(FormatError, match=message) as caught:
        read_tokenizer(tmp_path / name)
    assert name in caught.value.message


def test_what_is_not_there(tmp_path: Path) -> None:
    for name in ("nowhere", "nowhere/tokenizer.json", "merges.txt"):
        with pytest.raises(FormatError, match="does not exist"):
            read_tokenizer(tmp_path / name)


def test_settings_are_for_files_that_do_not_say_it(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_bytes(huggingface_json.write(example()))
    assert read_tokenizer(file) == example()
    with pytest.raises(ConfigError, match="says itself what its pattern is"):
        read_tokenizer(file, pattern="gpt4")
    with pytest.raises(ConfigError, match="says itself what its special tokens"):
        read_tokenizer(tmp_path, special_tokens=["<s>"])
