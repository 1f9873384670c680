"""What everything else is held against is itself held against other people's trainers."""

import argparse
import inspect
import itertools
import json
import random
from collections import Counter
from pathlib import Path

import pytest
import regex
import rustbpe
import tokenizers

from tokenmill import reference
from tokenmill.tokenizer.formats.byte_letters import from_letters

GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
TEXT = inspect.getsource(argparse)[:30_000] + "größer, Straße, 日本語 日本, don't\n" * 3


def split(text: bytes) -> list[bytes]:
    return [match.encode() for match in regex.findall(GPT2, text.decode())]


def merges_as_bytes(learned: reference.Learned) -> list[tuple[bytes, bytes]]:
    return [(learned.tokens[left], learned.tokens[right]) for left, right, _ in learned.merges]


def test_fits_on_two_screens() -> None:
    assert len(Path(reference.__file__).read_text().splitlines()) < 120


def test_same_merges_as_hugging_face() -> None:
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400,
        show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE())
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    theirs.train_from_iterator([TEXT], trainer)
    expected = [
        (from_letters(left), from_letters(right))
        for left, right in json.loads(theirs.to_str())["model"]["merges"]
    ]
    counts = reference.count_pretokens([TEXT.encode()], split)
    ours = reference.train(counts, 400, ties="huggingface")
    assert merges_as_bytes(ours) == expected
    assert len(expected) == 144
    # The corpus tells the rules apart, or the comparison above would say nothing.
    assert merges_as_bytes(reference.train(counts, 400, ties="lowest-ids")) != expected


def test_same_merges_as_rustbpe() -> None:
    theirs = rustbpe.Tokenizer()  # pyright: ignore[reportAttributeAccessIssue]
    theirs.train_from_iterator([TEXT], 400, pattern=GPT2)
    counts = reference.count_pretokens([TEXT.encode()], split)
    assert reference.train(counts, 400).tokens == [
        token for token, _ in theirs.get_mergeable_ranks()
    ]


def test_greatest_bytes_is_what_the_course_defines() -> None:
    counts = reference.count_pretokens([TEXT[:4000].encode()], split)
    words = {tuple(bytes([b]) for b in word): count for word, count in counts.items()}
    expected: list[tuple[bytes, bytes]] = []
    for _ in range(100):
        pairs: Counter[tuple[bytes, bytes]] = Counter()
        for word, count in words.items():
            for pair in itertools.pairwise(word):
                pairs[pair] += count
        best = max(pairs.items(), key=lambda item: (item[1], item[0]))[0]
        expected.append(best)
        words = {course_merge(word, best): count for word, count in words.items()}
    ours = reference.train(counts, 356, ties="greatest-bytes")
    assert merges_as_bytes(ours) == expected


def course_merge(word: tuple[bytes, ...], pair: tuple[bytes, bytes]) -> tuple[bytes, ...]:
    out: list[bytes] = []
    index = 0
    while index < len(word):
        if word[index : index + 2] == pair:
            out.append(pair[0] + pair[1])
            index += 2
        else:
            out.append(word[index])
            index += 1
    return tuple(out)


def test_unknown_tie_rule() -> None:
    with pytest.raises(KeyError, match="first-seen"):
        reference.train({b"ab": 1}, 300, ties="first-seen")


def test_special_tokens_are_not_counted() -> None:
    counts = reference.count_pretokens([b"a<s>b", b"<s><s>a"], split, ["<s>"])
    assert counts == {b"a": 2, b"b": 1}


def test_training_never_makes_the_same_bytes_twice() -> None:
    # Two borders and the merges so far leave one way to be split between them; so merges that spell
    # the same bytes come from files only, and every token learned is reachable (docs/formats.md).
    rng = random.Random(7)
    for _ in range(100):
        word = bytes(rng.choice(b"aab") for _ in range(40))
        counts = {word[:25]: rng.randint(1, 3), word[25:]: rng.randint(1, 3), b"a" * 11: 2}
        ties = rng.choice(["lowest-ids", "huggingface", "greatest-bytes"])
        learned = reference.train(counts, 290, ties=ties)
        assert len(learned.tokens) == 256 + len(learned.merges)
        for token_id, token in list(enumerate(learned.tokens))[256:]:
            assert reference.encode(token, learned, lambda text: [text], {}) == [token_id]


def test_round_trip_of_any_bytes() -> None:
    rng = random.Random(3)
    learned = reference.train({b"\xff\xfe": 2, b"ab": 3}, 300)
    specials = {"<s>": len(learned.tokens)}
    tokens = [*learned.tokens, b"<s>"]
    for _ in range(50):
        text = b"<s>".join(rng.randbytes(rng.randint(0, 20)) + b"ab\xff\xfe" for _ in range(3))
        ids = reference.encode(text, learned, lambda stretch: [stretch], specials)
        assert reference.decode(ids, tokens) == text
        assert ids.count(specials["<s>"]) == 2
