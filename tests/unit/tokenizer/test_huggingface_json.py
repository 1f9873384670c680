"""tokenizer.json: what is written, and what is refused by name when others wrote it."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import tokenizers

from tokenmill import _core
from tokenmill.errors import FormatError, VocabError
from tokenmill.tokenizer.artifact import build_bpe
from tokenmill.tokenizer.formats import huggingface_json
from tokenmill.tokenizer.vocab import Extras, Vocab, vocab_from_bytes, vocab_from_ids

BYTES = {byte: bytes([byte]) for byte in range(256)}


def example(pattern: str = "gpt4", special_tokens: Any = ("<|end|>",)) -> Vocab:
    merges = [(b"t", b"h"), (b"th", b"e"), (b" ", b"the")]
    vocab = BYTES | {256: b"th", 257: b"the", 258: b" the"}
    return vocab_from_bytes(vocab, merges, special_tokens, pattern)


@pytest.mark.parametrize(
    "pattern", ["gpt2", "gpt4", "cl100k", "gpt4o", "qwen2", "nanochat", r"\S+|\s+"]
)
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
    tokens = [*BYTES.values(), b" the", token.encode()]
    clash = vocab_from_ids(tokens, [], {token: 257}, "gpt2")
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
            change("normalizer", to={"type": "NFKC"}),
            'at `normalizer.type`: `"NFKC"` is not supported, only `"NFC"`',
        ),
        (
            change(
                "normalizer",
                to={"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]},
            ),
            r'at `normalizer.normalizers\[1\].type`: `"Lowercase"` is not',
        ),
        (change("normalizer", to="NFC"), "at `normalizer`: expected an object"),
        (change("truncation", to={"max_length": 9}), "at `truncation`"),
        (change("padding", to={}), "at `padding`"),
        (
            change("model", "type", to="Unigram"),
            'at `model.type`: `"Unigram"` is not supported, only',
        ),
        (change("model", to={"type": "Unigram", "vocab": [["a", 0.5]]}), "at `model.type`"),
        (change("model", "ignore_merges", to=1), "at `model.ignore_merges`"),
        (change("model", "dropout", to=0.1), "at `model.dropout`"),
        (change("model", "end_of_word_suffix", to="</w>"), "at `model.end_of_word_suffix`"),
        (
            change("post_processor", to={"type": "RobertaProcessing"}),
            'at `post_processor.type`: `"RobertaProcessing"` is not supported, only `ByteLevel`',
        ),
        (
            change(
                "post_processor",
                to={"type": "Sequence", "processors": [{"type": "BertProcessing"}]},
            ),
            r"at `post_processor.processors\[0\].type`",
        ),
        (
            change("post_processor", to={"type": "TemplateProcessing"}),
            "at `post_processor`: key `single` is missing",
        ),
        (change("decoder", to={"type": "Metaspace"}), "at `decoder.type`"),
        (change("decoder", to=3), "at `decoder`: expected an object, found `3`"),
        (remove("model", "merges"), "at `model`: key `merges` is missing"),
        (remove("model", "vocab"), "at `model`: key `vocab` is missing"),
        (remove("model"), "key `model` is missing"),
        (change("model", to=[]), r"at `model`: expected an object, found `\[\]`"),
        (change("model", "vocab", to=[["a", 1]]), "at `model.vocab`: expected an object, found a"),
        (change("model", "merges", to={}), "at `model.merges`: expected a list, found `{}`"),
        (change("model", "merges", 1, to="th e x"), r"at `model.merges\[1\]`: expected two tokens"),
        (change("model", "merges", 1, to="th"), r"at `model.merges\[1\]`: expected two tokens"),
        (
            change("model", "merges", 1, to={"t": 1, "h": 2}),
            r"merges\[1\]`: expected two tokens, found an object",
        ),
        (change("model", "merges", 1, to=["th"]), r"expected two tokens, found a list of 1"),
        (change("model", "merges", 1, to=["a", "b", "c"]), r"merges\[1\]`: .*found a list of 3"),
        (change("model", "merges", 1, to=["th", 3]), r"merges\[1\]`: .* found `3`"),
        (change("model", "merges", 1, to=None), r"at `model.merges\[1\]`: .* found `null`"),
        (change("model", "merges", 1, to=["t h", "e"]), r"U\+0020\) stands for no byte"),
        (
            change("model", "merges", 1, to=["tx", "e"]),
            r"`model.merges\[1\]` joins `tx` and `e`, but `tx` is not in the vocab",
        ),
        (
            change("model", "merges", 1, to=["t", "h"]),
            r"`model.merges\[1\]` joins `t` and `h`, as `.*` at `model.merges\[0\]` does already",
        ),
        (
            change("model", "merges", to=[["Ġ", "the"], ["th", "e"], ["t", "h"]]),
            r"`model.merges\[0\]` joins ` ` and `the`, but `the` is not a token at that point",
        ),
        (change("model", "vocab", "the", to="257"), 'at `model.vocab`: the id of `the` is `"257"`'),
        (change("model", "vocab", "the", to=True), "the id of `the` is `true`"),
        (change("model", "vocab", "the", to=2.5), "the id of `the` is `2.5`"),
        (change("model", "vocab", "the", to=[257]), "the id of `the` is a list"),
        (change("model", "vocab", "the", to=256), "at `model.vocab`: id 256 is given to"),
        (change("model", "vocab", "the", to=300), "has 260 tokens up to id 300, but no id 257"),
        (change("model", "vocab", "the", to=10**12), "the id of `the` is `1000000000000`, not"),
        (change("model", "vocab", "the", to=10**400), "is not JSON: number out of range"),
        (change("model", "vocab", "the", to=-1), "the id of `the` is `-1`, not a whole number"),
        (change("model", "vocab", "日", to=260), "`日` is not byte-level: `日`"),
        (change("model", "vocab", "", to=260), "at `model.vocab`: id 260 is the empty string"),
        (change("model", "vocab", "<|end|>", to=260), "has id 260 here and 259 in `added_tokens`"),
        (remove("model", "vocab", "a"), "but no id 97"),
        (change("added_tokens", 0, "lstrip", to=True), r"at `added_tokens\[0\].lstrip`"),
        (change("added_tokens", 0, "special", to="no"), r"at `added_tokens\[0\].special`"),
        (change("added_tokens", 0, "id", to="x"), r"at `added_tokens\[0\].id`: expected a whole"),
        (change("added_tokens", 0, "id", to=10**12), "at `added_tokens`: special token `<|end|>`"),
        (
            change("added_tokens", 0, "content", to=""),
            r"added_tokens\[0\]`: a special token is the",
        ),
        (
            change("added_tokens", 0, "content", to="<new>"),
            r"at `added_tokens\[0\]`: `<new>` has id 259, but it is not in `model.vocab`, so "
            "Hugging Face gives it id 260",
        ),
        (
            change("added_tokens", 0, to={"id": 257, "content": "the"}),
            r"`model.merges\[1\]` joins `th` and `e`, but `the` is a special token",
        ),
        (remove("added_tokens", 0, "content"), r"at `added_tokens\[0\]`: key `content` is missing"),
        (change("added_tokens", to="x"), "at `added_tokens`: expected a list"),
        (change("pre_tokenizer", to=None), "at `pre_tokenizer`: expected an object, found `null`"),
        (change("pre_tokenizer", "type", to="Whitespace"), "at `pre_tokenizer.type`"),
        (change("pre_tokenizer", "pretokenizers", to=[]), "the steps"),
        (change(*SPLIT, "type", to="Digits"), r'the steps `\["Digits", "ByteLevel"\]` are not'),
        (change(*SPLIT, "behavior", to="MergedWithNext"), r"pretokenizers\[0\].behavior`"),
        (
            change(*SPLIT, "behavior", to="Removed"),
            r"at `pre_tokenizer.pretokenizers\[0\].behavior`",
        ),
        (change(*SPLIT, "invert", to="yes"), r"pretokenizers\[0\].invert`"),
        (change(*SPLIT, "pattern", to={"String": " "}), "key `Regex` is missing"),
        (change(*SPLIT, "pattern", "Regex", to="(a"), r"`\(a` cannot be used"),
        (change(*SPLIT, "pattern", "Regex", to=r"a$|\s|\S"), "mean something else to Hugging Face"),
        (change(*SPLIT, "pattern", "Regex", to=r"a{2}+|\s|\S"), "mean something else"),
        (change(*SPLIT, "pattern", "Regex", to=r"[a[b]]|\s|\S"), "mean something else"),
        (change(*SPLIT, "pattern", "Regex", to=r"a*"), "cannot be used"),
        (change(*BYTE_LEVEL, "add_prefix_space", to=True), r"pretokenizers\[1\].add_prefix_space`"),
        (change(*BYTE_LEVEL, "use_regex", to=True), r"pretokenizers\[1\].use_regex`"),
        (remove(*BYTE_LEVEL, "use_regex"), "key `use_regex` is missing"),
        (
            change("pre_tokenizer", to={"type": "ByteLevel", "add_prefix_space": True}),
            "prefix_space",
        ),
        (
            change(
                "pre_tokenizer",
                to={"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
            ),
            "at `pre_tokenizer.use_regex`",
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
        (b"", "is not JSON: EOF while parsing a value at line 1, column 0"),
        (b'{"model": \n nope}', "at line 2, column 3"),
        (b"\xff{}", "is not UTF-8: bad byte at 0"),
        (b"\xef\xbb\xbf{}", "starts with a byte order mark"),
        (b"[]", r"expected an object, found `\[\]`"),
        (b"null", "expected an object, found `null`"),
        (b"[" * 100_000, "is not JSON: EOF while parsing a list"),
        (b'{"a":' * 100_000, "is not JSON: EOF while parsing"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "nested too deeply"),
        (b'{"version": "1.0", "version": "2.0"}', "key `version` stands twice"),
        (b'{"added_tokens": [{"id": 1, "id": 2}]}', "key `id` stands twice"),
        (b'{"model": {"vocab": {}, "vocab": {}}}', "at `model`: key `vocab` stands twice"),
        (b'{"model": {}, "model": {}}', "key `model` stands twice"),
        (b'{"model": NaN}', "is not JSON: expected value at line 1, column 11"),
        (b'{"padding": ' + b"9" * 5000 + b', "model": {}}', "cannot be read as JSON"),
        (b'{"model": {"type": "\\ud800"}}', r"`model.type`"),
        (b'{"model": {"vocab": {"\\ud800": 1}}}', "is not JSON: .* at line 1, column 29"),
        (b'{"model": {}} {}', "is not JSON: trailing characters"),
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


def document_of(vocab: Vocab) -> dict[str, Any]:
    return json.loads(huggingface_json.write(vocab))


def reread(document: dict[str, Any]) -> Vocab:
    return huggingface_json.read(json.dumps(document).encode())


def test_normalizer() -> None:
    vocab = replace(example(), normalizer="nfc")
    data = huggingface_json.write(vocab)
    assert huggingface_json.read(data) == vocab
    theirs = tokenizers.Tokenizer.from_buffer(data)
    assert theirs.to_str(pretty=True).encode() == data
    ids = build_bpe(vocab).encode("e\u0301 the<|end|>\u212b", "all", ())
    assert theirs.encode("e\u0301 the<|end|>\u212b").ids == ids
    document = document_of(vocab)
    document["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "NFC"}]}
    assert reread(document) == vocab
    document["normalizer"] = {"type": "Sequence", "normalizers": []}
    assert reread(document).normalizer is None


def test_ignore_merges() -> None:
    tokens = [*BYTES.values(), b"th", b"the"]
    for ignore_merges in (False, True):
        vocab = vocab_from_ids(tokens, [(116, 104, 256)], {}, "gpt2", ignore_merges=ignore_merges)
        data = huggingface_json.write(vocab)
        assert huggingface_json.read(data) == vocab
        theirs = tokenizers.Tokenizer.from_buffer(data)
        ids = build_bpe(vocab).encode("the then", (), ())
        assert theirs.encode("the then").ids == ids
        assert (257 in ids) is ignore_merges


def test_extras_are_written_back() -> None:
    template = {
        "type": "TemplateProcessing",
        "single": [
            {"SpecialToken": {"id": "<|end|>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
        ],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<|end|>": {"id": "<|end|>", "ids": [259], "tokens": ["<|end|>"]}},
    }
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": True,
        "trim_offsets": False,
        "use_regex": True,
    }
    for post_processor in (
        template,
        byte_level,
        {"type": "Sequence", "processors": [byte_level, template]},
    ):
        extras = Extras(post_processor=post_processor, not_special=frozenset({"日本"}))
        vocab = replace(example(special_tokens=["<|end|>", "日本"]), extras=extras)
        data = huggingface_json.write(vocab)
        assert huggingface_json.read(data) == vocab
        assert tokenizers.Tokenizer.from_buffer(data).to_str(pretty=True).encode() == data


def test_ids_without_a_token() -> None:
    vocab = vocab_from_ids(
        [*BYTES.values(), b"<a>", b"", b"<b>"], [], {"<a>": 256, "<b>": 258}, "gpt2"
    )
    data = huggingface_json.write(vocab)
    assert huggingface_json.read(data) == vocab
    theirs = tokenizers.Tokenizer.from_buffer(data)
    assert theirs.encode("<b>x<a>").ids == [258, 120, 256]


def test_added_tokens_that_the_vocab_lacks_get_the_next_ids() -> None:
    document = document_of(example(special_tokens=["<|end|>", "<a>", "<b>"]))
    for key in ("<a>", "<b>"):
        del document["model"]["vocab"][key]
    assert reread(document).special_tokens == {"<|end|>": 259, "<a>": 260, "<b>": 261}
    document["added_tokens"].reverse()
    # Hugging Face does not look at the ids of the file.
    theirs = tokenizers.Tokenizer.from_str(json.dumps(document))
    assert theirs.encode("<a><b>").ids == [261, 260]
    with pytest.raises(FormatError, match=r"`<b>` has id 261, but .* gives it id 260"):
        reread(document)


def test_parts_that_change_no_id() -> None:
    document = document_of(example())
    document["model"] |= {"unk_token": "<|end|>", "fuse_unk": True, "byte_fallback": True}
    document["model"] |= {"continuing_subword_prefix": "", "end_of_word_suffix": "", "dropout": 0.0}
    document["added_tokens"][0]["normalized"] = True
    del document["decoder"], document["model"]["type"]
    assert reread(document) == example()


def test_split_in_the_words_of_others() -> None:
    document = document_of(example())
    split = document["pre_tokenizer"]["pretokenizers"][0]
    byte_level = document["pre_tokenizer"]["pretokenizers"][1]
    for behavior, invert in (("Removed", True), ("Isolated", True)):
        split |= {"behavior": behavior, "invert": invert}
        assert reread(document) == example()
    split["pattern"]["Regex"] = r"\S+|\s"
    assert reread(document).pattern == r"\S+|\s"
    split["behavior"] = "Removed"
    with pytest.raises(FormatError, match="may leave text between its matches"):
        reread(document)
    nested = {"type": "Sequence", "pretokenizers": [byte_level | {"use_regex": True}]}
    document["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [nested]}
    assert reread(document).pattern == "gpt2"


def test_special_tokens_looked_for_in_two_passes() -> None:
    document = document_of(example(special_tokens=["<|end|>", "<a>", "   "]))
    document["added_tokens"][2]["normalized"] = True
    assert reread(document).special_tokens["   "] == 261
    for other in ("<a", "a>x", "<a><b>", "a>"):
        changed = document_of(example(special_tokens=["<|end|>", "<a>", other]))
        changed["added_tokens"][2]["normalized"] = True
        with pytest.raises(FormatError, match=r"added_tokens\[2\].normalized`: .*can overlap"):
            reread(changed)
    document["normalizer"] = {"type": "NFC"}
    assert reread(document).normalizer == "nfc"
    for added in document["added_tokens"]:
        added["normalized"] = True
    document["model"]["vocab"]["e\u0301"] = 262
    document["added_tokens"].append(
        {"id": 262, "content": "e\u0301", "special": True, "normalized": True}
    )
    with pytest.raises(FormatError, match="is not in form NFC"):
        reread(document)


def test_every_way_to_split_a_token_is_accepted() -> None:
    # As converters from tiktoken write it: many of these merges come before their parts are made.
    tokens = [b"ab", b"abc", b"bc", b"abcd", b"cd", b"bcd"]
    known = {*BYTES.values(), *tokens}
    merges = [
        (token[:cut], token[cut:])
        for token in tokens
        for cut in range(1, len(token))
        if token[:cut] in known and token[cut:] in known
    ]
    assert len(merges) == 10
    vocab = vocab_from_bytes(BYTES | dict(enumerate(tokens, 256)), merges, [], "gpt2")
    assert huggingface_json.read(huggingface_json.write(vocab)) == vocab
    assert vocab.proof.unused_merges == 4
    assert vocab.proof.agrees


def test_a_described_file_may_hold_merges_in_any_order() -> None:
    tokens = [*BYTES.values(), b"abc", b"ab"]
    vocab = Vocab(_core.Vocab(tokens, [(257, 99, 256), (97, 98, 257)], {}), "gpt2")
    data = huggingface_json.write(vocab)
    assert huggingface_json.read(data, pattern="gpt2") == vocab
    with pytest.raises(FormatError, match="`ab` is not a token at that point"):
        huggingface_json.read(data)


def test_random_files_give_the_ids_of_hugging_face() -> None:
    rng = random.Random(3)
    texts = ["".join(rng.choice("abc ") for _ in range(rng.randint(1, 30))) for _ in range(30)]
    for _ in range(150):
        tokens = ["a", "b", "c", "Ġ"]
        merges: list[list[str]] = []
        for _ in range(rng.randint(1, 12)):
            merge = [rng.choice(tokens), rng.choice(tokens)]
            if merge not in merges:
                merges.append(merge)
                tokens.append("".join(merge))
        document = document_of(vocab_from_bytes(BYTES, [], [], "gpt2"))
        extra = [*dict.fromkeys(tokens[4:]), *(["aĠa"] if "aĠa" not in tokens else [])]
        document["model"]["vocab"] |= {key: 256 + i for i, key in enumerate(extra)}
        document["model"] |= {"merges": merges, "ignore_merges": rng.random() < 0.5}
        theirs = tokenizers.Tokenizer.from_str(json.dumps(document))
        bpe = build_bpe(reread(document))
        for text in texts:
            assert bpe.encode(text, (), ()) == theirs.encode(text).ids, (merges, text)
