"""The tokenizer folder: complete or absent, described, never overwritten by accident."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tokenmill import _core
from tokenmill.errors import ConfigError, FormatError
from tokenmill.tokenizer.artifact import read_tokenizer, write_tokenizer
from tokenmill.tokenizer.formats import gpt2_files, tiktoken_ranks
from tokenmill.tokenizer.manifest import Manifest, read_manifest
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.tokenizer.vocab import Extras, Vocab

BYTES = {byte: bytes([byte]) for byte in range(256)}
FILES = {
    "manifest.json",
    "merges.txt",
    "ranks.json",
    "ranks.tiktoken",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
}


def example(pattern: str = "gpt4", special_tokens: Any = ("<|endoftext|>",)) -> Tokenizer:
    merges = [(b"t", b"h"), (b"th", b"e"), (b" ", b"the")]
    vocab = BYTES | {256: b"th", 257: b"the", 258: b" the"}
    return Tokenizer.from_vocab(vocab, merges, special_tokens, pattern)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def manifest_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "manifest.json").read_bytes())


@pytest.mark.parametrize("pattern", ["gpt2", "llama3", r"\p{N}{1,3}+|(?s:a.)|\S+?|\s++$|\s"])
def test_save_and_load(tmp_path: Path, pattern: str) -> None:
    tokenizer = example(pattern, ["<|endoftext|>", "日本"])
    folder = tokenizer.save(tmp_path / "new" / "tok")
    assert folder == tmp_path / "new" / "tok"
    assert names(folder) == FILES
    assert names(folder.parent) == {"tok"}
    again = Tokenizer.load(folder)
    assert again == tokenizer
    assert again.pattern == pattern
    assert again.encode("the 12345 a\n") == tokenizer.encode("the 12345 a\n")


def test_manifest(tmp_path: Path) -> None:
    folder = example().save(tmp_path / "tok", settings={"ties": "lowest-ids"}, parents={"a": "b"})
    manifest = manifest_of(folder)
    files = manifest.pop("files")
    assert files.keys() == FILES - {"manifest.json"}
    for name, entry in files.items():
        assert entry == {"sha256": hashlib.sha256((folder / name).read_bytes()).hexdigest()}
    assert manifest == {
        "format": "tokenmill tokenizer",
        "format_version": 1,
        "tool": "tokenmill",
        "tool_version": _core.__version__,
        "unicode_version": _core.UNICODE_VERSION,
        "vocab_size": 260,
        "num_merges": 3,
        "pattern": {"name": "gpt4", "regex": _core.named_patterns()["gpt4"]},
        "special_tokens": {"<|endoftext|>": 259},
        "normalizer": None,
        "ignore_merges": False,
        "unreachable": [],
        "settings": {"ties": "lowest-ids"},
        "parents": {"a": "b"},
        "notes": [],
        "not_written": {},
    }
    read = read_manifest(folder)
    assert read is not None
    assert Manifest.from_json(read.to_json()) == read
    assert read.to_json() == (folder / "manifest.json").read_bytes()


def test_same_bytes_wherever_it_is_written(tmp_path: Path) -> None:
    one, two = example().save(tmp_path / "one"), example().save(tmp_path / "two")
    for name in FILES:
        assert (one / name).read_bytes() == (two / name).read_bytes()


def test_tokenizer_config(tmp_path: Path) -> None:
    folder = example(special_tokens=["<|endoftext|>", "<|bos|>", "<|user|>"]).save(tmp_path / "tok")
    config = json.loads((folder / "tokenizer_config.json").read_bytes())
    assert (config["eos_token"], config["bos_token"]) == ("<|endoftext|>", "<|bos|>")
    assert config["extra_special_tokens"] == ["<|user|>"]


def test_unreachable_tokens_are_listed_and_tiktoken_left_out(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_vocab(BYTES | {256: b"xyz"}, [])
    folder = tokenizer.save(tmp_path / "tok")
    manifest = manifest_of(folder)
    assert manifest["unreachable"] == [256]
    assert manifest["not_written"] == {
        "ranks.tiktoken": "no merges lead to token 256, `xyz`, but tiktoken would make it anyway"
    }
    assert names(folder) == FILES - {"ranks.tiktoken", "ranks.json"}
    assert Tokenizer.load(folder) == tokenizer


def test_everything_a_vocab_may_have_survives(tmp_path: Path) -> None:
    # Merges out of order, a token that nothing makes, a free id, NFC, roles, a chat template.
    tokens = [*BYTES.values(), b"abc", b"ab", b"xyz", b"<s>", b"", b"<t>"]
    core = _core.Vocab(
        tokens, [(257, 99, 256), (97, 98, 257)], {"<s>": 259, "<t>": 261}, ignore_merges=True
    )
    extras = Extras(
        post_processor={"type": "ByteLevel", "trim_offsets": False},
        chat_template="{% for m in messages %}{{ m }}{% endfor %}\n",
        not_special=frozenset({"<t>"}),
        config={"eos_token": "<t>", "model_max_length": 512, "padding_side": "left"},
    )
    vocab = Vocab(core, r"\S+$|[\s\S]", "nfc", extras)
    write_tokenizer(vocab, tmp_path / "tok")
    assert names(tmp_path / "tok") == (FILES - {"ranks.tiktoken", "ranks.json"}) | {
        "chat_template.jinja"
    }
    assert read_tokenizer(tmp_path / "tok") == vocab
    manifest = manifest_of(tmp_path / "tok")
    assert (manifest["normalizer"], manifest["ignore_merges"]) == ("nfc", True)
    assert manifest["unreachable"] == [258]
    assert "NFC" in manifest["not_written"]["ranks.tiktoken"]
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "tok").iterdir()}
    write_tokenizer(read_tokenizer(tmp_path / "tok"), tmp_path / "tok")
    assert {p.name: p.stat().st_mtime_ns for p in (tmp_path / "tok").iterdir()} == before


def test_unreachable_tokens_that_tiktoken_makes_too_are_written(tmp_path: Path) -> None:
    ranks = {token: rank for rank, token in BYTES.items()} | {b"xyz": 256}
    tokenizer = Tokenizer.from_ranks(ranks, {"<s>": 300}, "gpt4")
    folder = tokenizer.save(tmp_path / "tok")
    assert names(folder) == FILES
    assert manifest_of(folder)["ignore_merges"] is True
    assert Tokenizer.load(folder) == tokenizer
    assert Tokenizer.load(folder / "ranks.tiktoken") == tokenizer
    assert tokenizer.encode("xyz xyz") == [256, 32, 120, 121, 122]


def test_a_folder_of_an_older_version(tmp_path: Path) -> None:
    folder = example().save(tmp_path / "tok")
    manifest = manifest_of(folder)
    del manifest["normalizer"], manifest["ignore_merges"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert Tokenizer.load(folder) == example()


def test_notes_of_a_custom_pattern(tmp_path: Path) -> None:
    notes = manifest_of(example(r"\w+|\s+").save(tmp_path / "tok"))["notes"]
    assert [note.split(":")[0] for note in notes] == ["`tokenizer.json`", "`ranks.tiktoken`"]


def test_the_same_again_changes_nothing(tmp_path: Path) -> None:
    folder = example().save(tmp_path / "tok")
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    example().save(folder)
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_another_is_refused_unless_forced(tmp_path: Path) -> None:
    folder = example().save(tmp_path / "tok")
    with pytest.raises(ConfigError, match="already holds another tokenizer, of vocab size 260"):
        example("gpt2").save(folder)
    with pytest.raises(ConfigError, match="already holds another"):
        example().save(folder, settings={"other": 1})
    assert Tokenizer.load(folder).pattern == "gpt4"
    example("gpt2").save(folder, force=True)
    assert Tokenizer.load(folder).pattern == "gpt2"
    assert names(tmp_path) == {"tok"}


def test_a_damaged_folder_is_not_the_same(tmp_path: Path) -> None:
    folder = example().save(tmp_path / "tok")
    (folder / "merges.txt").write_bytes(b"")
    with pytest.raises(ConfigError, match="already holds another"):
        example().save(folder)
    example().save(folder, force=True)
    assert (folder / "merges.txt").stat().st_size > 0


def test_other_peoples_files_are_never_deleted(tmp_path: Path) -> None:
    folder = example().save(tmp_path / "tok")
    (folder / "chat_template.jinja").write_text("mine")
    with pytest.raises(
        ConfigError, match=r"holds `chat_template\.jinja` that tokenmill did not write"
    ):
        example("gpt2").save(folder, force=True)
    assert (folder / "chat_template.jinja").read_text() == "mine"
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("mine")
    for place in (mine, mine / "thesis.tex"):
        with pytest.raises(ConfigError, match="exists and is not a tokenizer folder"):
            example().save(place, force=True)
    assert (mine / "thesis.tex").read_text() == "mine"


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "tok").mkdir()
    assert Tokenizer.load(example().save(tmp_path / "tok")) == example()


@pytest.mark.parametrize(
    ("module", "file", "data", "message"),
    [
        (
            tiktoken_ranks,
            "ranks.tiktoken",
            b"YQ== 0\n",
            "`ranks.tiktoken` read back differs in tok",
        ),
        (gpt2_files, "merges.txt", b"t h\n", "`merges.txt` read back differs in merges"),
        (gpt2_files, "vocab.json", b"{}", "`vocab.json` read back differs in tokens"),
    ],
)
def test_what_reads_back_differently_is_not_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    file: str,
    data: bytes,
    message: str,
) -> None:
    write = module.write
    monkeypatch.setattr(module, "write", lambda *vocab: write(*vocab) | {file: data})
    with pytest.raises(FormatError, match=message):
        example().save(tmp_path / "tok")
    assert names(tmp_path) == set()


def test_settings_must_be_json(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not JSON values"):
        example().save(tmp_path / "tok", settings={"path": Path("x")})
    assert names(tmp_path) == set()


def test_load_one_file_or_a_folder_without_manifest(tmp_path: Path) -> None:
    folder = example().save(tmp_path / "tok")
    assert Tokenizer.load(folder / "tokenizer.json") == example()
    (folder / "manifest.json").unlink()
    assert Tokenizer.load(str(folder)) == example()


def test_load_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"nowhere` does not exist"):
        Tokenizer.load(tmp_path / "nowhere")
    with pytest.raises(FormatError, match=r"has no `tokenizer\.json`, found nothing"):
        Tokenizer.load(tmp_path)
    (tmp_path / "readme.txt").write_text("x")
    with pytest.raises(FormatError, match=r"found `readme\.txt`"):
        Tokenizer.load(tmp_path)
    with pytest.raises(FormatError, match=r"`.*readme\.txt` is no tokenizer file"):
        Tokenizer.load(tmp_path / "readme.txt")


def rewrite_manifest(folder: Path, **changes: Any) -> None:
    (folder / "manifest.json").write_text(json.dumps(manifest_of(folder) | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, '`format` is `"other"`, not `tokenmill tokenizer`'),
        ({"format_version": 2}, "`format_version` is 2, this tokenmill reads up to 1"),
        ({"format_version": "1"}, "at `format_version`: expected a whole number"),
        ({"pattern": {"name": "gpt2", "regex": "x"}}, "not how the pattern `gpt2` is written"),
        ({"special_tokens": {}}, "name different special tokens"),
        ({"files": {}}, "the sha256 differs"),
        ({"files": 3}, "at `files`: expected an object, found `3`"),
        ({"notes": [1]}, r"at `notes\[0\]`: expected a string"),
    ],
)
def test_a_manifest_that_lies(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    folder = example().save(tmp_path / "tok")
    rewrite_manifest(folder, **changes)
    with pytest.raises(FormatError, match=message):
        Tokenizer.load(folder)


def test_a_file_that_changed_under_its_manifest(tmp_path: Path) -> None:
    folder = example().save(tmp_path / "tok")
    file = folder / "tokenizer.json"
    file.write_bytes(file.read_bytes() + b"\n")
    with pytest.raises(FormatError, match="is not the file its manifest describes"):
        Tokenizer.load(folder)
    assert Tokenizer.load(file) == example()
