"""tokenizer.json: what is written, and what is refused by name when others wrote it."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import tokenizers

from tokenmill.errors import FormatError, VocabError
from tokenmill.tokenizer.formats import huggingface_json
from tokenmill.tokenizer.vocab import Vocab, vocab_from_bytes

BYTES = {byte: bytes([byte]) for byte in range(256)}


def example(pattern: str = "gpt4", special_tokens: Any = ("<|end|>",)) -> Vocab:
    merges = [(b"t", b"h"), (b"th", b"e"), (b" ", b"the")]
    vocab = BYTES | {256: b"th", 257: b"the", 258: b" the"}
    return vocab_from_bytes(vocab, merges, special_tokens, pattern)


@pytest.mark.parametrize("pattern", ["gpt2", "gpt4", "gpt4o", "qwen2", "nanochat", r"\S+|\s+"])
def test_round_trip(pattern: str) -> None:
    vocab = example(pattern, ["<|end|>", "日本"])
    assert huggingface_json.read(huggingface_json.write(vocab)) == vocab


@pytest.mark.parametrize("pattern", ["gpt2", "gpt4", r"\S+|\s+"])
def test_the_bytes_are_those_tokenizers_saves(pattern: str) -> None:
    data = huggingface_json.write(example(pattern, ["<|end|>", 'a\n"\\\u0001日']))
    theirs = tokenizers.Tokenizer.from_buffer(data)
    assert theirs.to_str(pretty=True).encode() == data


def test_gpt2_is_written_as_byte_level() -> None:
    document = json.loads(huggingface_json.write(example("gpt2")))
    assert document["pre_tokenizer"]["type"] == "ByteLevel"
    assert document["pre_tokenizer"]["use_regex"] is True


def test_special_tokens_first() -> None:
    ids = {0: b"<s>"} | {1 + i: bytes([i]) for i in range(256)}
    vocab = vocab_from_bytes(ids, [], ["<s>"], "gpt2")
    data = huggingface_json.write(vocab)
    assert huggingface_json.read(data) == vocab
    assert tokenizers.Tokenizer.from_buffer(data).encode("<s>a").ids == [0, 98]


@pytest.mark.parametrize("token", ["the", "Ġthe", "Ā"])
def test_special_token_that_reads_like_letters(token: str) -> None:
    vocab = vocab_from_bytes(BYTES | {256: b" the"}, [], [], "gpt2")
    clash = Vocab((*vocab.tokens, token.encode()), (), {token: 257}, "gpt2")
    if token == "the":
        assert huggingface_json.read(huggingface_json.write(clash)) == clash
        return
    with pytest.raises(
        VocabError, match=f"special token `{token}` is also how Hugging Face spells"
    ):
        huggingface_json.write(clash)


def test_merges_as_strings() -> None:
    document = json.loads(huggingface_json.write(example()))
    document["model"]["merges"] = [" ".join(merge) for merge in document["model"]["merges"]]
    del document["model"]["ignore_merges"]
    assert huggingface_json.read(json.dumps(document).encode()) == example()


def change(*path: Any, to: Any) -> Callable[[Any], None]:
    def apply(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = to

    return apply


def remove(*path: Any) -> Callable[[Any], None]:
    def apply(document: Any) -> None:
        for key in path[:-1]:
            document = document[key]
        del document[path[-1]]

    return apply


SPLIT = ("pre_tokenizer", "pretokenizers", 0)
BYTE_LEVEL = ("pre_tokenizer", "pretokenizers", 1)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            change("normalizer", to={"type": "NFC"}),
            r'at `normalizer`: `{"type": "NFC"}` is not supp',
        ),
        (change("truncation", to={"max_length": 9}), "at `truncation`"),
        (change("padding", to={}), "at `padding`"),
        (
            change("model", "type", to="Unigram"),
            'at `model.type`: `"Unigram"` is not supported, only',
        ),
        (change("model", "unk_token", to="<unk>"), "at `model.unk_token`"),
        (change("model", "byte_fallback", to=True), "at `model.byte_fallback`"),
        (change("model", "ignore_merges", to=True), "at `model.ignore_merges`"),
        (change("model", "dropout", to=0.1), "at `model.dropout`"),
        (change("model", "end_of_word_suffix", to="</w>"), "at `model.end_of_word_suffix`"),
        (change("post_processor", to={"type": "TemplateProcessing"}), "at `post_processor.type`"),
        (change("decoder", to={"type": "Metaspace"}), "at `decoder.type`"),
        (change("decoder", to=3), "at `decoder`: expected an object, found `3`"),
        (remove("model", "merges"), "at `model`: key `merges` is missing"),
        (remove("model"), "key `model` is missing"),
        (change("model", to=[]), r"at `model`: expected an object, found `\[\]`"),
        (change("model", "merges", to={}), "at `model.merges`: expected a list, found `{}`"),
        (change("model", "merges", 1, to="th e x"), r"at `model.merges\[1\]`: expected two tokens"),
        (change("model", "merges", 1, to="th"), r"at `model.merges\[1\]`: expected two tokens"),
        (change("model", "merges", 1, to={"t": 1, "h": 2}), r"merges\[1\]`: expected a list"),
        (change("model", "merges", 1, to=["th"]), r"at `model.merges\[1\]`: expected two tokens"),
        (
            change("model", "merges", 1, to=["th", 3]),
            r"at `model.merges\[1\]`: expected two tokens",
        ),
        (change("model", "merges", 1, to=None), r"at `model.merges\[1\]`: expected a list"),
        (change("model", "merges", 1, to=["t h", "e"]), r"U\+0020\) stands for no byte"),
        (
            change("model", "merges", 1, to=["tx", "e"]),
            r"`model.merges\[1\]` joins `tx` and `e`, but",
        ),
        (change("model", "vocab", "the", to="257"), 'at `model.vocab`: the id of `the` is `"257"`'),
        (change("model", "vocab", "the", to=True), "the id of `the` is `true`"),
        (change("model", "vocab", "the", to=2.5), "the id of `the` is `2.5`"),
        (change("model", "vocab", "the", to=256), "at `model.vocab`: id 256 is given to"),
        (change("model", "vocab", "the", to=10**12), "but no id 257"),
        (change("model", "vocab", "the", to=-1), "has id -1"),
        (change("model", "vocab", "日", to=260), "`日` is not byte-level: `日`"),
        (change("model", "vocab", "", to=260), "id 260 is b'', not one or more bytes"),
        (change("model", "vocab", "<|end|>", to=260), "has id 260 here and 259 in `added_tokens`"),
        (remove("model", "vocab", "a"), "but no id 97"),
        (change("added_tokens", 0, "special", to=False), r"at `added_tokens\[0\].special`"),
        (change("added_tokens", 0, "lstrip", to=True), r"at `added_tokens\[0\].lstrip`"),
        (change("added_tokens", 0, "id", to="x"), r"at `added_tokens\[0\].id`: expected a whole"),
        (remove("added_tokens", 0, "content"), r"at `added_tokens\[0\]`: key `content` is missing"),
        (change("added_tokens", to="x"), "at `added_tokens`: expected a list"),
        (change("pre_tokenizer", to=None), "at `pre_tokenizer`: expected an object, found `null`"),
        (change("pre_tokenizer", "type", to="Whitespace"), "at `pre_tokenizer.type`"),
        (change("pre_tokenizer", "pretokenizers", to=[]), "the steps"),
        (
            change(*SPLIT, "behavior", to="Removed"),
            r"at `pre_tokenizer.pretokenizers\[0\].behavior`",
        ),
        (change(*SPLIT, "invert", to=True), r"pretokenizers\[0\].invert`"),
        (change(*SPLIT, "pattern", to={"String": " "}), "key `Regex` is missing"),
        (change(*SPLIT, "pattern", "Regex", to="(a"), r"`\(a` cannot be used"),
        (change(*SPLIT, "pattern", "Regex", to=r"a$|\s|\S"), "mean something else to Hugging Face"),
        (change(*SPLIT, "pattern", "Regex", to=r"a{2}+|\s|\S"), "mean something else"),
        (change(*SPLIT, "pattern", "Regex", to=r"a*"), "cannot be used"),
        (change(*BYTE_LEVEL, "add_prefix_space", to=True), r"pretokenizers\[1\].add_prefix_space`"),
        (change(*BYTE_LEVEL, "use_regex", to=True), r"pretokenizers\[1\].use_regex`"),
        (
            change("pre_tokenizer", to={"type": "ByteLevel", "add_prefix_space": True}),
            "prefix_space",
        ),
    ],
)
def test_refusals_name_the_place(edit: Callable[[Any], None], message: str) -> None:
    document = json.loads(huggingface_json.write(example()))
    edit(document)
    with pytest.raises(FormatError, match=message) as caught:
        huggingface_json.read(json.dumps(document).encode(), "some/tokenizer.json")
    assert "`some/tokenizer.json`" in str(caught.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not JSON: Expecting value at line 1, column 1"),
        (b'{"model": \n nope}', "at line 2, column 2"),
        (b"\xff{}", "is not UTF-8: bad byte at 0"),
        (b"[]", r"expected an object, found `\[\]`"),
        (b"null", "expected an object, found `null`"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (b'{"version": "1.0", "version": "2.0"}', "key `version` stands twice"),
        (b'{"model": NaN}', "`NaN` is not JSON"),
        (b'{"model": ' + b"9" * 5000 + b"}", "cannot be read as JSON"),
        (b'{"model": {"type": "\\ud800"}}', r"`model.type`"),
    ],
)
def test_hostile_json(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message) as caught:
        huggingface_json.read(data, "x.json")
    assert "`x.json`" in caught.value.message
    str(caught.value).encode("utf-8", "surrogatepass")


def test_lone_surrogates_in_tokens() -> None:
    text = huggingface_json.write(example()).decode()
    for old in ('"the"', '"<|end|>"'):
        with pytest.raises(FormatError, match=r"tokenizer\.json"):
            huggingface_json.read(text.replace(old, '"\\ud800"').encode())
