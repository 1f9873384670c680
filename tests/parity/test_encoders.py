"""The same ids as tiktoken and as Hugging Face, for every named pattern, on more than 300,000 strings each.

Every short string over one character per class of the pattern, random longer ones with runs, cuts of real text in
many scripts and of source code, and special tokens allowed, refused and in between. Both peers have the Unicode
tables of ours, so no character is left out. Bytes that are not UTF-8 are compared pretoken by pretoken, for neither
peer takes them whole.
"""

import functools
import itertools
import json
import random
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import tiktoken
import tiktoken.load
import tokenizers

from tokenmill import _core
from tokenmill.errors import VocabError
from tokenmill.tokenizer.tokenizer import Tokenizer

LEAST_STRINGS = 300_000
BATCH = 20_000
NAMED = _core.named_patterns()
PATTERNS = ["gpt2", "gpt4", "cl100k", "gpt4o", "llama3", "qwen2", "nanochat"]
SPECIAL_TOKENS = ["<|endoftext|>", "<|user_start|>", "<|終|>"]

# One character per class: apostrophe, contraction letters, space, letter, number, line break, other space, other.
ALPHABETS = {
    "ascii": "'slve A1\n\t!",
    "wide": "'ſLRE\u3000漢½\r\u2028🦀",
    "cased": " aAǅʰºé\u0301!/\n",
    "rare": "'tM \u00a0\x85\x1c\u0378\U0010ffff\x00⅕",
}
REAL_TEXT = [
    "I'm you'RE he'Ll we'd 'tis don’t O'Neill's 'ſ it'S THEY'VE",
    "1 12 123 1234 12345 ½ ² Ⅷ ٣٤٥٦ ໑໒໓ 一二三 3.14159 0x7fff 1e-10 2026-11-15",
    "camelCase HTTPServer XMLHttpRequest snake_case SCREAMING_CASE ǅungla ʰªº iPhone eBay",
    "Größe Straße naïve façade Ελληνικά όχι русский язык українська Việt Nam İstanbul",
    "עברית שָׁלוֹם العربية مَرْحَبًا हिन्दी नमस्ते বাংলা தமிழ் ไทยสวัสดี ລາວ မြန်မာ ქართული",
    "日本語の文章です。東京タワー 한국어 문장입니다 汉字没有空格的句子 𠜎𠜱 ㍻ ｶﾀｶﾅ",
    "👩‍👩‍👧‍👦 🇩🇪🇯🇵 👍🏽 ❤️ e\u0301 n\u0303 ﬁ ﷽ Z͑ͫ̓͂ \u200b\u200d\ufeff",
    "!!! ... --- ??!\n//\r\n/* */ $%^ <|> <| end |> <|endoftext| a\u2028b\u2029c\x0bd\x0ce\x85f",
    "http://example.com/a?b=c&d=%20 C:\\path\\to\\file user@example.org\n\n\n   \n\t\t\r\n  x  ",
    "\x00\x01\x7f\u00ad\ufffd\U0010ffff\ue000\u0378 " + "a" * 90 + " " * 70 + "\n" * 40 + "=" * 50,
    "MTIzNDU2Nzg5MGFiY2RlZmdoaWprbG1ub3BxcnN0dXZ3eHl6QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo=",
]  # fmt: skip
INVALID = [
    b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98", b"\xc0\x80", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
    b"\x80", b"\xbf\xbf", b"\xf8\x88\x80\x80\x80", b"\xff\xfe", b"\xc3\xc3\xa9",
]  # fmt: skip


@functools.cache
def standard_library() -> str:
    """Sources of Python's own library, in order of path, about a megabyte of them."""
    paths = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))[:60]
    text = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    assert len(text) > 1_000_000
    return text


def short_strings() -> Iterator[str]:
    """All of up to four characters of each alphabet, and of five of the one that contractions are made of."""
    for name, alphabet in ALPHABETS.items():
        for length in range(6 if name == "ascii" else 5):
            yield from map("".join, itertools.product(alphabet, repeat=length))


def random_strings() -> Iterator[str]:
    """From one alphabet or all of them, with runs of one character."""
    rng = random.Random(140)
    everything = "".join(ALPHABETS.values())
    for index in range(50_000):
        alphabet = rng.choice([*ALPHABETS.values(), everything])
        size = rng.randint(200, 2_000) if index % 2_000 == 0 else rng.randint(4, 14)
        weights = rng.choices((1, 1, 1, 1, 1, 1, 2, 3, 17), k=size)
        yield "".join(c * n for c, n in zip(rng.choices(alphabet, k=size), weights, strict=True))


def cuts_of_text() -> Iterator[str]:
    """Pieces that start and end anywhere in sources, in prose of many scripts, and pairs of both."""
    rng = random.Random(141)
    prose = "\n".join(REAL_TEXT)
    for text, number in ((standard_library(), 20_000), (prose, 15_000)):
        for _ in range(number):
            start = rng.randrange(len(text))
            yield text[start : start + rng.randint(1, 40)]
    yield from (f"{left}{right}" for left, right in itertools.product(REAL_TEXT, repeat=2))


def any_characters() -> Iterator[str]:
    """Code points from all over, eight to a string."""
    rng = random.Random(142)
    points = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]
    rng.shuffle(points)
    for start in range(0, 80_000, 8):
        yield "".join(map(chr, points[start : start + 8]))


KINDS = {
    "short": short_strings,
    "random": random_strings,
    "cuts": cuts_of_text,
    "any": any_characters,
}


@functools.cache
def strings(kind: str) -> list[str]:
    return list(KINDS[kind]())


@functools.cache
def special_strings() -> list[str]:
    """Text with special tokens at the start, the end and in between, some of them cut short."""
    rng = random.Random(143)
    texts = strings("cuts")
    made: list[str] = []
    for _ in range(6_000):
        parts = rng.choices(texts, k=rng.randint(1, 3)) + rng.choices(
            SPECIAL_TOKENS, k=rng.randint(1, 3)
        )
        rng.shuffle(parts)
        text = "".join(parts)
        made.append(text[: rng.randint(1, len(text))] if rng.random() < 0.2 else text)
    return made


@dataclass(frozen=True)
class Trio:
    """One vocab in three libraries."""

    ours: Tokenizer
    tiktoken: tiktoken.Encoding
    huggingface: tokenizers.Tokenizer


@pytest.fixture(scope="module", params=PATTERNS)
def trio(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trio:
    """Trained on everything that is compared, so that its tokens are of every kind too."""
    pattern: str = request.param
    rng = random.Random(144)
    documents = [standard_library()[:600_000], *(REAL_TEXT * 20)]
    documents += rng.sample(strings("random"), 6_000) + rng.sample(strings("short"), 10_000)
    counter = _core.Counter(_core.Splitter(pattern, SPECIAL_TOKENS), 1)
    counter.count(_core.Reader(), iter([_core.Source.strings(iter(documents), name="test")]))
    merges = _core.train_merges(
        counter.take(), num_tokens=4_000, special_tokens=SPECIAL_TOKENS, min_count=2
    )
    tokens = merges.tokens()
    special = {token: len(tokens) + index for index, token in enumerate(SPECIAL_TOKENS)}
    tokens += [token.encode() for token in SPECIAL_TOKENS]
    ours = Tokenizer.from_ids(tokens, merges.triples(), special, pattern)
    folder = ours.save(tmp_path_factory.mktemp(pattern) / "tok")
    settings = json.loads((folder / "ranks.json").read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", "")  # keyed by path, and paths come again
        ranks = tiktoken.load.load_tiktoken_bpe(str(folder / "ranks.tiktoken"))
    theirs = tiktoken.Encoding(mergeable_ranks=ranks, **settings)
    huggingface = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    return Trio(ours, theirs, huggingface)


def hugging_face_ids(tokenizer: tokenizers.Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    encoded = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
    return [encoding.ids for encoding in encoded]


def assert_same(texts: Sequence[str], ours: list[list[int]], theirs: list[list[int]]) -> None:
    """As an `assert` of its own, pytest would compare thousands of lists line by line."""
    if ours != theirs:
        pairs = zip(texts, ours, theirs, strict=True)
        text, mine, other = next((t, a, b) for t, a, b in pairs if a != b)
        raise AssertionError(f"{text!r}: {mine} != {other}")


def test_ordinary_text(trio: Trio) -> None:
    number = dict.fromkeys(KINDS, 0)
    seen: set[int] = set()
    trio.huggingface.encode_special_tokens = True
    for kind in KINDS:
        texts = strings(kind)
        for start in range(0, len(texts), BATCH):
            batch = texts[start : start + BATCH]
            ours = trio.ours.encode_batch(batch, disallowed_special=()).to_lists()
            theirs = [trio.tiktoken.encode_ordinary(text) for text in batch]
            assert_same(batch, ours, theirs)
            theirs = hugging_face_ids(trio.huggingface, batch)
            assert_same(batch, ours, theirs)
            number[kind] += len(batch)
            seen.update(itertools.chain.from_iterable(ours))
    assert min(number.values()) >= 10_000, number
    assert sum(number.values()) >= LEAST_STRINGS, number
    # Nearly every token came up somewhere, and no special token did.
    ordinary = set(range(trio.ours.vocab_size - len(SPECIAL_TOKENS)))
    assert seen <= ordinary
    assert len(seen) > 0.9 * len(ordinary)


def test_every_named_pattern_is_compared() -> None:
    assert set(PATTERNS) == set(NAMED)


def test_every_class_is_in_some_alphabet() -> None:
    import regex

    questions = [
        r"'", r"(?i:[sdmt])", r"(?i:l)", r"(?i:[vr])", r"(?i:e)", " ", r"\p{Lu}", r"\p{Ll}", r"\p{Lt}",
        r"\p{Lm}", r"\p{Lo}", r"\p{M}", r"\p{Nd}", r"\p{No}", "\n", "\r", r"[^\S \r\n]", r"\p{P}", "/",
        r"\p{S}", r"\p{Cn}", r"\p{Cc}", "[\U00010000-\U0010ffff]",
    ]  # fmt: skip
    characters = "".join(ALPHABETS.values())
    assert [q for q in questions if not regex.search(q, characters)] == []
    assert all(len(set(alphabet)) == 11 for alphabet in ALPHABETS.values())


def test_special_tokens_as_ids(trio: Trio) -> None:
    texts = special_strings()
    ours = trio.ours.encode_batch(texts, allowed_special="all").to_lists()
    theirs = [trio.tiktoken.encode(text, allowed_special="all") for text in texts]
    assert_same(texts, ours, theirs)
    trio.huggingface.encode_special_tokens = False
    theirs = hugging_face_ids(trio.huggingface, texts)
    assert_same(texts, ours, theirs)
    found = set(trio.ours.special_tokens.values())
    assert sum(not found.isdisjoint(ids) for ids in ours) > 4_500


def test_special_tokens_as_text(trio: Trio) -> None:
    texts = special_strings()
    ours = trio.ours.encode_batch(texts, disallowed_special=()).to_lists()
    theirs = [trio.tiktoken.encode_ordinary(text) for text in texts]
    assert_same(texts, ours, theirs)
    trio.huggingface.encode_special_tokens = True
    theirs = hugging_face_ids(trio.huggingface, texts)
    assert_same(texts, ours, theirs)
    assert all(set(trio.ours.special_tokens.values()).isdisjoint(ids) for ids in ours)


def test_some_special_tokens_as_ids_and_some_refused(trio: Trio) -> None:
    """Every mix of allowed, refused and neither, as tiktoken has it: the same ids or an error from both."""
    refused = 0
    texts = iter(special_strings())
    for policies in itertools.product(("allowed", "refused", "neither"), repeat=3):
        named = dict(zip(SPECIAL_TOKENS, policies, strict=True))
        allowed = {token for token, policy in named.items() if policy == "allowed"}
        disallowed = {token for token, policy in named.items() if policy == "refused"}
        for text in itertools.islice(texts, 200):
            try:
                theirs = trio.tiktoken.encode(
                    text, allowed_special=allowed, disallowed_special=disallowed
                )
            except ValueError:
                refused += 1
                with pytest.raises(VocabError, match="special token"):
                    trio.ours.encode(text, allowed_special=allowed, disallowed_special=disallowed)
                continue
            ours = trio.ours.encode(text, allowed_special=allowed, disallowed_special=disallowed)
            assert ours == theirs, (text, named)
    assert refused > 1_000


def test_of_special_tokens_that_overlap_the_longest_wins(tmp_path: Path) -> None:
    """As in Hugging Face; in tiktoken it depends on the order of a hash map."""
    special = ["<|a|>", "<|a|>b", "<|a|><|a|>", "a|>", "ab", "bab"]
    vocab = {byte: bytes([byte]) for byte in range(256)}
    ours = Tokenizer.from_vocab(vocab, [], special, "gpt4")
    theirs = tokenizers.Tokenizer.from_file(str(ours.save(tmp_path / "tok") / "tokenizer.json"))
    rng = random.Random(147)
    parts = [*special, "<|", "|>", "x", " ", "a", "b"]
    texts = ["".join(rng.choices(parts, k=rng.randint(1, 8))) for _ in range(5_000)]
    ids = ours.encode_batch(texts, allowed_special="all").to_lists()
    assert_same(texts, ids, hugging_face_ids(theirs, texts))
    assert {token_id for row in ids for token_id in row} >= set(ours.special_tokens.values())


def test_the_defaults_refuse_what_tiktoken_refuses(trio: Trio) -> None:
    refused = 0
    for text in special_strings()[:2_000]:
        try:
            theirs = trio.tiktoken.encode(text)
        except ValueError:
            refused += 1
            with pytest.raises(VocabError):
                trio.ours.encode(text)
            continue
        assert trio.ours.encode(text) == theirs
    assert 1_000 < refused < 2_000


def test_bytes_that_are_not_utf8(trio: Trio) -> None:
    """Each pretoken by tiktoken's merging of one piece, which takes any bytes."""
    rng = random.Random(145)
    splitter = _core.Splitter(trio.ours.pattern)
    texts: list[bytes] = []
    for text in rng.sample(strings("random"), 3_000) + rng.sample(strings("cuts"), 3_000):
        data = text.encode()
        cut = rng.randint(0, len(data))
        texts.append(data[:cut] + rng.choice(INVALID) + data[cut:])
    texts += [rng.randbytes(rng.randint(1, 40)) for _ in range(3_000)]
    ours = trio.ours.encode_batch(texts, disallowed_special=()).to_lists()
    for data, ids in zip(texts, ours, strict=True):
        expected: list[int] = []
        for pretoken in splitter.split(data):
            expected += trio.tiktoken._encode_single_piece(pretoken)
        assert ids == expected, data


def test_decoding_any_ids(trio: Trio) -> None:
    """Ids in no order are mostly bytes that are no text; all three put U+FFFD in the same places."""
    rng = random.Random(146)
    ordinary = range(trio.ours.vocab_size - len(SPECIAL_TOKENS))
    rows = [rng.choices(ordinary, k=rng.randint(0, 12)) for _ in range(10_000)]
    # The single bytes make every kind of broken character.
    rows += [rng.choices(range(256), k=rng.randint(1, 6)) for _ in range(10_000)]
    ours = trio.ours.decode_batch(rows)
    assert ours == [trio.tiktoken.decode(row) for row in rows]
    assert ours == trio.huggingface.decode_batch(rows, skip_special_tokens=False)
    assert sum("\ufffd" in text for text in ours) > 5_000
    assert [trio.ours.decode_bytes(row) for row in rows] == [
        trio.tiktoken.decode_bytes(row) for row in rows
    ]


def test_ids_given_back_are_the_text(trio: Trio) -> None:
    texts = special_strings()
    batch = trio.ours.encode_batch(texts, allowed_special="all")
    rows = batch.to_lists()
    assert trio.ours.decode_batch(batch) == texts
    assert trio.tiktoken.decode_batch(rows, num_threads=1) == texts
    assert trio.huggingface.decode_batch(rows, skip_special_tokens=False) == texts
