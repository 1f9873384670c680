"""The drop-ins answer as the libraries they stand in for: the same calls on both, on hostile strings.

Errors are compared by class. Where an original panics, ours answers or raises a ValueError; where it
raises a bare Exception, ours raises something narrower.
"""

import asyncio
import copy
import dataclasses
import json
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiktoken
import tokenizers
from tokenizers import processors

import tokenmill as tm
from tokenmill.compat import tiktoken as our_tiktoken
from tokenmill.compat import tokenizers as our_tokenizers
from tokenmill.tokenizer.formats import huggingface_json

SPECIAL_TOKENS = ["<|endoftext|>", "<|pad|>", "<|é終|>"]
PIECES = [
    *[
        "the",
        "cat",
        "low",
        "lower",
        "newest",
        "ing",
        "ΑΩ",
        "ß",
        "İ",
        "ǅ",
        "日本",
        "语",
        "한국",
        "각",
    ],
    *[" ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u2003", "\x85", "\x1c", "\0", "\ufeff", "\u200b"],
    *["1", "23", "4567", "½", "!", "?!", "...", "'s", "'LL", "’", "<|", "|>", "(", "/*"],
    *["é", "e\u0301", "a\u0323\u0301", "é\u0323", "\u0344", "क़", "ᄀ", "ᆨ", "\u0301", "\u0338"],
    *["🎉", "👨‍👩‍👧", "🇩🇪", "👍🏽", "Å", "\u212b", "A\u030a", "ﬁ", "क्ष", "ا", "שָׁ", "\U0010ffff"],
    *SPECIAL_TOKENS,
]
WITHOUT_NORMALIZER = ["gpt2", "gpt4", "gpt4o"]
ALL_PATTERNS = [*WITHOUT_NORMALIZER, "qwen2-nfc"]


def random_text(rng: random.Random, max_pieces: int = 12) -> str:
    return "".join(rng.choices(PIECES, k=rng.randrange(max_pieces)))


def trained(pattern: str) -> tm.Tokenizer:
    """A small tokenizer; the name may end with the normalizer."""
    rng = random.Random(pattern)
    texts = ["".join(rng.choices(PIECES[:50], k=60)) for _ in range(200)]
    name, _, normalizer = pattern.partition("-")
    tokenizer = tm.train(
        tm.documents(texts), vocab_size=700, pattern=name, special_tokens=SPECIAL_TOKENS
    )
    vocab = dataclasses.replace(tokenizer._vocab, normalizer=normalizer or None)
    return tm.Tokenizer(vocab)


@pytest.fixture(scope="module")
def trained_tokenizers() -> dict[str, tm.Tokenizer]:
    return {pattern: trained(pattern) for pattern in ALL_PATTERNS}


Outcome = tuple[str, Any]


def outcome(call: Callable[[], Any]) -> Outcome:
    """What a call gives, or the class of its error that people catch."""
    try:
        return "gives", call()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        # A panic is no Exception, and a bare Exception says nothing: ours are ValueErrors.
        kinds = (KeyError, OverflowError, UnicodeError, LookupError, TypeError, AssertionError)
        return "raises", next((kind for kind in kinds if isinstance(error, kind)), ValueError)


def pickled(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))  # noqa: S301 (made here)


# tiktoken


def encodings(tokenizer: tm.Tokenizer) -> tuple[tiktoken.Encoding, our_tiktoken.Encoding]:
    ranks = our_tiktoken.Encoding.from_tokenizer(tokenizer)._mergeable_ranks
    parts: dict[str, Any] = {
        "name": "parity",
        "pat_str": our_tiktoken.Encoding.from_tokenizer(tokenizer)._pat_str,
        "mergeable_ranks": ranks,
        "special_tokens": tokenizer.special_tokens,
    }
    return tiktoken.Encoding(**parts), our_tiktoken.Encoding(**parts)


TIKTOKEN_CALLS: list[Callable[[Any, str], Any]] = [
    lambda enc, text: enc.encode(text),
    lambda enc, text: enc.encode_ordinary(text),
    lambda enc, text: enc.encode(text, allowed_special="all"),
    lambda enc, text: enc.encode(text, allowed_special={"<|pad|>", "no such token"}),
    lambda enc, text: enc.encode(text, disallowed_special=()),
    lambda enc, text: enc.encode(text, allowed_special={"<|pad|>"}, disallowed_special=()),
    lambda enc, text: enc.encode(text, allowed_special="all", disallowed_special={"cat", "ß"}),
    lambda enc, text: enc.encode(text, allowed_special="all", disallowed_special={"<|pad|>"}),
    lambda enc, text: enc.encode_to_numpy(text, allowed_special="all").tolist(),
    lambda enc, text: str(enc.encode_to_numpy(text, disallowed_special=()).dtype),
    lambda enc, text: enc.decode(enc.encode(text, allowed_special="all")),
    lambda enc, text: enc.decode(enc.encode_ordinary(text)[1:-1]),
    lambda enc, text: enc.decode(enc.encode_ordinary(text)[1:-1], errors="strict"),
    lambda enc, text: enc.decode_bytes(enc.encode_ordinary(text)),
    lambda enc, text: enc.decode_tokens_bytes(enc.encode_ordinary(text)),
    lambda enc, text: enc.decode_with_offsets(enc.encode(text, allowed_special="all")),
    lambda enc, text: enc.decode_with_offsets(enc.encode_ordinary(text)[1:]),
    lambda enc, text: enc.encode_single_token(text),
    lambda enc, text: enc.encode_single_token(text.encode()[:2]),
    lambda enc, text: enc._encode_single_piece(text or "the"),
    lambda enc, text: enc._encode_only_native_bpe(text),
    lambda enc, text: enc._encode_bytes(text.encode()),
    lambda enc, text: enc._encode_bytes(text.encode()[:-1]),
    lambda enc, text: enc._encode_bytes(text.encode() + b" \xf0\x9f"),
]


@pytest.mark.parametrize("pattern", WITHOUT_NORMALIZER)
def test_every_tiktoken_method_answers_as_the_original(
    pattern: str, trained_tokenizers: dict[str, tm.Tokenizer]
) -> None:
    theirs, ours = encodings(trained_tokenizers[pattern])
    rng = random.Random(1)
    texts = ["", " ", "\n\n ", *(random_text(rng) for _ in range(700))]
    for text in texts:
        for number, call in enumerate(TIKTOKEN_CALLS):
            expected = outcome(lambda call=call, text=text: call(theirs, text))
            assert outcome(lambda call=call, text=text: call(ours, text)) == expected, (
                number,
                text,
            )
    choices: list[dict[str, Any]] = [
        {},
        {"allowed_special": "all"},
        {"num_threads": 1, "disallowed_special": ()},
    ]
    for options in choices:
        expected = outcome(lambda options=options: theirs.encode_batch(texts, **options))
        assert outcome(lambda options=options: ours.encode_batch(texts, **options)) == expected
    batch = ours.encode_ordinary_batch(texts)
    assert batch == theirs.encode_ordinary_batch(texts)
    assert ours.decode_batch(batch) == theirs.decode_batch(batch) == texts
    assert ours.decode_bytes_batch(batch) == theirs.decode_bytes_batch(batch)
    assert ours.token_byte_values() == theirs.token_byte_values()


@pytest.mark.parametrize("pattern", WITHOUT_NORMALIZER)
def test_unstable_ids_are_those_of_tiktoken(
    pattern: str, trained_tokenizers: dict[str, tm.Tokenizer]
) -> None:
    theirs, ours = encodings(trained_tokenizers[pattern])
    rng = random.Random(2)
    for text in ["", "\n\n", "the  ", *(random_text(rng, 8) for _ in range(300))]:
        stable, completions = ours.encode_with_unstable(text, allowed_special="all")
        expected = theirs.encode_with_unstable(text, allowed_special="all")
        assert (stable, sorted(completions)) == (expected[0], sorted(expected[1])), text


TIKTOKEN_CORNERS: list[Callable[[Any], Any]] = [
    lambda enc: repr(enc),
    lambda enc: enc.encode("a\ud800b\ud83d\ude00c"),
    lambda enc: enc.encode_ordinary("\ude00\ud83d"),
    lambda enc: enc.encode_batch(["a\ud800", "b"]),
    lambda enc: enc.encode_to_numpy("a\ud800"),
    lambda enc: enc.encode_with_unstable("a\ud800"),
    lambda enc: enc.encode_with_unstable("a<|pad|>"),
    lambda enc: enc.encode_single_token("\ud800"),
    lambda enc: enc.encode(b"text"),
    lambda enc: enc.encode(5),
    lambda enc: enc.encode(None, disallowed_special=()),
    lambda enc: enc.encode_ordinary(b"text"),
    lambda enc: enc.encode_ordinary(None),
    lambda enc: enc.encode_batch(["a", 5]),
    lambda enc: enc.encode_batch("abc"),
    lambda enc: enc.encode_batch(iter(["a", "b"])),
    lambda enc: enc.encode_batch(["a"], num_threads=0),
    lambda enc: enc.encode_ordinary_batch(5),
    lambda enc: enc.encode_ordinary_batch(["a"], num_threads=-1),
    lambda enc: enc.encode("a", allowed_special=["<|pad|>"]),
    lambda enc: enc.encode("a", allowed_special="<|pad|>"),
    lambda enc: enc.encode("a", allowed_special="<|pad|>", disallowed_special=()),
    lambda enc: enc.encode("ha", disallowed_special="hm"),
    lambda enc: enc.encode("ha", disallowed_special=[""]),
    lambda enc: enc.encode_single_token(5),
    lambda enc: enc.encode_single_token(bytearray(b"a")),
    lambda enc: enc.encode_single_token(b"\xff\xff"),
    lambda enc: enc.decode([65, 5000]),
    lambda enc: enc.decode([-1]),
    lambda enc: enc.decode([5000, -1]),
    lambda enc: enc.decode([2**32]),
    lambda enc: enc.decode([2**32 - 1]),
    lambda enc: enc.decode(["a"]),
    lambda enc: enc.decode([1.5]),
    lambda enc: enc.decode(5),
    lambda enc: enc.decode(None),
    lambda enc: enc.decode("ab"),
    lambda enc: enc.decode((72, 105)),
    lambda enc: enc.decode([True]),
    lambda enc: enc.decode([0xFF], errors="strict"),
    lambda enc: enc.decode([0xFF], errors="no such"),
    lambda enc: enc.decode([0x41], errors="no such"),
    lambda enc: enc.decode([0xE2, 0x82, 0x41], "ignore"),
    lambda enc: enc.decode_bytes(b"ab"),
    lambda enc: enc.decode_single_token_bytes(699),
    lambda enc: enc.decode_single_token_bytes(700),
    lambda enc: enc.decode_single_token_bytes(-1),
    lambda enc: enc.decode_single_token_bytes("a"),
    lambda enc: enc.decode_single_token_bytes(1.0),
    lambda enc: enc.decode_tokens_bytes([65, 700]),
    lambda enc: enc.decode_tokens_bytes((65, 66)),
    lambda enc: enc.decode_with_offsets([0xFF]),
    lambda enc: enc.decode_with_offsets([]),
    lambda enc: enc.decode_batch([[65], [5000]]),
    lambda enc: enc.decode_batch([[65]], num_threads=0),
    lambda enc: enc.decode_bytes_batch([[65]], num_threads=0),
    lambda enc: (enc.n_vocab, enc.max_token_value, enc.name, enc.eot_token),
    lambda enc: enc.special_tokens_set,
    lambda enc: [enc.is_special_token(i) for i in (0, 697, 699, 5000)],
    lambda enc: enc.is_special_token("a"),
    lambda enc: enc._encode_bytes("abc"),
    lambda enc: enc._encode_bytes(b""),
    lambda enc: pickled(enc).encode("the cat"),
    lambda enc: copy.deepcopy(enc).encode("the cat"),
    lambda enc: (copy.copy(enc)._pat_str, copy.copy(enc)._mergeable_ranks),
    lambda enc: type(enc)(
        "x", pat_str="[", mergeable_ranks=enc._mergeable_ranks, special_tokens={}
    ),
    lambda enc: type(enc)("x", pat_str=".", mergeable_ranks={}, special_tokens={}),
    lambda enc: (
        type(enc)(
            "x", pat_str=".", mergeable_ranks=enc._mergeable_ranks, special_tokens={}
        ).eot_token
    ),
    lambda enc: type(enc)(
        "x",
        pat_str=".",
        mergeable_ranks=enc._mergeable_ranks,
        special_tokens={},
        explicit_n_vocab=5,
    ),
]


@pytest.mark.parametrize("number", range(len(TIKTOKEN_CORNERS)))
def test_corners_of_tiktoken(number: int, trained_tokenizers: dict[str, tm.Tokenizer]) -> None:
    theirs, ours = encodings(trained_tokenizers["gpt4"])
    call = TIKTOKEN_CORNERS[number]
    assert outcome(lambda: call(ours)) == outcome(lambda: call(theirs))


def test_an_encoding_that_covers_no_text_between_words_is_refused_not_answered_wrongly(
    trained_tokenizers: dict[str, tm.Tokenizer],
) -> None:
    theirs, _ = encodings(trained_tokenizers["gpt4"])
    theirs._pat_str = r"\p{L}+"
    ours = our_tiktoken.Encoding.from_encoding(theirs)
    assert ours.encode("thecat") == theirs.encode("thecat")
    for call in (ours.encode, ours.encode_ordinary, ours.encode_to_numpy):
        with pytest.raises(NotImplementedError, match=r"`\\p\{L\}\+` covers"):
            call("the cat")


# tokenizers

COLUMNS = [
    *["ids", "tokens", "offsets", "type_ids", "attention_mask", "special_tokens_mask"],
    *["word_ids", "sequence_ids", "n_sequences"],
]


def contents(encoding: Any) -> list[Any]:
    """Everything an encoding can be asked."""
    size = len(encoding)
    asked = [getattr(encoding, column) for column in COLUMNS]
    asked += [size, repr(encoding)]
    for token in (0, 1, size - 1, size, size + 1):
        if token >= 0:
            asked.append(encoding.token_to_sequence(token))
            asked.append(encoding.token_to_chars(token))
            asked.append(encoding.token_to_word(token))
    for sequence in (0, 1, 2):
        for number in (0, 1, 3, 7):
            asked.append(encoding.char_to_token(number, sequence))
            asked.append(encoding.char_to_word(number, sequence))
            asked.append(encoding.word_to_tokens(number, sequence))
            asked.append(encoding.word_to_chars(number, sequence))
    return [*asked, [contents(overflow) for overflow in encoding.overflowing]]


def template(single: str, pair: str) -> processors.TemplateProcessing:
    special_tokens = [("<|endoftext|>", 697), ("<|pad|>", 698)]
    return processors.TemplateProcessing(single=single, pair=pair, special_tokens=special_tokens)


POST_PROCESSORS: list[Callable[[], Any]] = [
    lambda: None,
    lambda: processors.ByteLevel(trim_offsets=True),
    lambda: processors.ByteLevel(trim_offsets=True, add_prefix_space=False),
    lambda: processors.ByteLevel(trim_offsets=False),
    lambda: template("<|endoftext|> $A <|pad|>", "<|endoftext|> $A <|pad|> $B:1 <|pad|>:1"),
    lambda: template("$A:3 <|pad|>:2", "$B:4 <|pad|> $A:5"),
    lambda: processors.Sequence([]),
    lambda: processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=True),
            template("<|endoftext|> $A", "<|endoftext|> $A <|endoftext|>:1 $B:1"),
        ]
    ),
]


def both_tokenizers(
    tokenizer: tm.Tokenizer, number: int
) -> tuple[tokenizers.Tokenizer, our_tokenizers.Tokenizer]:
    data = huggingface_json.write(tokenizer._vocab)
    theirs = tokenizers.Tokenizer.from_buffer(data)
    ours = our_tokenizers.Tokenizer.from_buffer(data)
    theirs.post_processor = POST_PROCESSORS[number]()
    ours.post_processor = POST_PROCESSORS[number]()
    return theirs, ours


def without_processor(tokenizer: Any, text: str) -> Any:
    before = tokenizer.post_processor
    tokenizer.post_processor = None
    try:
        return tokenizer.encode(text)
    finally:
        tokenizer.post_processor = before


def truncated_by_hand(tokenizer: Any, text: str, length: int, stride: int, side: str) -> Any:
    encoding = tokenizer.encode(text)
    encoding.truncate(length, stride, side)
    encoding.pad(7, direction=side, pad_id=3, pad_type_id=1, pad_token="<|pad|>")
    return contents(encoding)


def random_calls(rng: random.Random) -> list[Callable[[Any, Any], Any]]:
    """Calls of a tokenizer and its class of encodings, with arguments drawn once for both."""
    one, two = random_text(rng), random_text(rng)
    words = [random_text(rng, 5) for _ in range(rng.randrange(4))]
    others = [random_text(rng, 4) for _ in range(rng.randrange(3))]
    add, grow = rng.random() < 0.7, rng.random() < 0.5
    length, stride, side = rng.randrange(9), rng.randrange(3), rng.choice(["left", "right"])
    pre: dict[str, Any] = {"is_pretokenized": True, "add_special_tokens": add}
    return [
        lambda t, _: contents(t.encode(one, add_special_tokens=add)),
        lambda t, _: contents(t.encode(one, two, add_special_tokens=add)),
        lambda t, _: contents(t.encode(words, **pre)),
        lambda t, _: contents(t.encode(words, others, **pre)),
        lambda t, _: [contents(e) for e in t.encode_batch([one, (two, one), two, [one, two]])],
        lambda t, _: [contents(e) for e in t.encode_batch([words, (others, words)], **pre)],
        lambda t, _: [contents(e) for e in t.encode_batch_fast([one, (two, one), two])],
        lambda t, e: contents(e.merge([t.encode(one), t.encode(two, one)], grow)),
        lambda t, _: contents(
            t.post_process(without_processor(t, one), without_processor(t, two), add)
        ),
        lambda t, _: truncated_by_hand(t, one, length, stride, side),
        lambda t, _: contents(pickled(t.encode(one, two))),
        lambda t, _: t.decode(t.encode(one).ids, skip_special_tokens=add),
        lambda t, _: t.decode(t.encode(one).ids[1:-2], add),
        lambda t, _: t.decode_batch([t.encode(one).ids, (5000, 66), []], add),
    ]


def set_lengths(rng: random.Random, both: tuple[Any, Any]) -> None:
    """Truncation for some, padding for some, the same for both tokenizers."""
    for tokenizer in both:
        tokenizer.no_truncation()
        tokenizer.no_padding()
    if rng.random() < 0.4:
        options: dict[str, Any] = {
            "max_length": rng.randrange(12),
            "stride": rng.choice([0, 0, 1, 2]),
            "strategy": rng.choice(["longest_first", "longest_first", "only_first", "only_second"]),
            "direction": rng.choice(["left", "right"]),
        }
        theirs, ours = (outcome(lambda t=t: t.enable_truncation(**options)) for t in both)
        assert theirs == ours, options
    if rng.random() < 0.3:
        options = {
            "length": rng.choice([None, 8, 20]),
            "pad_to_multiple_of": rng.choice([None, 0, 4, 7]),
            "pad_id": rng.randrange(5),
            "pad_type_id": rng.randrange(3),
            "pad_token": "<|pad|>",
            "direction": rng.choice(["left", "right"]),
        }
        for tokenizer in both:
            tokenizer.enable_padding(**options)
    assert both[0].truncation == both[1].truncation
    assert both[0].padding == both[1].padding


# The original tells about a panic on stderr before it raises it.
@pytest.mark.parametrize("number", range(len(POST_PROCESSORS)))
@pytest.mark.parametrize("pattern", ALL_PATTERNS)
def test_every_encoding_is_that_of_tokenizers(
    pattern: str, number: int, trained_tokenizers: dict[str, tm.Tokenizer]
) -> None:
    both = both_tokenizers(trained_tokenizers[pattern], number)
    rng = random.Random(number)
    for _ in range(8):
        set_lengths(rng, both)
        assert both[1].to_str() == both[0].to_str()
        for place, call in enumerate(random_calls(rng)):
            expected = outcome(lambda call=call: call(both[0], tokenizers.Encoding))
            found = outcome(lambda call=call: call(both[1], our_tokenizers.Encoding))
            assert found == expected, (place, both[0].truncation, both[0].padding)


@pytest.mark.parametrize("pattern", ALL_PATTERNS)
def test_ids_and_offsets_of_many_strings(
    pattern: str, trained_tokenizers: dict[str, tm.Tokenizer]
) -> None:
    theirs, ours = both_tokenizers(trained_tokenizers[pattern], 1)
    rng = random.Random(3)
    texts = ["", " ", *(random_text(rng, 20) for _ in range(3000))]
    for text, mine, their in zip(
        texts, ours.encode_batch(texts), theirs.encode_batch(texts), strict=True
    ):
        assert (mine.ids, mine.offsets) == (their.ids, their.offsets), text
        assert (mine.tokens, mine.word_ids) == (their.tokens, their.word_ids), text


TOKENIZERS_CORNERS: list[Callable[[Any], Any]] = [
    lambda t: t.encode(5),
    lambda t: t.encode(b"text"),
    lambda t: t.encode(None),
    lambda t: t.encode("a\ud800"),
    lambda t: t.encode(["a"]),
    lambda t: t.encode("a", is_pretokenized=True),
    lambda t: t.encode("a", 5),
    lambda t: t.encode("a", ["b"]),
    lambda t: t.encode(["a", 5], is_pretokenized=True),
    lambda t: contents(t.encode("")),
    lambda t: contents(t.encode([], is_pretokenized=True)),
    lambda t: contents(t.encode(("the", ""), is_pretokenized=True)),
    lambda t: t.encode_batch("ab"),
    lambda t: t.encode_batch(5),
    lambda t: t.encode_batch(iter(["a"])),
    lambda t: t.encode_batch([5]),
    lambda t: t.encode_batch([("a",)]),
    lambda t: t.encode_batch([["a", "b", "c"]]),
    lambda t: t.encode_batch([["a", 5]]),
    lambda t: t.encode_batch([]),
    lambda t: [contents(e) for e in t.encode_batch(("a", ["b", "c"]))],
    lambda t: [contents(e) for e in t.encode_batch([["a", "b"], [["c"], ["d"]]], True)],
    lambda t: t.decode([5000, 65, 700]),
    lambda t: t.decode([-1]),
    lambda t: t.decode([2**32]),
    lambda t: t.decode([1.5]),
    lambda t: t.decode(5),
    lambda t: t.decode("ab"),
    lambda t: t.decode((72, 105)),
    lambda t: t.decode([697, 72, 699], skip_special_tokens=False),
    lambda t: t.decode_batch([[72], [5000]]),
    lambda t: [t.id_to_token(i) for i in (0, 32, 300, 697, 699, 700, 5000)],
    lambda t: t.id_to_token(-1),
    lambda t: [t.token_to_id(token) for token in ("a", "Ġ", "Ġthe", "<|pad|>", "nope", "语", "")],
    lambda t: t.token_to_id(b"a"),
    lambda t: (t.get_vocab(), t.get_vocab_size(), t.get_vocab(False), t.get_vocab_size(False)),
    lambda t: [t.num_special_tokens_to_add(is_pair) for is_pair in (False, True)],
    lambda t: t.enable_truncation(5, stride=7),
    lambda t: t.enable_truncation(5, strategy="no such"),
    lambda t: t.enable_truncation(5, direction="no such"),
    lambda t: t.enable_truncation(-1),
    lambda t: t.enable_padding(direction="no such"),
    lambda t: (t.enable_padding(), t.padding, t.enable_truncation(9), t.truncation),
    lambda t: (t.enable_padding(length=3), t.enable_truncation(2), t.to_str(), t.to_str(True)),
    lambda t: t.encode("the cat").truncate(1, direction="no such"),
    lambda t: t.encode("the cat").pad(9, direction="no such"),
    lambda t: t.encode("the cat").char_to_token(-1),
    lambda t: t.encode("the cat").set_sequence_id(-1),
    lambda t: (e := without_processor(t, "the cat")).set_sequence_id(1) or contents(e),
    lambda t: contents(type(t.encode("a"))()),
    lambda t: contents(type(t.encode("a")).merge([])),
    lambda t: t.add_tokens("ab"),
    lambda t: t.add_tokens([5]),
    lambda t: t.add_tokens(["<|new|>", "<|new|>", ""]),
    lambda t: contents(pickled(t).encode("the cat")),
    lambda t: copy.deepcopy(t).to_str(),
    lambda t: asyncio.run(wait_for(t)),
]


async def wait_for(tokenizer: Any) -> Any:
    batch = await tokenizer.async_encode_batch(["the", ("cat", "low")])
    fast = await tokenizer.async_encode_batch_fast(["the"])
    one = await tokenizer.async_encode("the", "cat")
    texts = await tokenizer.async_decode_batch([one.ids])
    return [contents(encoding) for encoding in (*batch, *fast, one)], texts


@pytest.mark.parametrize("number", range(len(TOKENIZERS_CORNERS)))
def test_corners_of_tokenizers(number: int, trained_tokenizers: dict[str, tm.Tokenizer]) -> None:
    theirs, ours = both_tokenizers(trained_tokenizers["gpt4"], 4)
    call = TOKENIZERS_CORNERS[number]
    assert outcome(lambda: call(ours)) == outcome(lambda: call(theirs))


@pytest.mark.parametrize("pattern", ["gpt2", "qwen2-nfc"])
def test_tokens_can_be_added(pattern: str, trained_tokenizers: dict[str, tm.Tokenizer]) -> None:
    both = both_tokenizers(trained_tokenizers[pattern], 4)
    answers: list[list[Any]] = []
    for tokenizer, added_token in zip(
        both, (tokenizers.AddedToken, our_tokenizers.AddedToken), strict=True
    ):
        told: list[Any] = [
            tokenizer.add_special_tokens(["<|im_start|>", "<|im_end|>", "<|pad|>", ""]),
            tokenizer.add_tokens([added_token("<think>", normalized=False)]),
            tokenizer.add_special_tokens(["<think>"]),
            tokenizer.add_tokens([added_token("éé", normalized=False)]),
            tokenizer.get_vocab_size(),
            tokenizer.get_vocab_size(with_added_tokens=False),
            [repr(token) for _, token in sorted(tokenizer.get_added_tokens_decoder().items())],
        ]
        rng = random.Random(4)
        extra = ["<|im_start|>", "<|im_end|>", "<think>", "éé", "<|im_"]
        for encode_special in (False, True, False):
            tokenizer.encode_special_tokens = encode_special
            for _ in range(100):
                text = "".join(rng.choices([*PIECES[:30], *extra], k=8))
                encoding = tokenizer.encode(text)
                told.append((contents(encoding), tokenizer.decode(encoding.ids)))
                told.append(tokenizer.decode(encoding.ids, skip_special_tokens=False))
        told.append(tokenizer.to_str())
        answers.append(told)
    assert answers[0] == answers[1]


def test_a_file_with_every_part_comes_back_as_the_original_writes_it(
    tmp_path: Path, trained_tokenizers: dict[str, tm.Tokenizer]
) -> None:
    """Special tokens outside the model, truncation, padding, a post-processor, no decoder."""
    document = json.loads(huggingface_json.write(trained_tokenizers["gpt4o"]._vocab))
    del document["model"]["vocab"]["<|é終|>"]
    document["truncation"] = {
        "direction": "Left",
        "max_length": 9,
        "strategy": "OnlyFirst",
        "stride": 1,
    }
    document["padding"] = {
        "strategy": {"Fixed": 12},
        "direction": "Left",
        "pad_to_multiple_of": None,
        "pad_id": 698,
        "pad_type_id": 0,
        "pad_token": "<|pad|>",
    }
    document["decoder"] = None
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(document))
    theirs = tokenizers.Tokenizer.from_file(str(path))
    ours = our_tokenizers.Tokenizer.from_file(path)
    assert ours.to_str() == theirs.to_str()
    assert ours.get_vocab(False) == theirs.get_vocab(False)
    assert ours.get_vocab_size(False) == theirs.get_vocab_size(False) == 699
    rng = random.Random(5)
    for text in (random_text(rng) for _ in range(50)):
        encoding = ours.encode(text)
        assert contents(encoding) == contents(theirs.encode(text))
        assert ours.decode(encoding.ids) == theirs.decode(encoding.ids)
    ours.save(tmp_path / "ours.json")
    theirs.save(str(tmp_path / "theirs.json"))
    assert (tmp_path / "ours.json").read_bytes() == (tmp_path / "theirs.json").read_bytes()


# Code that people have, with one line changed.

WRITTEN_FOR_TIKTOKEN = """
base = tiktoken.Encoding(**parts)
chat = tiktoken.Encoding(
    name="chat",
    pat_str=base._pat_str,
    mergeable_ranks=base._mergeable_ranks,
    special_tokens={**base._special_tokens, "<|im_start|>": 700, "<|im_end|>": 701},
)

def num_tokens_from_messages(messages):
    num_tokens = 0
    for message in messages:
        num_tokens += 4
        for key, value in message.items():
            num_tokens += len(chat.encode(value, disallowed_special=()))
    return num_tokens + 2

def visualise(tokens):
    return [(t, chat.decode_single_token_bytes(t)) for t in tokens]

try:
    chat.encode("<|im_end|>")
    refused = False
except ValueError:
    refused = True

ids = chat.encode("<|im_start|>the cat<|im_end|>", allowed_special={"<|im_start|>", "<|im_end|>"})
answer = (
    num_tokens_from_messages([{"role": "user", "content": "the <|im_end|> cat 日本"}]),
    visualise(ids),
    chat.decode(ids),
    chat.eot_token,
    chat.n_vocab,
    refused,
    [len(tokens) for tokens in chat.encode_ordinary_batch(["the", "lower newest"], num_threads=2)],
)
"""


def test_code_written_for_tiktoken_runs_with_its_import_changed(
    trained_tokenizers: dict[str, tm.Tokenizer],
) -> None:
    _, encoding = encodings(trained_tokenizers["gpt4"])
    parts = {
        "name": "base",
        "pat_str": encoding._pat_str,
        "mergeable_ranks": encoding._mergeable_ranks,
        "special_tokens": encoding._special_tokens,
    }
    answers: list[Any] = []
    for line in ("import tiktoken", "from tokenmill.compat import tiktoken"):
        names: dict[str, Any] = {"parts": parts}
        exec(line + WRITTEN_FOR_TIKTOKEN, names)
        answers.append(names["answer"])
    assert answers[0] == answers[1]
    assert answers[0][5] is True


WRITTEN_FOR_TOKENIZERS = """
from tokenizers.processors import TemplateProcessing

tokenizer = Tokenizer.from_file(path)
tokenizer.add_special_tokens(["[CLS]", "[SEP]"])
tokenizer.post_processor = TemplateProcessing(
    single="[CLS] $A [SEP]",
    pair="[CLS] $A [SEP] $B:1 [SEP]:1",
    special_tokens=[(t, tokenizer.token_to_id(t)) for t in ("[CLS]", "[SEP]")],
)
tokenizer.enable_truncation(max_length=16, stride=4, strategy="only_second")
tokenizer.enable_padding(pad_id=tokenizer.token_to_id("<|pad|>"), pad_token="<|pad|>")

question, context = "the cat", "lower newest the cat low low 日本 the ing cat lower 한국 low"
start_char = context.index("日本")
features = []
encoding = tokenizer.encode(question, context)
for piece in [encoding, *encoding.overflowing]:
    token = piece.char_to_token(start_char, 1)
    span = None if token is None else piece.token_to_chars(token)
    features.append((piece.ids, piece.type_ids, piece.attention_mask, piece.sequence_ids, span))

tokenizer.no_truncation()
batch = tokenizer.encode_batch([question, context])
labels = [
    [-100 if word is None else word % 3 for word in encoding.word_ids]
    for encoding in tokenizer.encode_batch([["the", "cat"], ["lower"]], is_pretokenized=True)
]
answer = (
    features,
    [(e.ids, e.tokens, e.offsets, e.special_tokens_mask) for e in batch],
    labels,
    tokenizer.decode_batch([e.ids for e in batch]),
    sorted(tokenizer.get_vocab().items())[:20],
)
"""


def test_code_written_for_tokenizers_runs_with_its_import_changed(
    tmp_path: Path, trained_tokenizers: dict[str, tm.Tokenizer]
) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_bytes(huggingface_json.write(trained_tokenizers["gpt4o"]._vocab))
    answers: list[Any] = []
    for module in ("tokenizers", "tokenmill.compat.tokenizers"):
        names: dict[str, Any] = {"path": str(path)}
        exec(f"from {module} import Tokenizer" + WRITTEN_FOR_TOKENIZERS, names)
        answers.append(names["answer"])
    assert answers[0] == answers[1]
    assert any(span is not None for *_, span in answers[0][0])
