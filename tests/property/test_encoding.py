"""Encoding keeps its promises on text nobody thought of: round trips, cuts, threads, caches, special tokens.

Every way to encode gives the ids of `reference.encode`, the plain Python version, and everything
decodes to what it was. The texts are made of what tokenizers get wrong.
"""

import random
import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenmill import _core, reference
from tokenmill.errors import VocabError
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.tokenizer.vocab import Vocab

GENERAL = r"\p{Lu}?\p{Ll}+|\p{L}|\d{1,2}|\s+(?!\S)|[^\p{L}\d\s]+|\s"
PATTERNS = [*sorted(_core.named_patterns()), GENERAL]
every_pattern = pytest.mark.parametrize("pattern", PATTERNS, ids=[*PATTERNS[:-1], "general"])
SPECIALS = ["<|end|>", "<|end|><|pad|>", "<|", "end|><", " the", "終わり", "aa"]
PIECES = [
    "the", " the", " The", "cat's", "DON'T", "naïve", "camelCase", "e\u0301", "\u0301", " ", "  ", "\n", "\r\n",
    " \n\n", "\t", "\u00a0", "\u3000", "1", "12", "1234567", "½", ".", "...", "?!", "'", "'s", "日本語", "の", "。",
    "終わり", "終", "한국어", "ไทย", "हिन्दी", "العربية", "😀", "👩‍👩‍👧", "🇩🇪", "\u200d", "\ufe0f", "\0", "\x7f", "\u0378",
    "\U000e01ff", "\U0010ffff", "a", "aa", "aaa", "a" * 70, "ab" * 60, "=" * 40, *SPECIALS, "<", "|>", "end",
]  # fmt: skip


def random_text(rng: random.Random, most: int = 30) -> str:
    return "".join(rng.choices(PIECES, k=rng.randint(0, most)))


def random_bytes(rng: random.Random, most: int = 30) -> bytes:
    """Text that was cut, overwritten and mixed with noise."""
    data = bytearray(random_text(rng, most).encode())
    for _ in range(rng.randint(0, 5)):
        at = rng.randint(0, len(data))
        data[at : at + rng.randint(0, 2)] = rng.randbytes(rng.randint(0, 3))
    return bytes(data)


@cache
def trained(pattern: str) -> tuple[list[bytes], list[tuple[int, int, int]], dict[str, int]]:
    """A vocab of a few hundred merges, short and long, over the pieces; special tokens last."""
    rng = random.Random(5)
    text = "".join(random_text(rng) for _ in range(300))
    counts: dict[bytes, int] = {}
    for pretoken in _core.Splitter(pattern).split(text):
        counts[pretoken] = counts.get(pretoken, 0) + 1
    learned = _core.train_merges(_core.Counts.from_mapping(counts), num_tokens=700)
    tokens = learned.tokens()
    specials = {token: len(tokens) + index for index, token in enumerate(SPECIALS)}
    return [*tokens, *(token.encode() for token in SPECIALS)], learned.triples(), specials


@cache
def tokenizer_of(pattern: str) -> Tokenizer:
    return Tokenizer(Vocab(_core.Vocab(*trained(pattern)), pattern))


@cache
def bpe_of(pattern: str, cache_bytes: int) -> _core.Bpe:
    tokens, merges, specials = trained(pattern)
    vocab = _core.Vocab(tokens, merges, specials)
    return _core.Bpe(vocab, _core.Splitter(pattern), cache_bytes=cache_bytes)


def by_reference(pattern: str, text: bytes, allowed: Any = ()) -> list[int]:
    tokens, merges, specials = trained(pattern)
    splitter = _core.Splitter(pattern)
    wanted = {token: specials[token] for token in allowed}
    return reference.encode(text, reference.Learned(tokens, merges), splitter.split, wanted)


def random_cuts(rng: random.Random, text: Any) -> Iterator[Any]:
    start = 0
    while start < len(text):
        end = start + rng.choice((1, 1, 2, 3, 7, 40))
        yield text[start:end]
        start = end


@every_pattern
def test_ids_are_those_of_the_reference(pattern: str) -> None:
    tokenizer, rng = tokenizer_of(pattern), random.Random(pattern)
    for _ in range(40):
        text = random_text(rng, 15)
        assert tokenizer.encode_ordinary(text) == by_reference(pattern, text.encode())
        allowed = rng.sample(SPECIALS, rng.randint(0, len(SPECIALS)))
        ids = tokenizer.encode(text, allowed_special=allowed, disallowed_special=())
        assert ids == by_reference(pattern, text.encode(), allowed)
        data = random_bytes(rng, 15)
        assert tokenizer.encode_ordinary(data) == by_reference(pattern, data)


@every_pattern
def test_round_trips(pattern: str) -> None:
    tokenizer, rng = tokenizer_of(pattern), random.Random(pattern)
    for _ in range(500):
        text, data = random_text(rng), random_bytes(rng)
        assert tokenizer.decode(tokenizer.encode_ordinary(text)) == text
        assert tokenizer.decode(tokenizer.encode(text, allowed_special="all")) == text
        assert tokenizer.decode_bytes(tokenizer.encode_ordinary(data)) == data
        assert tokenizer.decode_bytes(tokenizer.encode(data, allowed_special="all")) == data


@given(st.text())
def test_round_trip_of_any_text(text: str) -> None:
    for pattern in PATTERNS:
        assert tokenizer_of(pattern).decode(tokenizer_of(pattern).encode_ordinary(text)) == text


@given(st.binary())
def test_round_trip_of_any_bytes(data: bytes) -> None:
    for pattern in PATTERNS:
        tokenizer = tokenizer_of(pattern)
        assert tokenizer.decode_bytes(tokenizer.encode_ordinary(data)) == data


@given(st.text(st.characters(exclude_categories=[])))
def test_lone_surrogates_are_the_bytes_that_would_encode_them(text: str) -> None:
    tokenizer = tokenizer_of("gpt4")
    data = text.encode("utf-8", "surrogatepass")
    ids = tokenizer.encode_ordinary(text)
    assert ids == tokenizer.encode_ordinary(data)
    assert tokenizer.decode_bytes(ids).decode("utf-8", "surrogatepass") == text
    assert tokenizer.decode(ids) == data.decode("utf-8", "replace")


@every_pattern
def test_streaming_is_the_whole(pattern: str) -> None:
    tokenizer, rng = tokenizer_of(pattern), random.Random(pattern)
    for _ in range(150):
        text: Any = rng.choice((random_text, random_bytes))(rng)
        allowed = rng.choice(("all", (), rng.sample(SPECIALS, 3)))
        whole = tokenizer.encode(text, allowed_special=allowed, disallowed_special=())
        ids = tokenizer.encode_iterable(
            random_cuts(rng, text), allowed_special=allowed, disallowed_special=()
        )
        assert list(ids) == whole


@every_pattern
def test_special_tokens_raise_in_streams_as_in_the_whole(pattern: str) -> None:
    tokenizer, rng = tokenizer_of(pattern), random.Random(pattern)
    raised = 0
    for _ in range(50):
        text = random_text(rng, 8)
        allowed = rng.sample(SPECIALS, 4)
        stream = tokenizer.encode_iterable(random_cuts(rng, text), allowed_special=allowed)
        # The longest special token where several start, allowed or not.
        found = re.findall("|".join(map(re.escape, sorted(SPECIALS, key=len, reverse=True))), text)
        if set(found) <= set(allowed):
            assert list(stream) == tokenizer.encode(text, allowed_special=allowed)
            continue
        raised += 1
        first = next(token for token in found if token not in allowed)
        for call in (
            lambda: list(stream),  # noqa: B023  called at once
            lambda: tokenizer.encode(text, allowed_special=allowed),  # noqa: B023
            lambda: tokenizer.encode_to_numpy(text, allowed_special=allowed),  # noqa: B023
            lambda: tokenizer.count_tokens(text, allowed_special=allowed),  # noqa: B023
        ):
            with pytest.raises(VocabError, match=re.escape(f"the special token `{first}`")):
                call()
    assert 3 < raised < 47


@every_pattern
def test_ordinary_text_never_yields_a_special_id(pattern: str) -> None:
    tokenizer, rng = tokenizer_of(pattern), random.Random(pattern)
    special_ids = set(tokenizer.special_tokens.values())
    for _ in range(300):
        text = "".join(rng.choices([*SPECIALS, "<", "|", ">", " ", "end"], k=12))
        assert special_ids.isdisjoint(tokenizer.encode_ordinary(text))
        batch = tokenizer.encode_batch([text], disallowed_special=())
        assert special_ids.isdisjoint(batch.ids.tolist())
        stream = tokenizer.encode_iterable(random_cuts(rng, text), disallowed_special=())
        assert special_ids.isdisjoint(stream)


@cache
def long_text() -> str:
    rng = random.Random(1)
    return "".join(random_text(rng, 400) + rng.choice(("", " ", "x" * 3000)) for _ in range(500))


@every_pattern
def test_threads_never_change_an_id(pattern: str) -> None:
    tokenizer, text = tokenizer_of(pattern), long_text()
    assert len(text.encode()) > 1 << 20, "long enough to be shared among threads"
    expected = tokenizer.encode(text, allowed_special="all")
    for threads in (1, 2, 4, 8):
        ids = tokenizer.encode_to_numpy(text, allowed_special="all", threads=threads)
        assert ids.tolist() == expected
        assert tokenizer.count_tokens(text, allowed_special="all", threads=threads) == len(ids)


@every_pattern
def test_batches_threads_and_caches_never_change_an_id(pattern: str) -> None:
    rng = random.Random(2)
    tokenizer = tokenizer_of(pattern)
    texts = [random_text(rng, rng.choice((3, 50))) for _ in range(500)]
    texts[7] = long_text()[:400_000]
    expected = [tokenizer.encode(text, allowed_special="all") for text in texts]
    for threads in (1, 2, 4, 8):
        assert (
            tokenizer.encode_batch(texts, allowed_special="all", threads=threads).to_lists()
            == expected
        )
    for cache_bytes in (0, 1, 4096, 1 << 18):
        bpe = bpe_of(pattern, cache_bytes)
        assert bpe.encode_lists(texts, "all", (), 2) == expected
        assert [bpe.encode(text, "all", ()) for text in texts[:200]] == expected[:200]


@every_pattern
def test_offsets_cover_the_text(pattern: str) -> None:
    tokenizer, rng = tokenizer_of(pattern), random.Random(pattern)
    for _ in range(100):
        text = random_text(rng)
        ids, chars = tokenizer.encode_with_offsets(text, allowed_special="all")
        data, spelled = text.encode(), [tokenizer.token_bytes(i) for i in ids]
        offsets = tokenizer.encode_with_offsets(text, unit="bytes", allowed_special="all")[1]
        assert [data[start:end] for start, end in offsets] == spelled
        for token, (start, end), (first, last) in zip(spelled, offsets, chars, strict=True):
            # The characters a token has a part of: from the one it starts in to the one it ends in.
            assert token in text[first:last].encode()
            assert len(data[:start].decode("utf-8", "ignore")) == first
            assert len(data[:end].decode("utf-8", "replace")) == last


@every_pattern
def test_truncate_and_split_follow_the_ids(pattern: str) -> None:
    tokenizer, rng = tokenizer_of(pattern), random.Random(pattern)
    for _ in range(100):
        data: Any = rng.choice((random_text, random_bytes))(rng)
        ids = tokenizer.encode(data, allowed_special="all")
        n = rng.randint(1, len(ids) + 2)
        start = tokenizer.truncate(data, n, allowed_special="all")
        pieces = tokenizer.split(data, n, allowed_special="all")
        assert data.startswith(start)
        assert type(data)().join(pieces) == data
        if isinstance(data, bytes):
            assert start == tokenizer.decode_bytes(ids[:n])
            assert pieces == [tokenizer.decode_bytes(ids[i : i + n]) for i in range(0, len(ids), n)]
        else:
            assert tokenizer.decode_bytes(ids[:n]).startswith(start.encode())
            assert not pieces or pieces[0].startswith(start)


def test_truncate_is_a_prefix_of_long_texts_too() -> None:
    rng = random.Random(3)
    text = long_text()
    for pattern in PATTERNS:
        tokenizer = tokenizer_of(pattern)
        ids = tokenizer.encode(text, allowed_special="all")
        for n in (1, 100, 5000, rng.randint(1, len(ids))):
            data = tokenizer.truncate(text.encode(), n, allowed_special="all")
            assert data == tokenizer.decode_bytes(ids[:n])


@every_pattern
def test_dropout(pattern: str) -> None:
    tokenizer, rng = tokenizer_of(pattern), random.Random(pattern)
    byte_ids = [tokenizer.token_id(bytes([byte])) for byte in range(256)]
    for seed in range(50):
        text = random_text(rng)
        plain = tokenizer.encode(text, allowed_special="all")

        def dropped(dropout: float, seed: int = seed, text: str = text, **how: Any) -> list[int]:
            return tokenizer.encode(
                text, dropout=dropout, seed=seed, **(how or {"allowed_special": "all"})
            )

        assert dropped(0.0) == plain
        for dropout in (0.01, 0.1, 0.5, 0.9):
            ids = dropped(dropout)
            assert ids == dropped(dropout)
            assert tokenizer.decode(ids) == text
        assert dropped(1.0, disallowed_special=()) == [byte_ids[byte] for byte in text.encode()]
    text = " ".join(["a cat's naïve 日本語"] * 50)
    many = {tuple(tokenizer.encode(text, dropout=0.1, seed=seed)) for seed in range(20)}
    assert len(many) == 20
    lengths = [len(tokenizer.encode(text, dropout=p, seed=1)) for p in (0.0, 0.2, 0.6, 1.0)]
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[1] < lengths[3]


@given(st.lists(st.lists(st.integers(0, 255) | st.integers(0, 706), max_size=9), max_size=9))
def test_decode_stream_is_the_whole(parts: list[list[int]]) -> None:
    tokenizer = tokenizer_of("gpt4")
    data = tokenizer.decode_bytes([i for part in parts for i in part])
    for errors in ("replace", "ignore", "surrogateescape"):
        stream = tokenizer.decode_stream(errors)
        text = "".join(map(stream.feed, parts)) + stream.finish()
        assert text == data.decode("utf-8", errors)
        one_by_one = "".join(stream.feed(i) for part in parts for i in part) + stream.finish()
        assert one_by_one == text


@given(st.lists(st.integers(0, 706)))
def test_decode_is_that_of_the_bytes(ids: list[int]) -> None:
    tokenizer = tokenizer_of("gpt2")
    data = b"".join(tokenizer.token_bytes(i) for i in ids)
    for form in (ids, tuple(ids), np.array(ids, np.uint16), np.array(ids, np.int64)):
        assert tokenizer.decode_bytes(form) == data
        assert tokenizer.decode(form) == data.decode("utf-8", "replace")


def nfc_tokenizer(pattern: str) -> Tokenizer:
    tokens, merges, specials = trained(pattern)
    return Tokenizer(Vocab(_core.Vocab(tokens, merges, specials), pattern, "nfc"))


@every_pattern
def test_a_normalizer_is_not_seen_by_cuts_threads_or_starts(pattern: str) -> None:
    tokenizer, plain, rng = nfc_tokenizer(pattern), tokenizer_of(pattern), random.Random(4)
    # What composes, what decomposes for good (U+0958 becomes a letter and a mark), Hangul.
    marks = ["e\u0301", "o", "\u0302\u0323", "\u1100\u1161\u11a8", "\uac00\u11a8", "\u212b", "\u0958", "A", "\u030a"]  # fmt: skip
    for length in (60_000, *rng.choices(range(40), k=60)):
        text = "".join(rng.choices([*PIECES, *marks * 3], k=length))
        ids = tokenizer.encode_ordinary(text)
        assert ids == plain.encode_ordinary(unicodedata.normalize("NFC", text))
        cuts = random_cuts(rng, text)
        assert list(tokenizer.encode_iterable(cuts, disallowed_special=())) == ids
        for threads in (1, 2, 8):
            again = tokenizer.encode_to_numpy(text, disallowed_special=(), threads=threads)
            assert again.tolist() == ids
        n = rng.randint(0, len(ids))
        start = tokenizer.truncate(text.encode(), n, disallowed_special=())
        assert start == tokenizer.decode_bytes(ids[:n])
