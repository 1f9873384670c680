"""What a vocab may be, and what the refusals say."""

import random

import pytest

from tokenmill.errors import VocabError
from tokenmill.tokenizer.vocab import vocab_from_bytes, vocab_from_ids

BYTES = {byte: bytes([byte]) for byte in range(256)}


def test_default_layout() -> None:
    vocab = vocab_from_bytes(BYTES | {256: b"ab"}, [(b"a", b"b")], ["<s>"], "gpt2")
    assert vocab.merges == ((97, 98, 256),)
    assert vocab.special_tokens == {"<s>": 257}
    assert vocab.tokens[257] == b"<s>"
    assert vocab.merges_as_bytes() == [(b"a", b"b")]


def test_any_layout_without_holes() -> None:
    # Special tokens first, then a merge, then the bytes in any order.
    order = list(range(256))
    random.Random(1).shuffle(order)
    ids = {0: b"<s>", 1: b"ab", 258: b"<t>"} | {
        2 + place: bytes([b]) for place, b in enumerate(order)
    }
    vocab = vocab_from_bytes(ids, [(b"a", b"b")], ["<t>", "<s>"], "gpt2")
    assert list(vocab.special_tokens.items()) == [("<s>", 0), ("<t>", 258)]
    assert vocab.merges == ((2 + order.index(97), 2 + order.index(98), 1),)


def test_special_tokens_by_id_may_fill_the_end() -> None:
    vocab = vocab_from_bytes(BYTES, [], {"<t>": 257, "<s>": 256}, "gpt2")
    assert list(vocab.special_tokens.items()) == [("<s>", 256), ("<t>", 257)]


@pytest.mark.parametrize(
    ("vocab", "merges", "special_tokens", "message"),
    [
        (BYTES | {300: b"ab"}, [], [], "has 257 tokens up to id 300, but no id 256"),
        (BYTES | {-1: b"ab"}, [], [], "has id -1"),
        (BYTES | {"256": b"ab"}, [], [], "has id '256'"),
        (BYTES | {True: b"\x01"}, [], [], None),
        (BYTES | {256: b""}, [], [], "id 256 is b'', not one or more bytes"),
        (BYTES | {256: "ab"}, [], [], "id 256 is 'ab', not one or more bytes"),
        (BYTES | {256: b"a"}, [], [], "ids 97 and 256 both spell `a`"),
        (BYTES | {7: b"ab"}, [], [], "no token for byte 0x07"),
        ({0: b"a"}, [], [], "no token for byte 0x00 and 254 more"),
        ({}, [], [], "no token for byte 0x00 and 255 more"),
        (BYTES, [(b"a", b"b")], [], "merge 0 joins `a` and `b`, but `ab` is not in the vocab"),
        (
            BYTES | {256: b"ca", 257: b" ca", 258: b" catt"},
            [(b"c", b"a"), (b" ", b"ca"), (b" ca", b"tt")],
            [],
            "merge 2 joins ` ca` and `tt`, but `tt` is not a token at that point",
        ),
        (
            BYTES | {256: b"abc", 257: b"ab"},
            [(b"ab", b"c"), (b"a", b"b")],
            [],
            "merge 0 joins `ab` and `c`, but `ab` is not a token at that point",
        ),
        (
            BYTES | {256: b"ab"},
            [(b"a", b"b"), (b"a", b"b")],
            [],
            "merge 1 joins `a` and `b`, as merge 0 does already",
        ),
        (BYTES | {256: b"ab"}, [(b"a", b"b")], ["ab"], "but `ab` is a special token"),
        (BYTES, [(b"\xff", b"\n")], [], r"joins `b'\\xff'` and `b'\\n'`"),
        (BYTES, [], [""], "a special token is the empty string"),
        (BYTES, [], ["<s>", "<s>"], "special token `<s>` is given twice"),
        (BYTES, [], "<s>", "are the one string `<s>`"),
        (BYTES, [], ["\ud800"], "half of a surrogate pair"),
        (BYTES, [], {"<s>": 97}, "`<s>` has id 97, which spells `a`"),
        (BYTES, [], {"<s>": 258}, "no id 256"),
        (BYTES, [], ["a"], "no token for byte 0x61"),
    ],
)
def test_refusals(vocab, merges, special_tokens, message) -> None:
    if message is None:  # True is the key 1, so this is the plain vocab
        assert vocab_from_bytes(vocab, merges, special_tokens, "gpt2").tokens[1] == b"\x01"
        return
    with pytest.raises(VocabError, match=message):
        vocab_from_bytes(vocab, merges, special_tokens, "gpt2")


def test_refusals_by_ids() -> None:
    tokens = [*BYTES.values(), b"ab"]
    assert vocab_from_ids(tokens, [(97, 98, 256)], {}, "gpt2").merges == ((97, 98, 256),)
    with pytest.raises(VocabError, match="merge 0 names id 257, but ids run from 0 to 256"):
        vocab_from_ids(tokens, [(97, 98, 257)], {}, "gpt2")
    with pytest.raises(VocabError, match="merge 0 names id -1"):
        vocab_from_ids(tokens, [(97, -1, 256)], {}, "gpt2")
    with pytest.raises(
        VocabError, match="merge 0 joins `a` and `c` into id 256, which spells `ab`"
    ):
        vocab_from_ids(tokens, [(97, 99, 256)], {}, "gpt2")


def test_merges_may_share_an_id() -> None:
    vocab = vocab_from_bytes(
        BYTES | {256: b"ab", 257: b"bc", 258: b"abc"},
        [(b"a", b"b"), (b"b", b"c"), (b"a", b"bc"), (b"ab", b"c")],
        [],
        "gpt2",
    )
    assert [joined for _, _, joined in vocab.merges] == [256, 257, 258, 258]
