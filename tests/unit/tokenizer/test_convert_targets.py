"""convert: the right files for each target, the same ids or a refusal, and nothing overwritten unasked."""

import dataclasses
import json
import os
from pathlib import Path

import pytest

from tokenmill.errors import ConfigError, FormatError, VocabError
from tokenmill.tokenizer import convert as convert_module
from tokenmill.tokenizer import same_ids
from tokenmill.tokenizer.artifact import read_tokenizer, write_tokenizer
from tokenmill.tokenizer.convert import TARGETS, convert
from tokenmill.tokenizer.vocab import Extras, Vocab, vocab_from_bytes

BYTES = {byte: bytes([byte]) for byte in range(256)}
SPECIALS = ["<|endoftext|>", "<|bos|>"]


def vocab_of(merges: list[str], pattern: str = "gpt4", *, ignore_merges: bool = False) -> Vocab:
    halves = [merge.encode().split(b" ") for merge in merges]
    pairs = [(left, right) for left, right in halves]
    tokens = BYTES | {256 + index: left + right for index, (left, right) in enumerate(pairs)}
    return vocab_from_bytes(tokens, pairs, SPECIALS, pattern, ignore_merges=ignore_merges)


@pytest.fixture
def tok(tmp_path: Path) -> Path:
    vocab = vocab_of(["t h", "th e", "e r"])
    extras = Extras(chat_template="{{ messages }}", config={"model_max_length": 512})
    write_tokenizer(dataclasses.replace(vocab, extras=extras), tmp_path / "tok")
    return tmp_path / "tok"


WRITTEN = {
    "hf": ["chat_template.jinja", "tokenizer.json", "tokenizer_config.json"],
    "tiktoken": ["ranks.json", "ranks.tiktoken"],
    "gpt2": ["merges.txt", "vocab.json"],
    "nanochat": ["token_bytes.pt", "tokenizer.pkl"],
}


@pytest.mark.parametrize("to", WRITTEN)
def test_each_target_writes_its_files_and_no_others(tok: Path, tmp_path: Path, to: str) -> None:
    out = tmp_path / "deep" / "out"
    conversion = convert(tok, to, out)
    assert sorted(os.listdir(out)) == WRITTEN[to]
    assert sorted(file.name for file in conversion.files) == WRITTEN[to]
    assert all(file.read_bytes() for file in conversion.files)
    assert not conversion.already_done
    assert os.listdir(out.parent) == ["out"]
    assert convert(tok, to, out).already_done


def test_one_file(tok: Path, tmp_path: Path) -> None:
    conversion = convert(tok, "gguf", tmp_path / "x.gguf")
    assert conversion.files == [tmp_path / "x.gguf"]
    conversion = convert(tok, "tiktoken", tmp_path / "mine.tiktoken")
    assert {file.name for file in conversion.files} == {"mine.tiktoken", "mine.json"}
    assert read_tokenizer(tmp_path / "mine.tiktoken").core == conversion.vocab.core
    assert convert(tok, "tiktoken", tmp_path / "mine.tiktoken").already_done


def test_what_was_written_is_read_as_the_same_tokenizer(tok: Path, tmp_path: Path) -> None:
    vocab = read_tokenizer(tok)
    convert(tok, "hf", tmp_path / "hf")
    assert read_tokenizer(tmp_path / "hf") == vocab
    assert read_tokenizer(tmp_path / "hf").extras == vocab.extras
    convert(tok, "tiktoken", tmp_path / "tiktoken")
    assert read_tokenizer(tmp_path / "tiktoken").core == vocab.core
    convert(tok, "gpt2", tmp_path / "gpt2")
    from_pair = read_tokenizer(tmp_path / "gpt2", pattern="gpt4", special_tokens=SPECIALS)
    assert from_pair.core == vocab.core


def test_round_the_formats_and_back_gives_the_same_bytes(tok: Path, tmp_path: Path) -> None:
    convert(tok, "hf", tmp_path / "a")
    convert(tmp_path / "a", "tiktoken", tmp_path / "b")
    convert(tmp_path / "b", "gpt2", tmp_path / "c")
    convert(tmp_path / "c", "hf", tmp_path / "d", pattern="gpt4", special_tokens=SPECIALS)
    name = "tokenizer.json"
    assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "d" / name).read_bytes()


def test_other_ids_are_refused(tmp_path: Path) -> None:
    write_tokenizer(vocab_of(["a b", "b c", "ab c"]), tmp_path / "tok")
    convert(tmp_path / "tok", "tiktoken", tmp_path / "fine")
    write_tokenizer(vocab_of(["a b", "b c", "a bc"]), tmp_path / "cannot be reached")
    for to in ("tiktoken", "nanochat"):
        with pytest.raises(VocabError, match="no merges lead to token 258, `abc`") as caught:
            convert(tmp_path / "cannot be reached", to, tmp_path / "out")
        assert "cannot be written for" in caught.value.message
        assert caught.value.hint == "`--to hf` keeps everything"
    assert not (tmp_path / "out").exists()
    conversion = convert(tmp_path / "cannot be reached", "hf", tmp_path / "out")
    (note,) = conversion.notes
    assert note.startswith("1 token is in no text's ids")
    assert "258, `abc`" in note


def test_whole_pretokens_that_no_merges_make(tmp_path: Path) -> None:
    vocab = vocab_of(["a b", "b c", "a bc"], ignore_merges=True)
    write_tokenizer(vocab, tmp_path / "tok")
    with pytest.raises(VocabError, match="cannot say `ignore_merges`"):
        convert(tmp_path / "tok", "gpt2", tmp_path / "out")
    conversion = convert(tmp_path / "tok", "hf", tmp_path / "out")
    assert "only as whole pretokens" in conversion.notes[0]
    assert same_ids.check(conversion).library == "tokenizers"


def test_normalized_text(tmp_path: Path) -> None:
    vocab = dataclasses.replace(vocab_of(["t h"], "qwen2"), normalizer="nfc")
    write_tokenizer(vocab, tmp_path / "tok")
    with pytest.raises(VocabError, match="NFC"):
        convert(tmp_path / "tok", "tiktoken", tmp_path / "out")
    for to in ("gguf", "gpt2"):
        notes = convert(tmp_path / "tok", to, tmp_path / to).notes
        assert sum("NFC" in note for note in notes) == 1, to
    same_ids.check(convert(tmp_path / "tok", "hf", tmp_path / "hf"))


def test_notes_on_what_the_files_cannot_say(tok: Path, tmp_path: Path) -> None:
    assert convert(tok, "hf", tmp_path / "hf").notes == []
    pattern, special = convert(tok, "gpt2", tmp_path / "gpt2").notes
    assert "their reader has to know `gpt4`" in pattern
    assert "`<|endoftext|>`, `<|bos|>`" in special
    write_tokenizer(vocab_of([], r"\w+|\W"), tmp_path / "custom")
    (note,) = convert(tmp_path / "custom", "hf", tmp_path / "hf2").notes
    assert r"`\w`" in note


def test_what_is_there_stays_unless_forced(tok: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    convert(tok, "hf", out)
    (out / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"`.*tokenizer\.json` exists and holds something else"):
        convert(tok, "hf", out)
    assert (out / "tokenizer.json").read_text() == "{}"
    assert not convert(tok, "hf", out, force=True).already_done
    assert convert(tok, "hf", out).already_done
    (out / "mine.txt").write_text("x")
    for force in (False, True):
        with pytest.raises(ConfigError, match=r"holds `mine\.txt`, which is no part of"):
            convert(tok, "hf", out, force=force)
    file = tmp_path / "x.gguf"
    file.write_text("x")
    with pytest.raises(ConfigError, match=r"`.*x\.gguf` exists and holds something else"):
        convert(tok, "gguf", file)
    with pytest.raises(ConfigError, match="is a file, not a folder"):
        convert(tok, "hf", file)
    with pytest.raises(ConfigError, match="is a folder, not a file"):
        convert(tok, "gguf", out)


def test_an_empty_folder_may_be_filled(tok: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert not convert(tok, "gpt2", tmp_path / "out").already_done


def test_unknown_targets_are_named(tok: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="`onnx` is not something to convert to") as caught:
        convert(tok, "onnx", tmp_path / "out")
    assert all(f"`{name}`" in (caught.value.hint or "") for name in TARGETS)


def test_what_reads_back_differently_is_not_written(
    tok: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = vocab_of(["t h", "th e", "e s"])
    for to, target in TARGETS.items():
        wrong = dataclasses.replace(target, write=lambda _, target=target: target.write(other))
        monkeypatch.setitem(convert_module.TARGETS, to, wrong)
        with pytest.raises(FormatError, match="read back differs in"):
            convert(tok, to, tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_check_needs_a_library(monkeypatch: pytest.MonkeyPatch) -> None:
    assert same_ids.require_library("hf") == "tokenizers"
    with pytest.raises(ConfigError, match="no Python library that encodes by"):
        same_ids.require_library("gguf")

    def absent(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", absent)
    with pytest.raises(ConfigError, match="needs `tiktoken`, which is not installed") as caught:
        same_ids.require_library("tiktoken")
    assert caught.value.hint == "pip install tiktoken"


@pytest.mark.parametrize("to", ["hf", "gpt2", "tiktoken", "nanochat"])
def test_check_compares_with_the_library(tok: Path, tmp_path: Path, to: str) -> None:
    conversion = convert(tok, to, tmp_path / "out")
    checked = same_ids.check(conversion)
    assert checked.num_texts > same_ids.NUM_RANDOM_TEXTS
    other = dataclasses.replace(conversion, vocab=vocab_of(["h e", "t he", "e r"]))
    if to != "nanochat":  # whose pickle stays closed
        with pytest.raises(VocabError, match=r"gives .* the ids"):
            same_ids.check(other)


def test_settings_of_tiktoken_are_those_of_the_vocab(tok: Path, tmp_path: Path) -> None:
    convert(tok, "tiktoken", tmp_path / "x.tiktoken")
    settings = json.loads((tmp_path / "x.json").read_bytes())
    assert settings["special_tokens"] == {"<|endoftext|>": 259, "<|bos|>": 260}
    assert settings["explicit_n_vocab"] == 261
