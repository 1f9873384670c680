"""What a vocab may be, and what the refusals say."""

import random

import pytest

from tokenmill import _core
from tokenmill.errors import FormatError, VocabError
from tokenmill.tokenizer.vocab import Origin, Vocab, vocab_from_bytes, vocab_from_ids

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


def test_tens_of_thousands_of_special_tokens() -> None:
    # Takes half a minute if each of them looks at all ids before it.
    names = [f"<|{number}|>" for number in range(50_000)]
    vocab = vocab_from_bytes(BYTES | {256: b"<|7|>"}, [], names, "gpt2")
    assert vocab.special_tokens["<|7|>"] == 256
    others = [name for name in names if name != "<|7|>"]
    assert [vocab.special_tokens[name] for name in others] == list(range(257, 257 + len(others)))


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
            "merge 2 joins ` ca` and `tt`, but `tt` is not in the vocab",
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
        (BYTES, [], {"<s>": 256, "<t>": 256}, "`<t>` has id 256, which spells `<s>`"),
        (BYTES, [(b"\xff", b"\n")], [], r"joins `b'\\xff'` and `b'\\n'`"),
        (BYTES, [], [""], "a special token is the empty string"),
        (BYTES, [], ["<s>", "<s>"], "special token `<s>` is given twice"),
        (BYTES, [], "<s>", "are the one string `<s>`"),
        (BYTES, [], ["\ud800"], "half of a surrogate pair"),
        (BYTES, [], {"<s>": 97}, "`<s>` has id 97, which spells `a`"),
        (BYTES | {257: b"ab"}, [], {"<s>": 258}, "has 258 tokens up to id 257, but no id 256"),
        (BYTES, [], {"<s>": 10**6}, "but no id 256"),
        (BYTES, [], {"<s>": 2**40}, "but no id 256"),
        (BYTES, [], {"<s>": -1}, "has id -1"),
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


def test_ids_may_be_free_above_the_last_ordinary_token() -> None:
    vocab = vocab_from_bytes(BYTES, [], {"<t>": 300, "<s>": 257}, "gpt2")
    assert vocab.special_tokens == {"<s>": 257, "<t>": 300}
    assert (len(vocab.tokens), vocab.tokens[256], vocab.tokens[299]) == (301, b"", b"")
    assert vocab.proof.ids_without_token == (256, *range(258, 300))


def test_a_special_token_may_spell_what_an_ordinary_one_does() -> None:
    vocab = vocab_from_bytes(BYTES | {256: b"ab"}, [(b"a", b"b")], {"ab": 257}, "gpt2")
    assert vocab.core.token_id(b"ab") == 256
    assert vocab.tokens[256] == vocab.tokens[257] == b"ab"


def test_messages_in_the_words_of_a_file() -> None:
    origin = Origin(FormatError, "`v`", "`s`: ", lambda index: f"`m` line {index + 1}")
    twice = [(b"a", b"b"), (b"a", b"b")]
    for vocab, merges, special_tokens, message in (
        (BYTES | {256: b"a"}, [], [], "`v` ids 97 and 256 both spell `a`"),
        ({0: b"a"}, [], [], "`v` has no token for byte 0x00"),
        (
            BYTES | {256: b"ab"},
            twice,
            [],
            "`m` line 2 joins `a` and `b`, as `m` line 1 does already",
        ),
        (BYTES, [(b"a", b"b")], [], "`m` line 1 joins `a` and `b`, but `ab` is not in the vocab"),
        (BYTES, [], {"<s>": 97}, "`s`: special token `<s>` has id 97, which spells `a`"),
        (
            BYTES | {256: b"abc", 257: b"ab"},
            [(b"ab", b"c"), (b"a", b"b")],
            [],
            "`m` line 1 joins `ab` and `c`, but `ab` is not a token at that point",
        ),
    ):
        with pytest.raises(FormatError) as caught:
            vocab_from_bytes(vocab, merges, special_tokens, "gpt2", origin)
        assert caught.value.message.startswith(message)


def test_vocabs_compare_by_what_they_hold() -> None:
    def make(**changed: object) -> Vocab:
        parts = {"merges": [(b"a", b"b")], "special_tokens": ["<s>"], "pattern": "gpt2"} | changed
        return vocab_from_bytes(vocab=BYTES | {256: b"ab"}, **parts)  # type: ignore[arg-type]

    assert make() == make()
    assert hash(make()) == hash(make())
    for changed in ({"merges": []}, {"special_tokens": []}, {"pattern": "gpt4"}):
        assert make(**changed) != make()
    assert make(ignore_merges=True) != make()
    assert make().core != "vocab"


def test_the_core_names_what_is_wrong() -> None:
    tokens = list(BYTES.values())
    for arguments, error, message in (
        ((["a"], [], {}), TypeError, "token 0 is 'a', not `bytes`"),
        ((tokens, [], {"<s>": 256}), VocabError, r"`<s>` has id 256, which spells `b''`"),
        ((tokens, [], {"<s>": 2**40}), VocabError, "`<s>` has id 1099511627776, not in"),
        ((tokens, [], {"\ud800": 1}), VocabError, "half of a surrogate pair"),
        ((tokens, [], {5: 1}), VocabError, "special token 5 is not a string"),
        (([*tokens, b"", b"ab"], [], {}), VocabError, "257 tokens up to id 257, but no id 256"),
    ):
        with pytest.raises(error, match=message):
            _core.Vocab(*arguments)  # type: ignore[arg-type]


def test_lookup_in_the_core() -> None:
    vocab = vocab_from_bytes(BYTES | {256: b"ab"}, [(b"a", b"b")], {"<s>": 258}, "gpt2").core
    assert (vocab.size, vocab.num_merges) == (259, 1)
    found = [vocab.token(i) for i in (97, 256, 257, 258, 259, -1, 2**40)]
    assert found == [b"a", b"ab", None, b"<s>", None, None, None]
    assert [vocab.token_id(t) for t in (b"ab", b"<s>", b"", b"zz")] == [256, None, None, None]
    assert vocab.merges() == [(97, 98, 256)]
