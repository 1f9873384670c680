"""tokenizer_config.json and chat_template.jinja: kept, written back, never run."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tokenmill.errors import FormatError
from tokenmill.tokenizer.artifact import read_tokenizer
from tokenmill.tokenizer.formats import huggingface_json, transformers_config
from tokenmill.tokenizer.vocab import Extras, Vocab, vocab_from_bytes

BYTES = {byte: bytes([byte]) for byte in range(256)}


def example(
    special_tokens: tuple[str, ...] = ("<|endoftext|>", "<|im_end|>"), **extras: Any
) -> Vocab:
    vocab = vocab_from_bytes(BYTES, [], special_tokens, "gpt2")
    return replace(vocab, extras=Extras(**extras))


def read(config: object) -> transformers_config.Config:
    data = json.dumps(config).encode()
    return transformers_config.read(data, {"<|endoftext|>": 256, "<|im_end|>": 257})


def test_customary_roles_need_not_be_said() -> None:
    config = json.loads(transformers_config.write(example()))
    assert config == {
        "tokenizer_class": "TokenizersBackend",
        "model_max_length": int(1e30),
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|endoftext|>",
        "extra_special_tokens": ["<|im_end|>"],
    }
    assert read(config) == ({}, None)
    assert transformers_config.roles(example()) == {"eos_token": 256}


def test_what_others_wrote_is_kept() -> None:
    theirs = {
        "add_bos_token": False,
        "added_tokens_decoder": {"256": {"content": "<|endoftext|>"}},
        "auto_map": {"AutoTokenizer": ["evil.Code", None]},
        "tokenizer_class": "Qwen2Tokenizer",
        "additional_special_tokens": ["<|im_end|>"],
        "model_max_length": 131072,
        "bos_token": None,
        "eos_token": {"__type": "AddedToken", "content": "<|im_end|>", "lstrip": False},
        "pad_token": "<|endoftext|>",
        "chat_template": "{{ x }}",
    }
    config = read(theirs)
    assert config.chat_template == "{{ x }}"
    assert config.kept == {
        "add_bos_token": False,
        "model_max_length": 131072,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
    }
    vocab = example(config=config.kept)
    written = json.loads(transformers_config.write(vocab))
    assert read(written).kept == config.kept
    assert "auto_map" not in written
    assert transformers_config.roles(vocab) == {"eos_token": 257, "pad_token": 256}


def test_tokens_that_are_not_special_are_not_called_so() -> None:
    vocab = example(not_special=frozenset({"<|im_end|>"}))
    assert "extra_special_tokens" not in json.loads(transformers_config.write(vocab))


def test_several_templates() -> None:
    named = [{"name": "tool_use", "template": "a"}, {"name": "default", "template": "b"}]
    assert read({"chat_template": named}).chat_template == "b"
    with pytest.raises(FormatError, match=r'none of the templates `\["tool_use"\]` is called'):
        read({"chat_template": named[:1]})


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ([], "expected an object"),
        ({"eos_token": 3}, "at `eos_token`: expected a string"),
        ({"eos_token": {"id": 3}}, "at `eos_token`: key `content` is missing"),
        ({"chat_template": 3}, "at `chat_template`: expected a list"),
        ({"chat_template": [3]}, r"at `chat_template\[0\]`: expected an object"),
    ],
)
def test_refusals(config: object, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        read(config)


def test_files_beside_tokenizer_json(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_bytes(huggingface_json.write(example()))
    assert read_tokenizer(file).extras == Extras()
    config = tmp_path / "tokenizer_config.json"
    config.write_text('{"chat_template": "old", "model_max_length": 512}')
    for path in (file, tmp_path):
        extras = read_tokenizer(path).extras
        assert extras == Extras(chat_template="old", config={"model_max_length": 512})
    (tmp_path / "chat_template.jinja").write_text("newer: {{ ü }}")
    assert read_tokenizer(file).extras.chat_template == "newer: {{ ü }}"
    (tmp_path / "chat_template.jinja").write_bytes(b"a\xff")
    with pytest.raises(FormatError, match=r"chat_template.jinja` is not UTF-8: bad byte at 1"):
        read_tokenizer(file)
    config.write_text("{")
    with pytest.raises(FormatError, match=r"tokenizer_config.json` is not JSON"):
        read_tokenizer(file)
