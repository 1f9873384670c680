"""The .gguf file: read by the gguf package, named as llama.cpp names patterns, refused where it has no name."""

import dataclasses
from pathlib import Path
from typing import Any

import gguf as their_gguf
import pytest

from tokenmill.errors import FormatError
from tokenmill.tokenizer.formats import gguf
from tokenmill.tokenizer.formats.byte_letters import to_letters
from tokenmill.tokenizer.vocab import Extras, Vocab, vocab_from_bytes

BYTES = {byte: bytes([byte]) for byte in range(256)}


def example(
    pattern: str = "gpt4",
    special_tokens: list[str] | dict[str, int] | None = None,
    *,
    reachable: bool = True,
    ignore_merges: bool = False,
) -> Vocab:
    pairs = [(b"a", b"b"), (b"b", b"c"), (b"ab", b"c") if reachable else (b"a", b"bc")]
    tokens = BYTES | {256: b"ab", 257: b"bc", 258: b"abc"}
    specials = ["<|endoftext|>"] if special_tokens is None else special_tokens
    return vocab_from_bytes(tokens, pairs, specials, pattern, ignore_merges=ignore_merges)


def read_by_gguf(vocab: Vocab, folder: Path) -> dict[str, Any]:
    path = folder / "x.gguf"
    path.write_bytes(gguf.write(vocab))
    reader = their_gguf.GGUFReader(path)
    assert list(reader.tensors) == []
    return {key: field.contents() for key, field in reader.fields.items()}


def test_their_reader_finds_every_key(tmp_path: Path) -> None:
    extras = Extras(chat_template="{{ x }}", not_special=frozenset({"<tool>"}))
    vocab = dataclasses.replace(example(special_tokens=["<|endoftext|>", "<tool>"]), extras=extras)
    found = read_by_gguf(vocab, tmp_path)
    assert found["GGUF.version"] == 3
    assert found["GGUF.tensor_count"] == 0
    assert found["general.architecture"] == "llama"
    assert found["tokenizer.ggml.model"] == "gpt2"
    assert found["tokenizer.ggml.tokens"] == [
        *(to_letters(bytes([byte])) for byte in range(256)),
        *("ab", "bc", "abc", "<|endoftext|>", "<tool>"),
    ]
    normal, control = their_gguf.TokenType.NORMAL, their_gguf.TokenType.CONTROL
    kinds = [*[normal] * 259, control, their_gguf.TokenType.USER_DEFINED]
    assert found["tokenizer.ggml.token_type"] == kinds
    assert found["tokenizer.ggml.merges"] == ["a b", "b c", "ab c"]
    assert found["tokenizer.ggml.eos_token_id"] == 259
    assert "tokenizer.ggml.bos_token_id" not in found
    assert found["tokenizer.ggml.add_bos_token"] is False
    assert found["tokenizer.chat_template"] == "{{ x }}"
    assert '"BPE"' in found["tokenizer.huggingface.json"]


def test_ids_without_a_token_are_unused(tmp_path: Path) -> None:
    vocab = example(special_tokens={"<|endoftext|>": 259, "<|late|>": 263})
    found = read_by_gguf(vocab, tmp_path)
    assert found["tokenizer.ggml.tokens"][260:263] == ["[PAD260]", "[PAD261]", "[PAD262]"]
    assert found["tokenizer.ggml.token_type"][260:] == [their_gguf.TokenType.UNUSED] * 3 + [3]
    assert gguf.compare(gguf.write(vocab), vocab) is None


def test_a_template_that_begins_texts_says_so(tmp_path: Path) -> None:
    steps = [{"SpecialToken": {"id": "<|bos|>", "type_id": 0}}, {"Sequence": {"id": "A"}}]
    template = {"type": "TemplateProcessing", "single": steps}
    processor = {"type": "Sequence", "processors": [{"type": "ByteLevel"}, template]}
    vocab = example(special_tokens=["<|endoftext|>", "<|bos|>"])
    vocab = dataclasses.replace(vocab, extras=Extras(post_processor=processor))
    found = gguf.read_keys(gguf.write(vocab), "x")
    assert found["tokenizer.ggml.bos_token_id"] == 260
    assert found["tokenizer.ggml.add_bos_token"] is True
    assert found["tokenizer.ggml.add_eos_token"] is False


def name_of(vocab: Vocab) -> str:
    assert gguf.obstacle(vocab) is None
    return gguf.read_keys(gguf.write(vocab), "x")["tokenizer.ggml.pre"]


def test_names_of_patterns() -> None:
    assert name_of(example("gpt2")) == "gpt-2"
    assert name_of(example("gpt4")) == "llama-bpe"
    assert name_of(example("llama3")) == "llama-bpe"
    assert name_of(example("qwen2")) == "qwen2"


def test_the_name_says_whether_whole_pretokens_are_taken() -> None:
    # llama.cpp does so for `llama-bpe`, and splits the same way without doing so for `dbrx`.
    assert name_of(example("gpt4", reachable=False)) == "dbrx"
    assert name_of(example("gpt4", reachable=False, ignore_merges=True)) == "llama-bpe"
    # A special token in the place of a word would be taken for it.
    assert name_of(example("gpt4", ["hello"])) == "dbrx"
    assert name_of(example("gpt2", reachable=False)) == "gpt-2"
    refused = gguf.obstacle(example("gpt2", reachable=False, ignore_merges=True))
    assert refused is not None
    assert "no merges lead to token 258, `abc`" in refused


@pytest.mark.parametrize("pattern", ["nanochat", "cl100k", r"\p{L}+|[^\p{L}]"])
def test_patterns_without_a_name_are_refused(pattern: str) -> None:
    refused = gguf.obstacle(example(pattern))
    assert refused is not None
    assert f"no name for the split pattern `{pattern}`" in refused


def test_a_name_that_splits_differently_is_refused() -> None:
    refused = gguf.obstacle(example("gpt4o"))
    assert refused is not None
    assert "does not split by `gpt4o` exactly" in refused


def test_notes() -> None:
    (tables,) = gguf.notes(example(special_tokens=["<|endoftext|>", "<|bos|>"]))
    assert "Unicode 16" in tables
    *_, role = gguf.notes(example())
    assert "no special token begins a text" in role
    assert "ends" not in role
    vocab = dataclasses.replace(example("qwen2"), normalizer="nfc")
    assert any("NFC" in note for note in gguf.notes(vocab))


def test_cut_or_changed_files_are_errors() -> None:
    data = gguf.write(example())
    for end in [0, 3, 23, 24, 60, *range(100, len(data) - 32, 97)]:
        with pytest.raises(FormatError, match="`x`"):
            gguf.read_keys(data[:end], "x")
    with pytest.raises(FormatError, match=r"not a \.gguf file"):
        gguf.read_keys(b"GGML" + data[4:], "x")
    with pytest.raises(FormatError, match="ends within"):
        gguf.read_keys(data[:24] + b"\xff" * 8 + data[32:], "x")


def test_another_vocab_is_noticed() -> None:
    data = gguf.write(example())
    assert gguf.compare(data, example()) is None
    assert gguf.compare(data, example(special_tokens=["<|x|>"])) == "tokens"
    assert gguf.compare(data, example(reachable=False)) == "merges"
