"""Settings: contradictions are caught early, profiles set several at once, and the ids lie where
they should."""

import random
from typing import Any

import pytest

import tokenmill as tm
from tokenmill.errors import ConfigError, VocabError
from tokenmill.train.settings import PROFILES, TrainSettings

TEXT = "low lower lowest newer newest widest " * 3


def train(**keywords: Any) -> tm.Tokenizer:
    merged: dict[str, Any] = {"vocab_size": 270, **keywords}
    return tm.train(tm.documents([TEXT]), **merged)


@pytest.mark.parametrize(
    ("keywords", "error", "reason"),
    [
        (
            {"vocab_size": 200},
            VocabError,
            r"vocab size 200 is below 257 \(256 bytes \+ 1 special token\)",
        ),
        ({"vocab_size": 257, "special_tokens": ["<a>", "<b>"]}, VocabError, "257 is below 258"),
        ({"vocab_size": 260, "reserve": 10}, VocabError, "260 is below 267"),
        ({"vocab_size": 2**31 + 1}, VocabError, r"2147483649 is above 2147483648 \(2\*\*31\)"),
        ({"vocab_size": 300.5}, VocabError, r"whole number, found `300\.5`"),
        ({"special_tokens": ["<a>", "<a>"]}, ConfigError, "`<a>` is given twice"),
        ({"special_tokens": [""]}, ConfigError, "a special token is empty"),
        ({"special_tokens": ["a"]}, ConfigError, "`a` is a single byte"),
        ({"special_tokens": "<a>"}, ConfigError, "given as the str `<a>`"),
        ({"special_tokens": ["<|reserved_0|>"], "reserve": 1}, ConfigError, "given twice"),
        ({"ties": "lowest"}, ConfigError, "unknown tie rule `lowest`"),
        ({"special_placement": "middle"}, ConfigError, "unknown special placement `middle`"),
        ({"pattern": "gtp4"}, ConfigError, "unknown pattern `gtp4`"),
        ({"pattern": "cl100k_base"}, ConfigError, "unknown pattern `cl100k_base`"),
        ({"pattern": ""}, ConfigError, "must be a name or a regex"),
        ({"pattern": "[a"}, ConfigError, r"\[a"),
        ({"pattern": "a*"}, ConfigError, r"a\*"),
        ({"profile": "gpt-4"}, ConfigError, "unknown profile `gpt-4`"),
        ({"engine": "gpu"}, ConfigError, "unknown engine `gpu`"),
        ({"min_count": 0}, ConfigError, "min count 0 is below 1"),
        ({"max_token_bytes": 0}, ConfigError, "max token bytes 0 is below 1"),
        ({"threads": 0}, ConfigError, "threads is 0, not between 1 and 1024"),
        ({"reserve": -1}, ConfigError, "reserve -1 is below 0"),
        ({"separator": ""}, ConfigError, "separator is empty"),
        ({"counts": tm.PretokenCounts.from_dict({})}, ConfigError, "not both"),
    ],
)
def test_what_makes_no_sense_is_named(
    keywords: dict[str, Any], error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        train(**keywords)


def test_unknown_names_know_the_nearest() -> None:
    for pattern, hint in (
        ("gtp4", "did you mean `gpt4`?"),
        ("cl100k_base", "it is called `gpt4` here"),
    ):
        with pytest.raises(ConfigError) as caught:
            TrainSettings(pattern=pattern)
        assert caught.value.hint == hint


def test_text_or_counts() -> None:
    with pytest.raises(ConfigError, match="needs text or counts"):
        tm.train()
    counts = tm.count(tm.documents([TEXT]))
    with pytest.raises(ConfigError, match="the input is counts, not text"):
        tm.train(counts)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ConfigError, match="`doc_cap` is about reading text"):
        tm.train(counts=counts, doc_cap=5)
    with pytest.raises(ConfigError, match="the profile sets doc cap 10000"):
        tm.train(
            counts=tm.count(
                tm.documents([TEXT]), pattern="nanochat", special_tokens=list(_nanochat_specials())
            ),
            profile="nanochat",
        )


def _nanochat_specials() -> tuple[str, ...]:
    specials = PROFILES["nanochat"]["special_tokens"]
    assert isinstance(specials, tuple)
    return specials


@pytest.mark.parametrize(
    ("placement", "first_special", "byte_a", "first_learned"),
    [("last", 268, 97, 256), ("after-bytes", 256, 97, 258), ("first", 0, 99, 258)],
)
def test_ids_lie_where_the_placement_says(
    placement: str, first_special: int, byte_a: int, first_learned: int
) -> None:
    tokenizer = train(special_tokens=["<a>", "<b>"], special_placement=placement)
    assert tokenizer.vocab_size == 270
    assert tokenizer.special_tokens == {"<a>": first_special, "<b>": first_special + 1}
    assert tokenizer.token_id(b"a") == byte_a
    left, right = tokenizer.merges[0]
    assert tokenizer.token_bytes(first_learned) == left + right
    assert tokenizer.merges == train(special_tokens=["<a>", "<b>"]).merges
    ids = tokenizer.encode("lower<b>x", allowed_special="all")
    assert tokenizer.decode(ids) == "lower<b>x"
    assert first_special + 1 in ids


def test_reserved_tokens_follow_the_special_ones() -> None:
    tokenizer = train(special_tokens=["<a>"], reserve=2)
    assert tokenizer.special_tokens == {"<a>": 267, "<|reserved_0|>": 268, "<|reserved_1|>": 269}


def test_no_special_tokens_at_all() -> None:
    tokenizer = train(special_tokens=[])
    assert tokenizer.special_tokens == {}
    assert tokenizer.vocab_size == 270


def test_profiles_and_what_overrules_them() -> None:
    cs336 = train(profile="cs336")
    assert cs336.pattern == "gpt2"
    assert cs336.special_tokens == {"<|endoftext|>": 256}
    nanochat = train(profile="nanochat", vocab_size=None)
    assert nanochat.pattern == "nanochat"
    assert list(nanochat.special_tokens) == [
        "<|bos|>",
        "<|user_start|>",
        "<|user_end|>",
        "<|assistant_start|>",
        "<|assistant_end|>",
        "<|python_start|>",
        "<|python_end|>",
        "<|output_start|>",
        "<|output_end|>",
    ]
    assert train(profile="nanochat", special_tokens=["<x>"]).special_tokens == {"<x>": 269}
    assert train(profile="nanochat", doc_cap=3).training.read.capped_documents == 1
    assert train(profile="nanochat").training.read.capped_documents == 0
    assert set(train(profile="gpt4").special_tokens) >= {"<|endoftext|>", "<|fim_prefix|>"}


def test_ties_differ_as_named() -> None:
    counts = tm.PretokenCounts.from_dict({b"ab": 3, b"yz": 3, b"zz": 3}, special_tokens=[])
    first = {
        ties: tm.train(counts=counts, vocab_size=257, ties=ties).merges[0]
        for ties in ("lowest-ids", "greatest-bytes")
    }
    assert first == {"lowest-ids": (b"a", b"b"), "greatest-bytes": (b"z", b"z")}


@pytest.mark.parametrize("ties", ["lowest-ids", "huggingface", "greatest-bytes"])
def test_the_reference_engine_gives_the_same_tokenizer(ties: str) -> None:
    rng = random.Random(7)
    text = [
        " ".join("".join(rng.choices("abé", k=rng.randint(1, 6))) for _ in range(60))
        for _ in range(5)
    ]
    keywords: dict[str, Any] = {
        "vocab_size": 300,
        "ties": ties,
        "special_tokens": ["<|end|>"],
        "doc_cap": 150,
        "max_chars": 500,
        "max_token_bytes": 5,
    }
    rust = tm.train(tm.documents(text), **keywords)
    reference = tm.train(tm.documents(text), engine="reference", **keywords)
    assert reference == rust
    assert reference.training.bytes_per_token == rust.training.bytes_per_token
    assert reference.training.distinct_pairs == rust.training.distinct_pairs
    assert reference.training.first_shared_merge == rust.training.first_shared_merge
    assert reference.training.read.documents == rust.training.read.documents


def test_the_report_adds_up() -> None:
    text = ["low low<|endoftext|>lower", "newest"]
    report = train(vocab_size=260).training
    assert (report.stopped, report.merges, report.vocab_size) == ("full", 3, 260)
    tokenizer = tm.train(tm.documents(text))
    report = tokenizer.training
    assert report.stopped == "no pairs"
    assert report.vocab_size == tokenizer.vocab_size < 300
    assert report.vocab_bytes == sum(len(token) for token in tokenizer.vocab.values())
    assert (report.read.documents, report.read.bytes, report.read.special_tokens) == (2, 31, 1)
    assert (report.occurrences, report.distinct_pretokens) == (4, 4)
    tokens = sum(len(tokenizer.encode_ordinary(part)) for part in ("low low", "lower", "newest"))
    assert report.bytes_per_token == pytest.approx((31 - 13) / tokens)
    assert report.peak_memory_bytes > 1_000_000
    assert report.wall_seconds >= report.merging_seconds > 0
    stopped = tm.train(tm.documents(text), min_count=2).training
    assert stopped.stopped == "min count"
    assert 0 < stopped.merges < report.merges


def test_pretokens_between_matches_are_kept_and_counted() -> None:
    tokenizer = tm.train(tm.documents(["abc12abc"]), pattern=r"\p{L}+", vocab_size=260)
    assert tokenizer.training.read.unmatched == 1
    assert tokenizer.training.occurrences == 3
