"""Tokenizer: text to ids and back, special tokens, what it is made from, equality."""

import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tokenmill import _core
from tokenmill.errors import ConfigError, FormatError, VocabError
from tokenmill.tokenizer.tokenizer import Tokenizer
from tokenmill.tokenizer.vocab import Extras, Vocab

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


def test_special_tokens_per_call(tokenizer: Tokenizer) -> None:
    text = "<|end|>the<|end|><|pad|>"
    both = {"<|end|>", "<|end|><|pad|>"}
    assert tokenizer.encode(text, allowed_special=both) == [259, 257, 260]
    # Neither allowed nor disallowed is text, here: "<|end|>" at the front.
    some = tokenizer.encode(text, allowed_special={"<|end|><|pad|>"}, disallowed_special=())
    assert some == [*tokenizer.encode_ordinary("<|end|>"), 257, 260]
    with pytest.raises(VocabError, match=r"`<\|end\|>`"):
        tokenizer.encode(text, disallowed_special={"<|end|>"})
    with pytest.raises(VocabError, match=r"`<\|end\|><\|pad\|>`"):
        tokenizer.encode(text, disallowed_special={"<|end|><|pad|>"})
    with pytest.raises(VocabError, match=r"`<\|end\|>`"):
        tokenizer.encode(text, allowed_special="all", disallowed_special={"<|end|>"})
    assert tokenizer.encode(text, disallowed_special=()) == tokenizer.encode_ordinary(text)
    assert tokenizer.encode(text, allowed_special="all", disallowed_special="all") == [
        259,
        257,
        260,
    ]


@pytest.mark.parametrize("argument", ["allowed_special", "disallowed_special"])
def test_special_tokens_must_make_sense(tokenizer: Tokenizer, argument: str) -> None:
    calls: list[Callable[..., Any]] = [
        tokenizer.encode, tokenizer.encode_to_numpy, tokenizer.count_tokens, tokenizer.encode_with_offsets,
        lambda text, **how: tokenizer.encode_batch([text], **how),
        lambda text, **how: tokenizer.encode_iterable([text], **how),
        lambda text, **how: tokenizer.encode(text, dropout=0.5, seed=1, **how),
        lambda text, **how: tokenizer.truncate(text, 5, **how),
        lambda text, **how: tokenizer.split(text, 5, **how),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(ConfigError, match=f"`{argument}` is the string .* not `all` or a set"):
            call("x", **{argument: "<|end|>"})
        with pytest.raises(VocabError, match=r"`<\|eot\|>` is not a special token"):
            call("x", **{argument: {"<|eot|>"}})
        with pytest.raises(TypeError):
            call("x", **{argument: [5]})


def test_special_tokens_may_come_in_any_collection(tokenizer: Tokenizer) -> None:
    text, name = "the<|end|>", "<|end|>"
    for names in ([name], (name,), {name}, frozenset([name]), {name: 259}, {name: 1}.keys()):
        assert tokenizer.encode(text, allowed_special=names) == [257, 259]


def test_text_must_be_text(tokenizer: Tokenizer) -> None:
    for wrong in (None, 5, ["the"], bytearray(b"the")):
        with pytest.raises(TypeError, match="expected text as `str` or `bytes`"):
            tokenizer.encode(wrong)  # type: ignore[arg-type]


def test_numpy_and_counts(tokenizer: Tokenizer) -> None:
    text = "the the 漢<|end|>"
    ids = tokenizer.encode_to_numpy(text, allowed_special="all")
    assert (ids.dtype, ids.tolist()) == (np.uint16, tokenizer.encode(text, allowed_special="all"))
    assert tokenizer.count_tokens(text, allowed_special="all", threads=None) == len(ids)
    assert tokenizer.encode_to_numpy("").tolist() == []
    assert tokenizer.count_tokens(b"") == 0
    ids[0] = 5
    assert tokenizer.encode_to_numpy(text, allowed_special="all")[0] == 257, "yours to write to"
    for call in (tokenizer.encode_to_numpy, tokenizer.count_tokens):
        with pytest.raises(VocabError, match=r"`<\|end\|>`"):
            call(text)


def test_dropout_needs_a_seed_that_makes_sense(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("the", dropout=0.0, seed=0) == [257]
    assert tokenizer.encode("the", dropout=1, seed=2**64 - 1) == [*b"the"]
    with pytest.raises(ConfigError, match=r"dropout `0\.1` is given without a seed"):
        tokenizer.encode("the", dropout=0.1)
    with pytest.raises(ConfigError, match="seed `3` is given without a dropout"):
        tokenizer.encode("the", seed=3)
    for dropout in (-0.1, 1.1, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match=f"dropout is {dropout}, not between 0 and 1"):
            tokenizer.encode("the", dropout=dropout, seed=1)
    for seed in (-1, 2**64, 1.5):
        with pytest.raises(ConfigError, match=f"seed is `{seed}`"):
            tokenizer.encode("the", dropout=0.1, seed=seed)  # type: ignore[arg-type]


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


@pytest.mark.parametrize("token_id", [-1, 261, 65_536, 2**31, 2**32 + 97, 2**40, 2**63 - 1])
def test_unknown_ids(tokenizer: Tokenizer, token_id: int) -> None:
    message = f"token id {token_id} is not in the vocab, ids run from 0 to 260"
    with pytest.raises(VocabError, match=message):
        tokenizer.token_bytes(token_id)
    for ids in ([97, token_id], (97, token_id), np.array([97, token_id]), iter([97, token_id])):
        with pytest.raises(VocabError, match=message):
            tokenizer.decode(ids)
        if not hasattr(ids, "__next__"):
            with pytest.raises(VocabError, match=message):
                tokenizer.decode_bytes(ids)


@pytest.mark.parametrize("token_id", [2**63, 2**64 + 97, -(2**63) - 1])
def test_ids_beyond_every_integer_type(tokenizer: Tokenizer, token_id: int) -> None:
    with pytest.raises(VocabError, match="is not in the vocab"):
        tokenizer.decode([97, token_id])


class Tensor:
    """What a tensor library's vector has of an array."""

    ndim = 1

    def __init__(self, numbers: list[int]) -> None:
        self.numbers = numbers

    def tolist(self) -> list[int]:
        return self.numbers

    def __iter__(self) -> Any:
        raise AssertionError("one number at a time would be slow")


FORMS: dict[str, Callable[[list[int]], Any]] = {
    "list": list,
    "tuple": tuple,
    "generator": iter,
    "dict keys": lambda ids: dict.fromkeys(ids).keys(),
    "array": lambda ids: array.array("i", ids),
    "memoryview": lambda ids: memoryview(array.array("H", ids)),
    "big endian": lambda ids: np.array(ids, ">u4"),
    "every second": lambda ids: np.repeat(np.array(ids), 2)[::2],
    "read only": lambda ids: np.frombuffer(np.array(ids).tobytes(), np.int64),
    "numpy numbers": lambda ids: list(np.array(ids, np.uint32)),
    "tensor": Tensor,
    **{
        kind: lambda ids, kind=kind: np.array(ids, kind)
        for kind in ("uint16", "uint32", "uint64", "int16", "int32", "int64")
    },
}


@pytest.mark.parametrize("form", FORMS)
def test_ids_in_any_form(tokenizer: Tokenizer, form: str) -> None:
    ids = [257, 258, 230, 188, 162, 259]
    assert tokenizer.decode(FORMS[form](ids)) == "the the漢<|end|>"
    assert tokenizer.decode_bytes(FORMS[form](ids)) == "the the漢<|end|>".encode()
    assert tokenizer.decode(FORMS[form]([])) == ""


@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_ids_in_single_bytes(tokenizer: Tokenizer, kind: str) -> None:
    assert tokenizer.decode(np.array([104, 105], kind)) == "hi"


@pytest.mark.parametrize(
    "wrong",
    [[97.0], [97, 97.5], ["a"], [None], [[97]], "a", b"a", bytearray(b"a"), 97, None, np.array([97.0]), np.array([True]), np.array([[97], [98]]), np.array(["a"])],
    ids=repr,
)  # fmt: skip
def test_what_is_no_row_of_ids(tokenizer: Tokenizer, wrong: Any) -> None:
    with pytest.raises(TypeError):
        tokenizer.decode(wrong)
    with pytest.raises(TypeError):
        tokenizer.decode_bytes(wrong)


def test_true_is_one_as_everywhere_in_python(tokenizer: Tokenizer) -> None:
    assert tokenizer.decode_bytes([True, False]) == b"\x01\x00"


def test_an_id_without_a_token() -> None:
    tokens = [*VOCAB.values(), b"", b"<|end|>"]
    core = _core.Vocab(tokens, [(116, 104, 256)], {"<|end|>": 260})
    tokenizer = Tokenizer(Vocab(core, "gpt4"))
    assert tokenizer.vocab_size == 261
    assert 259 not in tokenizer.vocab
    assert tokenizer.vocab[260] == b"<|end|>"
    with pytest.raises(VocabError, match="no token of this vocab has id 259"):
        tokenizer.decode([259])
    with pytest.raises(VocabError, match="no token of this vocab has id 259"):
        tokenizer.token_bytes(259)
    with pytest.raises(VocabError, match="is not a token"):
        tokenizer.token_id(b"")


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


def test_special_tokens_are_added_at_the_end(tokenizer: Tokenizer) -> None:
    chat = tokenizer.with_special_tokens(["<|user|>", "<|end|>", "<|bot|>"])
    assert chat.special_tokens == tokenizer.special_tokens | {"<|user|>": 261, "<|bot|>": 262}
    assert (chat.vocab_size, tokenizer.vocab_size) == (263, 261)
    assert chat.encode("<|user|>the<|end|>", allowed_special="all") == [261, 257, 259]
    assert chat.encode_ordinary("<|user|>the") == tokenizer.encode_ordinary("<|user|>the")
    assert tokenizer.encode("<|user|>the") == tokenizer.encode_ordinary("<|user|>the")
    with pytest.raises(VocabError, match=r"`<\|user\|>`"):
        chat.encode("<|user|>the")
    assert chat.merges == tokenizer.merges
    assert chat != tokenizer
    assert tokenizer.with_special_tokens([]) == tokenizer
    assert tokenizer.with_special_tokens(["<|end|>"]) == tokenizer
    assert chat.with_special_tokens(["<|more|>"]).special_tokens["<|more|>"] == 263


def test_added_special_tokens_leave_the_rest_as_it_is() -> None:
    tokens = [*VOCAB.values(), b"", b"<|end|>", b"ab"]
    core = _core.Vocab(tokens[:260], [(116, 104, 256)], {}, ignore_merges=True)
    extras = Extras(chat_template="{{ messages }}")
    tokenizer = Tokenizer(Vocab(core, "gpt2", "nfc", extras)).with_special_tokens(["the"])
    assert tokenizer.special_tokens == {"the": 260}, "after the id without a token"
    assert (tokenizer.ignore_merges, tokenizer.normalizer) == (True, "nfc")
    assert tokenizer.chat_template == "{{ messages }}"
    # The ordinary token of that spelling stays, and ordinary text still makes it.
    assert tokenizer.encode_ordinary("the") == [257]
    assert tokenizer.encode("the", allowed_special="all") == [260]
    assert tokenizer.token_id(b"the") == 257


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("<|end|>", r"the one string `<\|end\|>`"),
        ([""], "special token '' is not"),
        ([5], "special token 5 is not"),
        (["\ud83d"], "half of a surrogate pair"),
    ],
)
def test_special_tokens_that_cannot_be_added(
    tokenizer: Tokenizer, wrong: Any, message: str
) -> None:
    with pytest.raises(VocabError, match=message):
        tokenizer.with_special_tokens(wrong)


def test_ranks_as_tiktoken_keeps_them() -> None:
    ranks = {token: token_id for token_id, token in VOCAB.items()}
    tokenizer = Tokenizer.from_ranks(ranks, {"<|end|>": 300}, "gpt4")
    assert tokenizer.encode("the the<|end|>", allowed_special="all") == [257, 258, 300]
    assert tokenizer.vocab_size == 301
    assert tokenizer.merges == MERGES
    backwards = dict(sorted(ranks.items(), reverse=True))
    assert Tokenizer.from_ranks(backwards, {"<|end|>": 300}, "gpt4") == tokenizer
    for wrong in (ranks | {b"the": 299}, ranks | {b" the": 257}, ranks | {b"the": -1}, {}):
        with pytest.raises((VocabError, FormatError)):
            Tokenizer.from_ranks(wrong, {"<|end|>": 300}, "gpt4")


def test_load_says_what_it_cannot_take(tokenizer: Tokenizer, tmp_path: Path) -> None:
    folder = tokenizer.save(tmp_path / "tok")
    assert Tokenizer.load(folder) == Tokenizer.load(str(folder)) == tokenizer
    with pytest.raises(ConfigError, match="leave `pattern` out"):
        Tokenizer.load(folder, pattern="gpt2")
    with pytest.raises(ConfigError, match="is not a tokenizer that can be loaded"):
        Tokenizer.load(object())
    with pytest.raises(ConfigError, match="says itself"):
        Tokenizer.load(object(), special_tokens={"<|x|>": 5})


def test_memory(tokenizer: Tokenizer) -> None:
    tokenizer.encode("the cat " * 1000)
    memory = tokenizer.memory()
    assert memory.keys() == {"vocab", "merges", "cache", "decoder"}
    assert all(type(size) is int and size >= 0 for size in memory.values())
    assert memory["decoder"] >= 16 * tokenizer.vocab_size
    assert 0 < memory["cache"] < 40 << 20


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
    vocab = tokenizer._vocab
    assert Tokenizer(Vocab(vocab.core, "gpt4", "nfc")) != tokenizer
    assert Tokenizer(Vocab(vocab.core, "gpt4", None, Extras(chat_template="x"))) == tokenizer
    assert tokenizer != "tokenizer"


def test_a_regex_with_a_name_gets_it() -> None:
    regex = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    assert Tokenizer.from_vocab(BYTES, [], [], regex).pattern == "gpt2"


def test_repr(tokenizer: Tokenizer) -> None:
    assert repr(tokenizer) == (
        "Tokenizer(vocab_size=261, pattern='gpt4', "
        "special_tokens={'<|end|>': 259, '<|end|><|pad|>': 260})"
    )


def test_bad_pattern() -> None:
    with pytest.raises(ConfigError, match=r"\(unclosed"):
        Tokenizer.from_vocab(BYTES, [], [], "(unclosed")
