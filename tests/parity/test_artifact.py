"""The written folder opens in other people's libraries and gives the same ids on real text."""

import dataclasses
import json
import os
import random
import subprocess
import sys
import sysconfig
import unicodedata
from collections.abc import Callable
from pathlib import Path

import gigatoken
import pytest
import tiktoken
import tiktoken.load
import tokenizers

from tokenmill import _core, reference
from tokenmill.tokenizer.formats import huggingface_json
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.tokenizer.vocab import vocab_from_bytes

CUSTOM = (
    r"'(?i:[sdmt]|ll|ve|re)|\p{Lu}?\p{L}++|\p{N}{1,4}+| ?[^\s\p{L}\p{N}]{1,8}+|\s++$|\s+(?!\S)|\s"
)
WITH_GAPS = r"\p{L}+|\p{N}{2}"
PATTERNS = ["gpt2", "gpt4", "cl100k", "gpt4o", "llama3", "qwen2", "nanochat", CUSTOM]
SPECIAL_TOKENS = ["<|endoftext|>", "<|user_start|>", "<|終|>日本"]

HAND_MADE = [
    "",
    " ",
    "\n",
    "\r\n\r\n",
    "  \n \t\n  x  ",
    "a\n\n\nb  \n  c \r d",
    "\u00a0\u2003\u3000 wide\u200b\u2028spaces\x85\x1c\x1f",
    "I'm you'RE he'Ll we'd 'tis don’t O'Neill's 'ſ",
    "1 12 123 1234 12345 ½ ² Ⅷ ٣٤٥٦ ໑໒໓ 一二三",
    "camelCase HTTPServer XMLHttpRequest snake_case SCREAMING ǅungla ʰªº",
    "Größe Straße naïve façade Ελληνικά όχι русский язык українська",
    "עברית שָׁלוֹם العربية مَرْحَبًا हिन्दी नमस्ते বাংলা தமிழ் ไทยสวัสดี ລາວ မြန်မာ",
    "日本語の文章です。東京タワー 한국어 문장입니다 汉字没有空格的句子 𠜎𠜱",
    "👩‍👩‍👧‍👦 🇩🇪🇯🇵 👍🏽 ❤️ e\u0301 n\u0303 ﬁ ﷽ Z͑ͫ̓͂",
    "!!! ... --- ??!\n//\r\n/* */ $%^ <|> <| end |> <|endoftext|",
    "def f(x):\n\treturn {'a': x**2}  # done\n\n\nclass A(B):\n    pass\n",
    "http://example.com/a?b=c&d=%20 C:\\path\\to\\file user@example.org",
    "\x00\x01\x7f\u00ad\ufeff\ufffd\U0010ffff\ue000",
    "a" * 300 + " " * 300 + "\n" * 50 + "=" * 100,
    "MTIzNDU2Nzg5MGFiY2RlZmdoaWprbG1ub3BxcnN0dXZ3eHl6QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo=",
]


def standard_library(num_bytes: int, skip: int = 0) -> list[str]:
    """Sources of Python's own library, in order of path, about `num_bytes` of them."""
    texts: list[str] = []
    total = 0
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[skip:]:
        if total >= num_bytes:
            break
        text = path.read_text(encoding="utf-8")
        texts.append(text)
        total += len(text)
    assert total >= num_bytes
    return texts


@dataclasses.dataclass
class Written:
    """A saved tokenizer, and what it says about the texts: special tokens as ids, and as text."""

    folder: Path
    tokenizer: Tokenizer
    texts: list[str]
    ids: list[list[int]]
    ordinary: list[list[int]]


def trained(pattern: str, vocab_size: int = 3000) -> Tokenizer:
    splitter = _core.Splitter(pattern, SPECIAL_TOKENS)
    counter = _core.Counter(splitter, 1)
    documents = [*standard_library(1_500_000), *(HAND_MADE * 3)]
    counter.count(_core.Reader(), iter([_core.Source.strings(iter(documents), name="test")]))
    merges = _core.train_merges(
        counter.take(),
        num_tokens=vocab_size - len(SPECIAL_TOKENS),
        special_tokens=SPECIAL_TOKENS,
    )
    learned = merges.tokens()
    specials = {token: len(learned) + index for index, token in enumerate(SPECIAL_TOKENS)}
    tokens = [*learned, *(token.encode() for token in SPECIAL_TOKENS)]
    return Tokenizer.from_ids(tokens, merges.triples(), specials, pattern)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Written]:
    made: dict[str, Written] = {}
    rng = random.Random(11)
    texts = [*HAND_MADE, *standard_library(400_000, skip=60)]
    for text in texts[:]:
        cut = rng.randint(0, len(text))
        texts.append(text[:cut][:2000] + rng.choice(SPECIAL_TOKENS) + text[cut:][:2000])
    texts.append("".join(SPECIAL_TOKENS * 2) + " <|endoftext|> <|endoftext|><|endoftext|")

    def write(pattern: str) -> Written:
        if pattern not in made:
            tokenizer = trained(pattern)
            folder = tokenizer.save(tmp_path_factory.mktemp("tok") / "tok")
            ids = [tokenizer.encode(text, allowed_special="all") for text in texts]
            ordinary = [tokenizer.encode_ordinary(text) for text in texts]
            assert any(one != other for one, other in zip(ids, ordinary, strict=True))
            made[pattern] = Written(folder, tokenizer, texts, ids, ordinary)
        return made[pattern]

    return write


def open_tiktoken(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tiktoken.Encoding:
    # Its cache is keyed by the path, so a file written again at the same place would not be seen.
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    ranks = tiktoken.load.load_tiktoken_bpe(str(folder / "ranks.tiktoken"))
    settings = json.loads((folder / "ranks.json").read_bytes())
    return tiktoken.Encoding(mergeable_ranks=ranks, **settings)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_tokenizers(written: Callable[[str], Written], pattern: str) -> None:
    expected = written(pattern)
    theirs = tokenizers.Tokenizer.from_file(str(expected.folder / "tokenizer.json"))
    assert theirs.get_vocab_size() == expected.tokenizer.vocab_size
    for text, ids, ordinary in zip(expected.texts, expected.ids, expected.ordinary, strict=True):
        theirs.encode_special_tokens = False
        assert theirs.encode(text).ids == ids
        assert theirs.decode(ids, skip_special_tokens=False) == text
        theirs.encode_special_tokens = True
        assert theirs.encode(text).ids == ordinary


@pytest.mark.parametrize("pattern", PATTERNS)
def test_tiktoken(
    written: Callable[[str], Written], pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = written(pattern)
    theirs = open_tiktoken(expected.folder, monkeypatch)
    assert theirs.n_vocab == expected.tokenizer.vocab_size
    for text, ids, ordinary in zip(expected.texts, expected.ids, expected.ordinary, strict=True):
        assert theirs.encode(text, allowed_special="all") == ids
        assert theirs.encode_ordinary(text) == ordinary
        assert theirs.decode(ids) == text
    with pytest.raises(ValueError, match="disallowed special token"):
        theirs.encode("<|endoftext|>")


@pytest.mark.parametrize("pattern", ["gpt2", "gpt4", "gpt4o", "llama3", "qwen2"])
def test_gigatoken(written: Callable[[str], Written], pattern: str) -> None:
    expected = written(pattern)
    theirs = gigatoken.Tokenizer(str(expected.folder))
    for text, ids in zip(expected.texts, expected.ids, strict=True):
        assert list(theirs.encode(text)) == ids
    # It cannot read special tokens as text.
    assert theirs.vocab == expected.tokenizer.vocab
    assert theirs.merges == expected.tokenizer.merges


# transformers checks the version of `regex` when it is imported, and wants one with newer Unicode
# tables than the oracle of the split patterns has; the tokenizer itself does not use it.
TRANSFORMERS = """
import importlib.metadata, json, sys
version = importlib.metadata.version
importlib.metadata.version = lambda name: "2025.10.22" if name == "regex" else version(name)
from transformers import AutoTokenizer

texts = json.load(sys.stdin)
answers = {}
for folder in sys.argv[1:]:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = [tokenizer(text)["input_ids"] for text in texts]
    answers[folder] = {
        "ids": ids,
        "texts": [tokenizer.decode(one) for one in ids[:30]],
        "length": len(tokenizer),
        "eos": tokenizer.eos_token_id,
        "special": sorted(tokenizer.all_special_tokens),
    }
json.dump(answers, sys.stdout)
"""


def test_transformers(written: Callable[[str], Written]) -> None:
    expected = {str(written(name).folder): written(name) for name in ("gpt2", "gpt4")}
    texts = next(iter(expected.values())).texts
    run = subprocess.run(
        [sys.executable, "-c", TRANSFORMERS, *expected],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
        check=False,
    )
    assert run.returncode == 0, run.stderr
    answers = json.loads(run.stdout)
    for folder, mine in expected.items():
        theirs = answers[folder]
        assert theirs["ids"] == mine.ids
        assert theirs["texts"] == mine.texts[:30]
        assert theirs["length"] == mine.tokenizer.vocab_size
        assert theirs["eos"] == mine.tokenizer.special_tokens["<|endoftext|>"]
        assert theirs["special"] == sorted(SPECIAL_TOKENS)


def test_gpt2_files_alone(written: Callable[[str], Written]) -> None:
    expected = written("gpt2")
    model = tokenizers.models.BPE.from_file(
        str(expected.folder / "vocab.json"), str(expected.folder / "merges.txt")
    )
    theirs = tokenizers.Tokenizer(model)
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    for text, ordinary in zip(expected.texts, expected.ordinary, strict=True):
        assert theirs.encode(text).ids == ordinary


@pytest.mark.parametrize("pattern", ["gpt2", "cl100k", CUSTOM])
def test_what_others_hold_is_taken_over(
    written: Callable[[str], Written], pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = written(pattern)
    encoding = open_tiktoken(expected.folder, monkeypatch)
    theirs = tokenizers.Tokenizer.from_file(str(expected.folder / "tokenizer.json"))
    for source in (encoding, theirs, expected.folder / "ranks.tiktoken"):
        taken = Tokenizer.load(source)
        assert taken.vocab == expected.tokenizer.vocab
        assert taken.merges == expected.tokenizer.merges
        for text, ids in zip(expected.texts, expected.ids, strict=True):
            assert taken.encode(text, allowed_special="all") == ids


@pytest.mark.parametrize("removed", [2, 5])
def test_ranks_with_tokens_that_no_merges_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removed: int
) -> None:
    # As in Llama 3: whoever takes tokens out of a vocab leaves others that nothing leads to.
    base = trained("gpt4")
    rng = random.Random(removed)
    learned = [base.vocab[i] for i in range(base.vocab_size - len(SPECIAL_TOKENS))]
    kept = learned[:256] + [token for token in learned[256:] if rng.randrange(removed)]
    ids = {token: len(kept) + 2 * i for i, token in enumerate(SPECIAL_TOKENS)}
    encoding = tiktoken.Encoding(
        "fewer",
        pat_str=_core.named_patterns()["gpt4"],
        mergeable_ranks={token: rank for rank, token in enumerate(kept)},
        special_tokens=ids,
    )
    tokenizer = Tokenizer.load(encoding)
    assert tokenizer.ignore_merges
    assert len(tokenizer.unreachable()) > 50
    folder = tokenizer.save(tmp_path / "tok")
    theirs = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    again = open_tiktoken(folder, monkeypatch)
    for text in [*HAND_MADE, *standard_library(200_000, skip=60), "a<|endoftext|>b"]:
        expected = encoding.encode(text, allowed_special="all")
        assert tokenizer.encode(text, allowed_special="all") == expected
        assert theirs.encode(text).ids == expected
        assert again.encode(text, allowed_special="all") == expected


def test_every_way_to_split_each_token(tmp_path: Path) -> None:
    # As transformers converts tiktoken's ranks: merges by all splits, many of them out of order.
    base = trained("gpt4", vocab_size=1500)
    learned = [base.vocab[i] for i in range(base.vocab_size - len(SPECIAL_TOKENS))]
    document = json.loads(huggingface_json.write(base._vocab))
    letters = {
        token: key for key, i in document["model"]["vocab"].items() for token in [base.vocab[i]]
    }
    known = set(learned)
    document["model"]["merges"] = [
        [letters[token[:cut]], letters[token[cut:]]]
        for token in learned
        for cut in range(1, len(token))
        if token[:cut] in known and token[cut:] in known
    ]
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    tokenizer = Tokenizer.load(tmp_path)
    assert len(tokenizer.merges) > 1.3 * len(base.merges)
    assert tokenizer._vocab.proof.agrees
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in [*HAND_MADE, *standard_library(100_000, skip=60)]:
        expected = theirs.encode(text).ids
        assert tokenizer.encode(text, allowed_special="all") == expected
        assert base.encode(text, allowed_special="all") == expected


def test_nfc(written: Callable[[str], Written], tmp_path: Path) -> None:
    base = written("qwen2")
    vocab = dataclasses.replace(base.tokenizer._vocab, normalizer="nfc")
    tokenizer = Tokenizer(vocab)
    folder = tokenizer.save(tmp_path / "tok")
    theirs = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    decomposed = [unicodedata.normalize("NFD", text) for text in HAND_MADE]
    changed = 0
    for text in [*base.texts, *decomposed, "e<|endoftext|>\u0301 \u212b\u1100\u1161\u11a8"]:
        ids = tokenizer.encode(text, allowed_special="all")
        assert theirs.encode(text).ids == ids, text
        changed += ids != base.tokenizer.encode(text, allowed_special="all")
    assert changed >= 3


def test_text_between_matches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = trained(WITH_GAPS, vocab_size=600)
    folder = tokenizer.save(tmp_path / "tok")
    theirs = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    text = "one, two -- 12345 three\n"
    ids = tokenizer.encode(text)
    assert theirs.encode(text).ids == ids
    assert tokenizer.decode(ids) == text
    encoding = open_tiktoken(folder, monkeypatch)
    assert encoding.decode(encoding.encode(text)) == "onetwo1234three"
    (note,) = json.loads((folder / "manifest.json").read_bytes())["notes"]
    assert "tiktoken drops text" in note


@pytest.mark.parametrize("first", ["special tokens", "bytes backwards"])
def test_other_layouts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str) -> None:
    base = trained("gpt4", vocab_size=500)
    learned = [base.vocab[i] for i in range(base.vocab_size - len(SPECIAL_TOKENS))]
    special = [token.encode() for token in SPECIAL_TOKENS]
    if first == "special tokens":
        tokens = [*special, *learned]
    else:
        tokens = [*reversed(learned[:256]), special[0], *learned[256:], *special[1:]]
    vocab = dict(enumerate(tokens))
    tokenizer = Tokenizer.from_vocab(vocab, base.merges, SPECIAL_TOKENS, "gpt4")
    folder = tokenizer.save(tmp_path / "tok")
    theirs = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    encoding = open_tiktoken(folder, monkeypatch)
    giga = gigatoken.Tokenizer(str(folder))
    for text in [*HAND_MADE, "a<|endoftext|>the<|終|>日本<|user_start|>"]:
        ids = tokenizer.encode(text, allowed_special="all")
        assert theirs.encode(text).ids == ids
        assert encoding.encode(text, allowed_special="all") == ids
        assert list(giga.encode(text)) == ids


def test_merges_that_no_training_makes() -> None:
    # Random merges over two letters: some spell the same bytes, some can never apply.
    rng = random.Random(2)
    shared = 0
    texts = ["".join(rng.choice("ab") for _ in range(rng.randint(1, 14))) for _ in range(40)]
    for _ in range(500):
        tokens = [b"a", b"b"]
        merges: list[tuple[bytes, bytes]] = []
        for _ in range(rng.randint(1, 14)):
            merge = (rng.choice(tokens), rng.choice(tokens))
            if merge not in merges and len(merge[0] + merge[1]) <= 4:
                merges.append(merge)
                tokens.append(merge[0] + merge[1])
        new = list(dict.fromkeys(left + right for left, right in merges))
        shared += len(new) < len(merges)
        vocab = {byte: bytes([byte]) for byte in range(256)} | dict(enumerate(new, 256))
        checked = vocab_from_bytes(vocab, merges, [], "gpt2")
        tokenizer = Tokenizer(checked)
        theirs = tokenizers.Tokenizer.from_buffer(huggingface_json.write(checked))
        for text in texts:
            assert theirs.encode(text).ids == tokenizer.encode(text), (merges, text)
        learned = reference.Learned(list(checked.tokens), list(checked.merges))
        for text in texts[:2]:
            ids = reference.encode(text.encode(), learned, lambda stretch: [stretch], {})
            assert ids == tokenizer.encode(text), (merges, text)
    assert shared >= 40
