"""ranks.tiktoken: written when tiktoken gives the same ids, and only then."""

import base64
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
import tiktoken

from tokenmill import _core
from tokenmill.errors import ConfigError, FormatError
from tokenmill.tokenizer.artifact import build_bpe, read_tokenizer
from tokenmill.tokenizer.formats import live_objects, tiktoken_ranks
from tokenmill.tokenizer.vocab import Vocab, vocab_from_bytes

BYTES = {byte: bytes([byte]) for byte in range(256)}


def vocab_of(merges: list[str], ids: list[int] | None = None, pattern: str = "gpt2") -> Vocab:
    """A vocab with `merges` like "a b"; new tokens take `ids`, else 256 and on."""
    halves = [merge.encode().split(b" ") for merge in merges]
    pairs = [(left, right) for left, right in halves]
    tokens = list(dict.fromkeys(left + right for left, right in pairs))
    ids = ids or list(range(256, 256 + len(tokens)))
    return vocab_from_bytes(BYTES | dict(zip(ids, tokens, strict=True)), pairs, [], pattern)


def test_no_obstacle_for_what_training_makes() -> None:
    assert tiktoken_ranks.obstacle(vocab_of(["a b", "ab c", "b c"])) is None


def test_no_obstacle_for_merges_that_never_apply() -> None:
    shared = vocab_of(["a b", "ab c", "b c", "a bc"])
    assert tiktoken_ranks.obstacle(shared) is None
    assert shared.proof.unused_merges == 1


def test_obstacles() -> None:
    swapped = vocab_of(["a b", "c d"], ids=[257, 256])
    assert tiktoken_ranks.obstacle(swapped) == (
        "merge 1 makes id 256 after 257, and tiktoken merges by lowest id"
    )
    unreachable = vocab_of(["a b", "b c", "a bc"])
    assert tiktoken_ranks.obstacle(unreachable) == (
        "no merges lead to token 258, `abc`, but tiktoken would make it anyway"
    )
    other_parts = Vocab(
        _core.Vocab(
            [*BYTES.values(), b"bc", b"abc", b"ab"],
            [(98, 99, 256), (97, 256, 257), (97, 98, 258), (258, 99, 257)],
            {},
        ),
        "gpt2",
    )
    assert tiktoken_ranks.obstacle(other_parts) is None
    normalized = replace(vocab_of(["a b"]), normalizer="nfc")
    assert tiktoken_ranks.obstacle(normalized) == (
        "text is normalized to NFC first, and tiktoken does not do that"
    )


def as_tiktoken(vocab: Vocab) -> tiktoken.Encoding:
    files = tiktoken_ranks.write(vocab)
    lines = (line.split() for line in files["ranks.tiktoken"].splitlines())
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    return tiktoken.Encoding(mergeable_ranks=ranks, **json.loads(files["ranks.json"]))


@pytest.mark.parametrize("ignore_merges", [False, True])
def test_without_obstacle_all_ids_are_equal_and_with_one_some_are_not(ignore_merges: bool) -> None:
    # Random merges over two letters, most of them nothing training would make.
    rng = random.Random(5)
    texts = ["".join(rng.choice("ab") for _ in range(rng.randint(1, 12))) for _ in range(60)]
    same = different = 0
    for _ in range(300):
        tokens = ["a", "b"]
        merges: list[str] = []
        for _ in range(rng.randint(1, 6)):
            merge = f"{rng.choice(tokens)} {rng.choice(tokens)}"
            if merge not in merges:
                merges.append(merge)
                tokens.append(merge.replace(" ", ""))
        ids = list(range(256, 256 + len(set(tokens)) - 2))
        if rng.random() < 0.2:
            rng.shuffle(ids)
        vocab = vocab_of(merges, ids)
        core = _core.Vocab(vocab.tokens, vocab.merges, {}, ignore_merges=ignore_merges)
        vocab = replace(vocab, core=core)
        bpe, theirs = build_bpe(vocab), as_tiktoken(vocab)
        equal = all(bpe.encode(text, (), ()) == theirs.encode_ordinary(text) for text in texts)
        if tiktoken_ranks.obstacle(vocab) is None:
            assert equal, merges
            same += 1
        else:
            different += not equal
    assert same >= 50
    assert different >= (5 if ignore_merges else 50)


def test_ranks_that_no_training_makes_give_tiktokens_ids() -> None:
    # Any set of tokens is a tokenizer to tiktoken: parts may have higher ids than what they make,
    # and some tokens are made by nothing.
    rng = random.Random(7)
    texts = ["".join(rng.choice("ab") for _ in range(rng.randint(1, 30))) for _ in range(40)]
    unreachable = 0
    for _ in range(300):
        words = ("".join(rng.choice("ab") for _ in range(rng.randint(2, 6))) for _ in range(10))
        tokens = [*BYTES.values(), *(word.encode() for word in dict.fromkeys(words))]
        ranks = {token: rank for rank, token in enumerate(tokens)}
        theirs = tiktoken.Encoding("x", pat_str=r"[ab]+", mergeable_ranks=ranks, special_tokens={})
        vocab = live_objects.read(theirs)
        assert vocab.pattern == "[ab]+"
        assert vocab.ignore_merges is bool(vocab.proof.unreachable)
        assert vocab.proof.agrees
        unreachable += vocab.ignore_merges
        bpe = build_bpe(vocab)
        for text in texts:
            assert bpe.encode(text, (), ()) == theirs.encode_ordinary(text), (tokens[256:], text)
    assert 50 <= unreachable < 300


def test_settings_beside_the_ranks() -> None:
    vocab = vocab_from_bytes(BYTES, [], ["<s>"], "gpt4")
    settings = json.loads(tiktoken_ranks.write(vocab)["ranks.json"])
    assert settings["name"] == "gpt4-257"
    assert settings["special_tokens"] == {"<s>": 256}
    assert settings["explicit_n_vocab"] == 257
    assert settings["pat_str"].startswith("(?i:'s|")
    holes = vocab_from_bytes(BYTES, [], {"<s>": 257}, r"a$|[\s\S]")
    settings = json.loads(tiktoken_ranks.write(holes)["ranks.json"])
    assert settings.keys() == {"name", "pat_str", "special_tokens"}, "tiktoken counts ids"
    assert settings["pat_str"] == r"a(?=\n?\z)|[\s\S]"
    assert as_tiktoken(holes).encode("a\n<s>", allowed_special="all") == [97, 10, 257]


def test_notes() -> None:
    assert tiktoken_ranks.notes(vocab_from_bytes(BYTES, [], ["<s>", "<t>"], "gpt4")) == []
    (gaps,) = tiktoken_ranks.notes(vocab_from_bytes(BYTES, [], [], "[a-z]+"))
    assert "drops text that no match" in gaps
    (prefix,) = tiktoken_ranks.notes(vocab_from_bytes(BYTES, [], ["<s>", "<s><t>"], "gpt4"))
    assert "`<s><t>`" in prefix


LINES = b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in BYTES.items())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"YWI= 256\nYg==\n", "line 258 is not a base64 token and a rank: `Yg==`"),
        (b"YWI= x\n", "line 257 is not"),
        (b"YWI= -1\n", "line 257 is not"),
        (b"YWI= +256\n", "line 257 is not"),
        (b"YWI= 1_0\n", "line 257 is not"),
        (b"YWI= 99999999999999999999\n", "line 257 is not"),
        (b"!!! 256\n", "line 257 is not"),
        (b"YWI=  256\n", "line 257 is not"),
        (b"YQ== 1 2\n", "line 257 is not"),
        (b"\xff\xfe\n", r"line 257 is not a base64 token and a rank: `\\xff\\xfe`"),
        (b"YQ== 256\n", "line 257 gives `a` a second rank"),
        (b"YWI= 97\n", "line 257 gives rank 97, as line 98 does already"),
        (b"YWI= 300\n", "has ranks up to 300, but no rank 256"),
        (b"YWI= 4294967295\n", "has ranks up to 4294967295, but no rank 256"),
    ],
)
def test_broken_lines(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=r"`f\.tiktoken` " + message):
        tiktoken_ranks.read_ranks(LINES + data, {}, "gpt4", "f.tiktoken")


def test_missing_bytes() -> None:
    with pytest.raises(FormatError, match=r"`ranks.tiktoken` has no token for byte 0x00 and 254"):
        tiktoken_ranks.read_ranks(b"YQ== 0\n", {}, "gpt4")


def test_reading_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.tiktoken"
    file.write_bytes(LINES + b"dGhl 257\r\n\ndGg= 256")
    with pytest.raises(ConfigError, match="say nothing about the split pattern") as caught:
        read_tokenizer(file)
    assert "pass `pattern=`" in (caught.value.hint or "")
    read = read_tokenizer(file, pattern="gpt4")
    assert (read.pattern, read.special_tokens) == ("gpt4", {})
    assert read.merges == ((116, 104, 256), (256, 101, 257))
    named = read_tokenizer(tmp_path, pattern="gpt4", special_tokens=["<s>", "<t>"])
    assert named.special_tokens == {"<s>": 258, "<t>": 259}
    by_id = read_tokenizer(file, pattern="gpt4", special_tokens={"<s>": 300})
    assert by_id.proof.ids_without_token == tuple(range(258, 300))
    settings = {"pat_str": r"\S+$|[\s\S]", "special_tokens": {"<u>": 258}, "name": "x"}
    (tmp_path / "mine.json").write_text(json.dumps(settings))
    described = read_tokenizer(file)
    assert (described.pattern, described.special_tokens) == (r"\S+\Z|[\s\S]", {"<u>": 258})
    assert read_tokenizer(file, pattern="gpt2").special_tokens == {"<u>": 258}


def test_a_published_file_is_named_in_the_hint(tmp_path: Path) -> None:
    tokens = [bytes([a, b, c]) for a in range(256) for b in range(256) for c in range(2)]
    lines = [base64.b64encode(token) + b" %d\n" % (256 + i) for i, token in enumerate(tokens)]
    file = tmp_path / "tokenizer.model"
    file.write_bytes(LINES + b"".join(lines[: 100_256 - 256]))
    with pytest.raises(ConfigError) as caught:
        read_tokenizer(file)
    assert 'as many ranks as cl100k_base: if it is that, pass `pattern="cl100k"`' in str(
        caught.value
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("{}", "key `pat_str` is missing"),
        ('{"pat_str": 3, "special_tokens": {}}', "at `pat_str`: expected a string"),
        ('{"pat_str": "(", "special_tokens": {}}', r"at `pat_str`: `\(` cannot be used"),
        ('{"pat_str": "[a[b]]", "special_tokens": {}}', "at `pat_str`: .* no equivalent"),
        ('{"pat_str": "a", "special_tokens": []}', "at `special_tokens`: expected an object"),
        ('{"pat_str": "a", "special_tokens": {"<s>": "x"}}', "at `special_tokens.<s>`: expected"),
        ('{"pat_str": "a", "special_tokens": {"<s>": 97}}', "special token `<s>` has id 97, which"),
        ('{"pat_str": "a", "special_tokens": {"<s>": 4000000000}}', "`<s>` has id 4000000000, not"),
        ('{"pat_str": "a", "special_tokens": {"<s>": 2000000000}}', "far above all others"),
        ('{"pat_str": "a", "special_tokens": {"\\ud800": 256}}', "half of a surrogate pair"),
        ('{"pat_str": "a", "special_tokens": {}, "explicit_n_vocab": 300}', "are 256 tokens, but"),
    ],
)
def test_broken_settings(tmp_path: Path, settings: str, message: str) -> None:
    (tmp_path / "a.tiktoken").write_bytes(LINES)
    (tmp_path / "a.json").write_text(settings)
    with pytest.raises(FormatError, match=message):
        read_tokenizer(tmp_path / "a.tiktoken")
