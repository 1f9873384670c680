"""What tests/parity cannot ask of the original: where it panics, and what only we have."""

import dataclasses
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import tokenmill as tm
from tokenmill.compat import tiktoken
from tokenmill.compat.special_choice import SpecialChoice
from tokenmill.compat.surrogates import repaired_utf8, utf8
from tokenmill.errors import ConfigError, VocabError

RANKS = {bytes([byte]): byte for byte in range(256)} | {b"th": 256, b"the": 257, b"  ": 258}
SPECIAL_TOKENS = {"<|endoftext|>": 259, "<|pad|>": 260}


def encoding(**changed: Any) -> tiktoken.Encoding:
    parts: dict[str, Any] = {
        "name": "demo",
        "pat_str": tm.Tokenizer.from_ranks(RANKS, {}, "gpt4")._regex,
        "mergeable_ranks": RANKS,
        "special_tokens": SPECIAL_TOKENS,
    }
    return tiktoken.Encoding(**(parts | changed))


def test_a_million_spaces_are_text_like_any_other() -> None:
    enc = encoding()
    text = " " * 1_000_000 + "x"
    ids = enc.encode(text)
    assert enc.decode(ids) == text
    assert enc._encode_single_piece("") == []


def test_an_error_names_the_special_token_and_the_ways_out() -> None:
    with pytest.raises(
        ValueError, match=r"disallowed special token `<\|pad\|>` at character 4"
    ) as e:
        encoding().encode("the <|pad|><|endoftext|>")
    assert isinstance(e.value, VocabError)
    assert "disallowed_special=()" in str(e.value)
    with pytest.raises(VocabError, match=r"`<\|pad\|>`"):
        encoding().encode_batch(["the", "<|pad|>"])


def test_of_overlapping_special_tokens_the_longest_wins() -> None:
    enc = encoding(special_tokens={"<a>": 259, "<a>b": 260})
    assert enc.encode("<a>b<a>", allowed_special="all") == [260, 259]
    # tiktoken finds the forbidden one inside the allowed one, and so do we.
    with pytest.raises(VocabError, match="`<a>` at character 0"):
        enc.encode("<a>b", allowed_special={"<a>b"})


def test_an_unknown_id_is_named() -> None:
    with pytest.raises(KeyError, match="token id 261 is not in the vocab, whose size is 261"):
        encoding().decode([104, 261])
    with pytest.raises(KeyError, match="261"):
        encoding().decode_tokens_bytes([261])


def test_a_tokenizer_becomes_an_encoding_and_back() -> None:
    texts = tm.documents(["low lower lowest newer newest"] * 3)
    tokenizer = tm.train(texts, vocab_size=270, pattern="gpt2")
    enc = tiktoken.Encoding.from_tokenizer(tokenizer)
    assert (enc.name, enc.n_vocab, enc.eot_token) == ("gpt2-270", 270, 269)
    assert enc.tokenizer is tokenizer
    assert enc.encode_ordinary("lowest") == tokenizer.encode_ordinary("lowest")
    rebuilt = tiktoken.Encoding(
        enc.name,
        pat_str=enc._pat_str,
        mergeable_ranks=enc._mergeable_ranks,
        special_tokens=enc._special_tokens,
        explicit_n_vocab=270,
    )
    assert rebuilt.tokenizer == tokenizer
    assert rebuilt._mergeable_ranks is enc._mergeable_ranks
    assert tiktoken.Encoding.from_encoding(enc).tokenizer == tokenizer


def test_what_ranks_cannot_say_is_not_given_as_ranks() -> None:
    merges = [(b"b", b"c"), (b"a", b"b")]
    vocab = {i: bytes([i]) for i in range(256)} | {256: b"ab", 257: b"bc"}
    enc = tiktoken.Encoding.from_tokenizer(tm.Tokenizer.from_vocab(vocab, merges, [], "gpt2"))
    assert enc.encode("abc") == [97, 257]
    with pytest.raises(VocabError, match="cannot be told by ranks"):
        _ = enc._mergeable_ranks
    plain = tm.Tokenizer.from_ranks(RANKS, SPECIAL_TOKENS, "gpt4")
    nfc = tm.Tokenizer(dataclasses.replace(plain._vocab, normalizer="nfc"))
    with pytest.raises(VocabError, match="no normalizer"):
        _ = tiktoken.Encoding.from_tokenizer(nfc)._mergeable_ranks
    with pytest.raises(NotImplementedError, match="normalizer"):
        tiktoken.Encoding.from_tokenizer(nfc).encode_with_unstable("the")


def test_vocabularies_with_holes_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="rank"):
        encoding(mergeable_ranks=RANKS | {b"zz": 5000})
    with pytest.raises(ValueError, match="byte"):
        encoding(mergeable_ranks={b"a": 0})


def test_threads_must_be_there() -> None:
    with pytest.raises(ConfigError, match="`num_threads` must be greater than 0, found 0"):
        encoding().encode_batch(["the"], num_threads=0)


def test_names_come_from_tiktoken(monkeypatch: pytest.MonkeyPatch) -> None:
    import tiktoken as original

    constructors = {
        "demo": lambda: {
            "name": "demo",
            "pat_str": r"\s+|\S+",
            "mergeable_ranks": RANKS,
            "special_tokens": SPECIAL_TOKENS,
        }
    }
    monkeypatch.setattr(original.registry, "ENCODING_CONSTRUCTORS", constructors)
    monkeypatch.setattr(original.registry, "ENCODINGS", {})
    monkeypatch.setitem(original.model.MODEL_TO_ENCODING, "demo-model", "demo")
    enc = tiktoken.get_encoding("demo")
    assert enc.encode("the  ") == original.get_encoding("demo").encode("the  ")
    assert tiktoken.get_encoding("demo") is enc
    assert tiktoken.encoding_for_model("demo-model") is enc
    assert tiktoken.encoding_name_for_model("demo-model") == "demo"
    assert tiktoken.list_encoding_names() == ["demo"]
    with pytest.raises(ValueError, match="Unknown encoding"):
        tiktoken.get_encoding("no such")
    with pytest.raises(KeyError):
        tiktoken.encoding_for_model("no such")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("get_encoding", ("gpt2",)),
        ("encoding_for_model", ("gpt-4",)),
        ("encoding_name_for_model", ("gpt-4",)),
        ("list_encoding_names", ()),
    ],
)
def test_without_tiktoken_names_are_an_error_that_says_what_to_do(
    name: str, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(ModuleNotFoundError, match=f"`{name}` finds vocabularies through tiktoken"):
        getattr(tiktoken, name)(*arguments)
    assert encoding().encode("the") == [257]


def test_surrogates_never_reach_the_core() -> None:
    assert utf8("the") == "the"
    assert utf8("é") == "é".encode()
    assert repaired_utf8("\ud83d\ude00 \ud83d") == "\U0001f600 \ufffd".encode()
    with pytest.raises(UnicodeEncodeError):
        utf8("\ud800")
    with pytest.raises(TypeError, match="`str`, found `bytes`"):
        utf8(b"the")


def test_choices_are_handed_on_as_cheaply_as_they_can_be() -> None:
    choice = SpecialChoice({"<a>", "<b>"})
    assert choice.choose(["x"], frozenset(), "all") == (frozenset(), "all")
    assert choice.choose(["x"], "all", "all") == ("all", "all")
    assert choice.choose(["x"], {"<a>", "other"}, ()) == ({"<a>"}, frozenset())
    with pytest.raises(TypeError, match="must be `all` or a set, found `list`"):
        choice.choose(["x"], ["<a>"], "all")  # pyright: ignore[reportArgumentType]


def test_neither_original_is_imported() -> None:
    program = (
        "import sys; from tokenmill.compat import tiktoken, tokenizers; "
        "print({'tiktoken', 'tokenizers', 'numpy', 'regex', 'huggingface_hub'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout == "set()\n"


def test_many_threads_share_an_encoding() -> None:
    enc = encoding()
    texts = [f"the {number} the<|pad|>" * 50 for number in range(64)]
    expected = [enc.encode(text, allowed_special="all") for text in texts]
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(lambda text: enc.encode(text, allowed_special="all"), texts * 4))
    assert found == expected * 4
