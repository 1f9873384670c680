"""Tokenizers that a program already holds: taken over with the same ids, by what they offer."""

import random
from typing import Any

import pytest
import tiktoken
import tokenizers

from tokenmill.errors import ConfigError, FormatError, VocabError
from tokenmill.tokenizer.artifact import build_bpe
from tokenmill.tokenizer.formats import huggingface_json, live_objects
from tokenmill.tokenizer.formats.live_objects import vocab_from_ranks
from tokenmill.tokenizer.vocab import Vocab, vocab_from_bytes

BYTES = {byte: bytes([byte]) for byte in range(256)}
MERGES = [(b"t", b"h"), (b"th", b"e"), (b" ", b"the")]
TEXTS = ["the then  \n\n the", "a\n  ", "12345 O'Neill's", "the<|end|> the", ""]


def example(pattern: str = "gpt4") -> Vocab:
    vocab = BYTES | {256 + i: left + right for i, (left, right) in enumerate(MERGES)}
    return vocab_from_bytes(vocab, MERGES, ["<|end|>"], pattern)


def encoding(pat_str: str, special_tokens: dict[str, int] | None = None) -> tiktoken.Encoding:
    special_tokens = {"<|end|>": 259} if special_tokens is None else special_tokens
    ids = example().tokens[:259]
    ranks = {token: rank for rank, token in enumerate(ids)}
    return tiktoken.Encoding(
        "mine", pat_str=pat_str, mergeable_ranks=ranks, special_tokens=special_tokens
    )


@pytest.mark.parametrize(
    ("pat_str", "pattern"),
    [
        (
            r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
            "cl100k",
        ),
        (
            r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
            "gpt2",
        ),
        (r"\S+\s?$|[\s\S]", r"\S+\s?\Z|[\s\S]"),
    ],
)
def test_tiktoken(pat_str: str, pattern: str) -> None:
    theirs = encoding(pat_str)
    vocab = live_objects.read(theirs)
    assert live_objects.is_live_object(theirs)
    assert (vocab.pattern, vocab.special_tokens) == (pattern, {"<|end|>": 259})
    assert vocab.merges_as_bytes() == MERGES
    bpe = build_bpe(vocab)
    for text in TEXTS:
        assert bpe.encode(text, "all", ()) == theirs.encode(text, allowed_special="all")


def test_tiktoken_with_free_ids_and_a_special_token_inside() -> None:
    theirs = encoding("[\\s\\S]", {"<|end|>": 300})
    assert live_objects.read(theirs).proof.ids_without_token == tuple(range(259, 300))
    ranks = dict(theirs._mergeable_ranks)
    ranks[b" the"] = 259
    vocab = vocab_from_ranks(ranks, {"<|end|>": 258}, "gpt2")
    assert vocab.tokens[258:] == (b"<|end|>", b" the")


@pytest.mark.parametrize(
    ("ranks", "special_tokens", "error", "message"),
    [
        ({b"ab": 300}, {}, VocabError, "257 tokens up to id 300, but no id 256"),
        ({b"ab": 10**9}, {}, FormatError, "257 ranks up to 1000000000, so ranks are missing"),
        ({b"ab": -1}, {}, FormatError, "ranks are missing"),
        ({b"ab": 97}, {}, FormatError, "gives rank 97 to b'a' and to b'ab'"),
        ({}, {"<s>": 97}, VocabError, "special token `<s>` has id 97, which spells `a`"),
    ],
)
def test_ranks_that_are_none(
    ranks: dict[bytes, int], special_tokens: dict[str, int], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        vocab_from_ranks({t: r for r, t in BYTES.items()} | ranks, special_tokens, "gpt2")


def test_a_pattern_of_tiktoken_without_equivalent() -> None:
    with pytest.raises(FormatError, match=r"the encoding `mine`: .* have no equivalent"):
        live_objects.read(encoding(r"[a[b]]|[\s\S]"))


@pytest.mark.parametrize("pattern", ["gpt2", "gpt4"])
def test_tokenizers(pattern: str) -> None:
    theirs = tokenizers.Tokenizer.from_buffer(huggingface_json.write(example(pattern)))
    assert live_objects.read(theirs) == example(pattern)
    theirs.add_tokens(["<new>"])
    vocab = live_objects.read(theirs)
    assert vocab.special_tokens == {"<|end|>": 259, "<new>": 260}
    assert vocab.extras.not_special == {"<new>"}
    bpe = build_bpe(vocab)
    for text in [*TEXTS, "<new>the<|end|>"]:
        assert bpe.encode(text, "all", ()) == theirs.encode(text).ids


def test_tokenizers_that_cut_or_pad_are_refused() -> None:
    theirs = tokenizers.Tokenizer.from_buffer(huggingface_json.write(example()))
    theirs.enable_truncation(5)
    with pytest.raises(FormatError, match=r"`tokenizers.Tokenizer` at `truncation`"):
        live_objects.read(theirs)


class OfTransformers:
    """What the tokenizers of transformers offer, without a second of importing it."""

    bos_token = None
    eos_token = "<|end|>"
    chat_template = "{{ messages }}"

    def __init__(self) -> None:
        data = huggingface_json.write(example())
        self.backend_tokenizer = tokenizers.Tokenizer.from_buffer(data)


def test_the_tokenizer_inside() -> None:
    owner = OfTransformers()
    owner.backend_tokenizer.enable_padding()
    owner.backend_tokenizer.enable_truncation(5)
    vocab = live_objects.read(owner)
    assert vocab.core == example().core
    assert vocab.extras.chat_template == "{{ messages }}"
    assert vocab.extras.config == {"eos_token": "<|end|>"}
    assert owner.backend_tokenizer.truncation is not None, "the object itself stays as it was"


@pytest.mark.parametrize("candidate", [3, "text", None, object(), random.Random(1)])
def test_what_is_no_tokenizer(candidate: Any) -> None:
    assert not live_objects.is_live_object(candidate)
    with pytest.raises(ConfigError, match="is not a tokenizer that can be loaded"):
        live_objects.read(candidate)
