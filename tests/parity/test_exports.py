"""Every export of `convert`, opened by its own library, gives the ids we give.

tokenizers, tiktoken, transformers, gigatoken and a nanochat that unpickles its file answer on some
thousand strings each. The gguf package reads what llama.cpp would read; its tokens and merges, run
by tokenizers, give the same ids again.
"""

import dataclasses
import functools
import json
import os
import random
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import gigatoken
import pytest
import tiktoken
import tiktoken.load
import tokenizers

from tokenmill import _core
from tokenmill.tokenizer.artifact import build_bpe, read_tokenizer, write_tokenizer
from tokenmill.tokenizer.convert import convert
from tokenmill.tokenizer.vocab import Extras, Vocab, vocab_from_ids

CUSTOM = r"'(?i:[sdmt]|ll|ve|re)|\p{Lu}?\p{L}++|\p{N}{1,4}+| ?[^\s\p{L}\p{N}]{1,8}+|\s+(?!\S)|\s"
PATTERNS = ["gpt2", "gpt4", "cl100k", "gpt4o", "llama3", "qwen2", "nanochat", CUSTOM]
SPECIAL_TOKENS = ["<|endoftext|>", "<|bos|>", "<|終|>日本"]
TEMPLATE = "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}"
NUM_TEXTS = 3000

HOSTILE = [
    "",
    " ",
    "\r\n\r\n \n\t",
    "a\n\n\nb  \n  c \r d   ",
    "\u00a0\u2003\u3000 wide\u200b\u2028spaces\x85\x1c\x1f",
    "I'm you'RE he'Ll we'd 'tis don’t O'Neill's 'ſ",
    "1 12 123 1234 12345 ½ ² Ⅷ ٣٤٥٦ ໑໒໓",
    "camelCase HTTPServer snake_case ǅungla ʰªº",
    "Größe Straße Ελληνικά русский язык עברית שָׁלוֹם العربية مَرْحَبًا हिन्दी नमस्ते தமிழ் ไทย",
    "日本語の文章です。한국어 문장입니다 汉字没有空格 𠜎𠜱",
    "👩‍👩‍👧‍👦 🇩🇪 👍🏽 ❤️ e\u0301 n\u0303 ﬁ ﷽ Z͑ͫ̓͂",
    "!!! ... --- // /* */ <| end |> <|endoftext|",
    "\x00\x01\x7f\u00ad\ufeff\ufffd\U0010ffff\ue000\u0378",
    "a" * 300 + " " * 300 + "\n" * 50 + "=" * 100,
]


def sources(num_bytes: int, skip: int = 0) -> list[str]:
    """Of Python's own library."""
    texts: list[str] = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[skip:]:
        texts.append(path.read_text(encoding="utf-8"))
        if sum(map(len, texts)) >= num_bytes:
            return texts
    raise AssertionError("the standard library is too short")


@functools.cache
def trained(pattern: str) -> Vocab:
    counter = _core.Counter(_core.Splitter(pattern, SPECIAL_TOKENS), 1)
    documents = [*sources(300_000), *HOSTILE * 3]
    counter.count(_core.Reader(), iter([_core.Source.strings(iter(documents), name="test")]))
    merges = _core.train_merges(
        counter.take(), num_tokens=2000, special_tokens=SPECIAL_TOKENS, ties="lowest-ids"
    )
    tokens = merges.tokens()
    specials = {token: len(tokens) + index for index, token in enumerate(SPECIAL_TOKENS)}
    tokens += [token.encode() for token in SPECIAL_TOKENS]
    vocab = vocab_from_ids(tokens, merges.triples(), specials, pattern)
    return dataclasses.replace(vocab, extras=Extras(chat_template=TEMPLATE))


@functools.cache
def texts() -> list[str]:
    rng = random.Random(21)
    whole = "".join(sources(300_000, skip=60))
    characters = sorted({character for text in HOSTILE for character in text})
    made = list(HOSTILE)
    while len(made) < NUM_TEXTS:
        start = rng.randrange(len(whole) - 400)
        cut = whole[start : start + rng.randint(1, 400)]
        odd = "".join(rng.choice(characters) for _ in range(rng.randint(1, 20)))
        made.append(rng.choice([cut, odd, odd + cut + odd, cut + rng.choice(SPECIAL_TOKENS) + odd]))
    return made


@dataclasses.dataclass
class Exported:
    """The same tokenizer in every format that takes it, and its ids: special tokens as ids, as text."""

    vocab: Vocab
    folder: Path
    ids: list[list[int]]
    ordinary: list[list[int]]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Exported]:
    @functools.cache
    def export(pattern: str) -> Exported:
        folder = tmp_path_factory.mktemp("exports")
        write_tokenizer(trained(pattern), folder / "tok")
        for to in ("hf", "tiktoken", "gpt2", "nanochat"):
            convert(folder / "tok", to, folder / to)
        bpe = build_bpe(trained(pattern))
        ids = bpe.encode_lists(texts(), "all", ())
        ordinary = bpe.encode_lists(texts(), (), ())
        assert ids != ordinary
        return Exported(trained(pattern), folder, ids, ordinary)

    return export


Exports = Callable[[str], Exported]


def compare_with_tokenizers(theirs: Any, expected: Exported) -> None:
    for specials, wanted in ((False, expected.ids), (True, expected.ordinary)):
        theirs.encode_special_tokens = specials
        answers = theirs.encode_batch(texts(), add_special_tokens=False)
        for text, answer, ids in zip(texts(), answers, wanted, strict=True):
            assert answer.ids == ids, text


@pytest.mark.parametrize("pattern", PATTERNS)
def test_tokenizers_opens_hf(exported: Exports, pattern: str) -> None:
    expected = exported(pattern)
    theirs = tokenizers.Tokenizer.from_file(str(expected.folder / "hf/tokenizer.json"))
    compare_with_tokenizers(theirs, expected)


@pytest.mark.parametrize("pattern", ["gpt2", "gpt4"])
def test_tokenizers_opens_gpt2(exported: Exports, pattern: str) -> None:
    expected = exported(pattern)
    folder = expected.folder
    theirs = tokenizers.Tokenizer.from_file(str(folder / "hf/tokenizer.json"))
    theirs.model = tokenizers.models.BPE.from_file(
        str(folder / "gpt2/vocab.json"), str(folder / "gpt2/merges.txt")
    )
    compare_with_tokenizers(theirs, expected)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_tiktoken_opens_tiktoken(
    exported: Exports, pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = exported(pattern)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    ranks = tiktoken.load.load_tiktoken_bpe(str(expected.folder / "tiktoken/ranks.tiktoken"))
    settings = json.loads((expected.folder / "tiktoken/ranks.json").read_bytes())
    theirs = tiktoken.Encoding(mergeable_ranks=ranks, **settings)
    assert theirs.n_vocab == len(expected.vocab.tokens)
    for text, ids, ordinary in zip(texts(), expected.ids, expected.ordinary, strict=True):
        assert theirs.encode(text, allowed_special="all") == ids
        assert theirs.encode_ordinary(text) == ordinary


@pytest.mark.parametrize("pattern", ["gpt2", "gpt4", "gpt4o", "llama3", "qwen2"])
def test_gigatoken_opens_hf(exported: Exports, pattern: str) -> None:
    expected = exported(pattern)
    theirs = gigatoken.Tokenizer(str(expected.folder / "hf"))
    for text, ids in zip(texts(), expected.ids, strict=True):
        assert list(theirs.encode(text)) == ids


# As nanochat does it: its tokenizer is whatever comes out of the pickle.
NANOCHAT = """
import json, pickle, sys
with open(sys.argv[1], "rb") as file:
    encoding = pickle.load(file)
texts = json.load(sys.stdin)
json.dump({
    "ids": [encoding.encode(text, allowed_special="all") for text in texts],
    "ordinary": encoding.encode_ordinary_batch(texts),
    "bos": encoding.encode_single_token("<|bos|>"),
    "size": encoding.n_vocab,
    "type": type(encoding).__module__ + "." + type(encoding).__qualname__,
}, sys.stdout)
"""


def answers_of(program: str, *arguments: str) -> Any:
    run = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        input=json.dumps(texts()),
        capture_output=True,
        text=True,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("pattern", ["nanochat", CUSTOM])
def test_nanochat_unpickles_its_tokenizer(exported: Exports, pattern: str) -> None:
    expected = exported(pattern)
    found = answers_of(NANOCHAT, str(expected.folder / "nanochat/tokenizer.pkl"))
    assert found["type"] == "tiktoken.core.Encoding"
    assert found["size"] == len(expected.vocab.tokens)
    assert found["bos"] == expected.vocab.special_tokens["<|bos|>"]
    assert found["ids"] == expected.ids
    assert found["ordinary"] == expected.ordinary


# transformers checks the version of `regex` when it is imported (see test_artifact.py).
TRANSFORMERS = """
import importlib.metadata, json, sys
version = importlib.metadata.version
importlib.metadata.version = lambda name: "2025.10.22" if name == "regex" else version(name)
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
json.dump({
    "ids": [tokenizer(text)["input_ids"] for text in json.load(sys.stdin)],
    "roles": [tokenizer.bos_token_id, tokenizer.eos_token_id],
    "template": tokenizer.chat_template,
}, sys.stdout)
"""


def test_transformers_opens_hf(exported: Exports) -> None:
    expected = exported("gpt4")
    found = answers_of(TRANSFORMERS, str(expected.folder / "hf"))
    assert found["ids"] == expected.ids
    ids = expected.vocab.special_tokens
    assert found["roles"] == [ids["<|bos|>"], ids["<|endoftext|>"]]
    assert found["template"] == TEMPLATE


@pytest.mark.parametrize("pattern", ["gpt2", "gpt4", "llama3", "qwen2"])
def test_gguf_holds_the_same_tokenizer(exported: Exports, pattern: str) -> None:
    expected = exported(pattern)
    path = expected.folder / "tok.gguf"
    convert(expected.folder / "tok", "gguf", path)
    fields = gguf.GGUFReader(path).fields
    tokens, merges, kinds = (
        fields[f"tokenizer.ggml.{name}"].contents() for name in ("tokens", "merges", "token_type")
    )
    text = fields["tokenizer.huggingface.json"].contents()
    assert text.encode() == (expected.folder / "hf/tokenizer.json").read_bytes()
    assert fields["tokenizer.chat_template"].contents() == TEMPLATE
    special = {tokens[index]: index for index, kind in enumerate(kinds) if kind == 3}
    assert special == expected.vocab.special_tokens
    model = tokenizers.models.BPE(
        vocab={token: index for index, token in enumerate(tokens)},
        merges=[tuple(merge.split(" ")) for merge in merges],
    )
    theirs = tokenizers.Tokenizer.from_str(text)
    theirs.model = model
    compare_with_tokenizers(theirs, expected)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_each_export_is_read_back_here(exported: Exports, pattern: str) -> None:
    expected = exported(pattern)
    specials = list(expected.vocab.special_tokens)
    read = {
        "hf": read_tokenizer(expected.folder / "hf"),
        "tiktoken": read_tokenizer(expected.folder / "tiktoken"),
        "gpt2": read_tokenizer(expected.folder / "gpt2", pattern=pattern, special_tokens=specials),
    }
    for name, vocab in read.items():
        assert vocab.core == expected.vocab.core, name
        assert build_bpe(vocab).encode_lists(texts(), "all", ()) == expected.ids, name
