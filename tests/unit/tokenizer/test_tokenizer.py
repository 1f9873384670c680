"""Tokenizer: text to ids and back, special tokens, equality, pickling."""

import pickle
from typing import Any

import pytest

from tokenmill.errors import ConfigError, FormatError, VocabError
from tokenmill.tokenizer.tokenizer import Tokenizer

BYTES = {byte: bytes([byte]) for byte in range(256)}
MERGES = [(b"t", b"h"), (b"th", b"e"), (b" ", b"the")]
VOCAB = BYTES | {256: b"th", 257: b"the", 258: b" the"}


@pytest.fixture
def tokenizer() -> Tokenizer:
    return Tokenizer.from_vocab(VOCAB, MERGES, ["<|end|>", "<|end|><|pad|>"], "gpt4")


def test_encode_and_decode(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("the the 漢")
    assert ids == [257, 258, 32, 230, 188, 162]
    assert tokenizer.decode(ids) == "the the 漢"
    assert tokenizer.encode(b"the\xff") == [257, 255]
    assert tokenizer.decode_bytes([257, 255]) == b"the\xff"
    assert tokenizer.encode("") == []
    assert tokenizer.decode([]) == ""


def test_decode_replaces_what_is_not_utf8(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode([230, 188]) == "\ufffd"
    assert tokenizer.decode([230, 188], errors="ignore") == ""
    with pytest.raises(UnicodeDecodeError):
        tokenizer.decode([230, 188], errors="strict")


def test_special_tokens_raise_unless_allowed(tokenizer: Tokenizer) -> None:
    text = "the<|end|>the"
    with pytest.raises(VocabError, match=r"contains the special token `<\|end\|>`"):
        tokenizer.encode(text)
    with pytest.raises(ValueError, match="encode_ordinary"):
        tokenizer.encode(text, allowed_special={"<|end|><|pad|>"})
    assert tokenizer.encode(text, allowed_special="all") == [257, 259, 257]
    assert tokenizer.encode(text, allowed_special={"<|end|>"}) == [257, 259, 257]
    ordinary = tokenizer.encode_ordinary(text)
    assert 259 not in ordinary
    assert tokenizer.decode(ordinary) == text


def test_longest_special_token_wins(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("<|end|><|pad|><|end|>", allowed_special="all") == [260, 259]
    with pytest.raises(VocabError, match=r"`<\|end\|><\|pad\|>`"):
        tokenizer.encode("<|end|><|pad|>", allowed_special=["<|end|>"])


def test_allowed_special_must_make_sense(tokenizer: Tokenizer) -> None:
    with pytest.raises(ConfigError, match="not `all` or a set"):
        tokenizer.encode("x", allowed_special="<|end|>")
    with pytest.raises(VocabError, match=r"`<\|eot\|>` is not a special token"):
        tokenizer.encode("x", allowed_special={"<|eot|>"})


def test_lookup(tokenizer: Tokenizer) -> None:
    assert tokenizer.token_bytes(258) == b" the"
    assert tokenizer.token_id(b" the") == 258
    assert tokenizer.token_bytes(259) == b"<|end|>"
    assert tokenizer.token_id(b"<|end|>") == 259
    assert tokenizer.vocab_size == 261
    assert tokenizer.vocab == VOCAB | {259: b"<|end|>", 260: b"<|end|><|pad|>"}
    assert tokenizer.merges == MERGES
    assert tokenizer.special_tokens == {"<|end|>": 259, "<|end|><|pad|>": 260}
    assert tokenizer.pattern == "gpt4"
    assert tokenizer.training is None
    assert tokenizer.unreachable() == []
    with pytest.raises(VocabError, match="`nope` is not a token"):
        tokenizer.token_id(b"nope")


@pytest.mark.parametrize("token_id", [-1, 261, 2**31, 2**40])
def test_unknown_ids(tokenizer: Tokenizer, token_id: int) -> None:
    with pytest.raises(VocabError, match=f"{token_id}"):
        tokenizer.token_bytes(token_id)
    with pytest.raises(VocabError, match=f"{token_id}"):
        tokenizer.decode([97, token_id])


def test_what_is_handed_out_is_a_copy(tokenizer: Tokenizer) -> None:
    tokenizer.special_tokens["<|x|>"] = 5
    tokenizer.vocab[0] = b"zero"
    tokenizer.merges.clear()
    assert (len(tokenizer.special_tokens), tokenizer.vocab[0], len(tokenizer.merges)) == (
        2,
        b"\0",
        3,
    )


def test_ids_in_any_layout() -> None:
    # Bytes backwards, special token first, merges in the middle.
    vocab = {0: b"<s>", 1: b"th", 2: b"the"} | {3 + i: bytes([255 - i]) for i in range(256)}
    tokenizer = Tokenizer.from_vocab(vocab, MERGES[:2], ["<s>"], "gpt2")
    assert tokenizer.encode("the<s>t", allowed_special="all") == [2, 0, 3 + 255 - ord("t")]
    assert tokenizer.decode([2, 0]) == "the<s>"


def test_unreachable_tokens() -> None:
    # Nothing makes `xyz`; and `ab` goes first, so `a` never meets `bc`.
    tokenizer = Tokenizer.from_vocab(
        BYTES | {256: b"ab", 257: b"bc", 258: b"abc", 259: b"xyz"},
        [(b"a", b"b"), (b"b", b"c"), (b"a", b"bc")],
    )
    assert tokenizer.unreachable() == [258, 259]


def test_equality(tokenizer: Tokenizer) -> None:
    def variant(**changed: Any) -> Tokenizer:
        parts: dict[str, Any] = {
            "vocab": VOCAB,
            "merges": MERGES,
            "special_tokens": ["<|end|>", "<|end|><|pad|>"],
            "pattern": "gpt4",
        }
        return Tokenizer.from_vocab(**(parts | changed))

    assert variant() == tokenizer
    assert hash(variant()) == hash(tokenizer)
    assert variant(pattern="gpt2") != tokenizer
    assert variant(special_tokens=["<|end|>"]) != tokenizer
    assert variant(merges=MERGES[:2]) != tokenizer
    assert variant(pattern="llama3") == tokenizer, "one regex under two names"
    assert tokenizer != "tokenizer"


def test_a_regex_with_a_name_gets_it() -> None:
    regex = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    assert Tokenizer.from_vocab(BYTES, [], [], regex).pattern == "gpt2"


def test_repr(tokenizer: Tokenizer) -> None:
    assert repr(tokenizer) == (
        "Tokenizer(vocab_size=261, pattern='gpt4', "
        "special_tokens={'<|end|>': 259, '<|end|><|pad|>': 260})"
    )


@pytest.mark.parametrize("pattern", ["gpt2", "llama3", r"\p{N}{1,3}+|\S+|\s++$|\s"])
def test_pickle(pattern: str) -> None:
    tokenizer = Tokenizer.from_vocab(VOCAB, MERGES, ["<|end|>"], pattern)
    again = pickle.loads(pickle.dumps(tokenizer))  # noqa: S301  our own bytes
    assert again == tokenizer
    assert again.pattern == tokenizer.pattern
    assert again.encode("the 12345") == tokenizer.encode("the 12345")


def test_pickle_holds_only_bytes_of_a_tokenizer_json(tokenizer: Tokenizer) -> None:
    function, (data, pattern) = tokenizer.__reduce__()
    assert (type(data), pattern) == (bytes, "gpt4")
    with pytest.raises(FormatError, match="is not JSON"):
        function(b"garbage", pattern)  # type: ignore[operator]


def test_bad_pattern() -> None:
    with pytest.raises(ConfigError, match=r"\(unclosed"):
        Tokenizer.from_vocab(BYTES, [], [], "(unclosed")
