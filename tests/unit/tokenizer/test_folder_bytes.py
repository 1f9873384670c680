"""Files of a tokenizer folder are written all at once: the same bytes as entry by entry, and whatever
is wrong with one of them is found when it is read back."""

import base64
import json
import random
from typing import Any

import pytest

from tokenmill import _core
from tokenmill.tokenizer.formats import gpt2_files, huggingface_json, tiktoken_ranks
from tokenmill.tokenizer.formats.byte_letters import to_letters
from tokenmill.tokenizer.vocab import Vocab

BYTES = [bytes([byte]) for byte in range(256)]
ODD_SPECIALS = ('<"q">', "<\\>", "<\n>", "<\x00\x1f>", "日本\u2028", "<a b>")


def random_vocab(seed: int) -> Vocab:
    """Tokens of any bytes, special tokens before and behind them, and a free id above."""
    chance = random.Random(seed)
    tokens = [b"<first>", *BYTES]
    merges: list[tuple[int, int, int]] = []
    known = set(tokens)
    while len(merges) < 300:
        left, right = chance.randrange(1, len(tokens)), chance.randrange(1, len(tokens))
        joined = tokens[left] + tokens[right]
        if joined not in known:
            known.add(joined)
            merges.append((left, right, len(tokens)))
            tokens.append(joined)
    specials = {"<first>": 0} | {token: len(tokens) + i for i, token in enumerate(ODD_SPECIALS)}
    tokens += [token.encode() for token in ODD_SPECIALS]
    specials["<last>"] = len(tokens) + 1
    return Vocab(_core.Vocab([*tokens, b"", b"<last>"], merges, specials), "gpt4")


VOCABS = [
    Vocab(_core.Vocab(BYTES, [], {}), "gpt2"),
    Vocab(_core.Vocab([*BYTES, b'"\\'], [(34, 92, 256)], {}), "gpt4o"),
    *map(random_vocab, range(3)),
]


def keys_of(vocab: Vocab) -> dict[str, int]:
    special_ids = set(vocab.special_tokens.values())
    return {
        token.decode() if token_id in special_ids else to_letters(token): token_id
        for token_id, token in enumerate(vocab.tokens)
        if token
    }


def indented(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


@pytest.mark.parametrize("vocab", VOCABS)
def test_the_bytes_of_one_entry_after_the_other(vocab: Vocab) -> None:
    pairs = [[to_letters(left), to_letters(right)] for left, right in vocab.merges_as_bytes()]
    data = huggingface_json.write(vocab)
    document = json.loads(data)
    assert document["model"]["vocab"] == keys_of(vocab)
    assert document["model"]["merges"] == pairs
    assert data.decode() == indented(document)
    assert {name: data.decode() for name, data in gpt2_files.write(vocab).items()} == {
        "vocab.json": indented(keys_of(vocab)) + "\n",
        "merges.txt": "".join(
            f"{left} {right}\n" for left, right in [["#version:", "0.2"], *pairs]
        ),
    }
    special_ids = set(vocab.special_tokens.values())
    assert tiktoken_ranks.write_ranks(vocab).decode().splitlines() == [
        f"{base64.b64encode(token).decode()} {token_id}"
        for token_id, token in enumerate(vocab.tokens)
        if token and token_id not in special_ids
    ]


@pytest.mark.parametrize("vocab", VOCABS)
def test_what_was_spelled_before_need_not_be_again(vocab: Vocab) -> None:
    spelled = huggingface_json.in_letters(vocab)
    assert huggingface_json.write(vocab, spelled) == huggingface_json.write(vocab)
    assert gpt2_files.write(vocab, spelled) == gpt2_files.write(vocab)
    assert gpt2_files.notes(vocab, spelled) == gpt2_files.notes(vocab)


@pytest.mark.parametrize("vocab", VOCABS)
def test_gpt2_files_that_say_what_the_vocab_says(vocab: Vocab) -> None:
    assert gpt2_files.difference(gpt2_files.write(vocab), vocab) is None


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("vocab.json", b'"a": ', b'"b": '),
        ("vocab.json", b"  ", b'  "a": 98,\n  '),
        ("vocab.json", b": 17,", b": 17.0,"),
        ("vocab.json", b"\n}\n", b'\n},\n"more": {}\n'),
        ("vocab.json", b"{", b"["),
        ("vocab.json", b"{", b"\xff{"),
        ("merges.txt", b"#version: 0.2\n", b""),
        ("merges.txt", b"0.2\n", b"0.2\n\n"),
        ("merges.txt", b"0.2\n", b"0.2\na b\n"),
        ("merges.txt", b"0.2\n", b"0.2\n\xff"),
    ],
)
def test_gpt2_files_that_say_something_else(file: str, old: bytes, new: bytes) -> None:
    vocab = VOCABS[-1]
    files = gpt2_files.write(vocab)
    assert old in files[file]
    files[file] = files[file].replace(old, new, 1)
    assert gpt2_files.difference(files, vocab) == (
        file,
        "tokens" if file == "vocab.json" else "merges",
    )


def test_a_proof_keeps_the_ranks_it_read() -> None:
    agrees = Vocab(_core.Vocab([*BYTES, b"ab"], [(97, 98, 256)], {}), "gpt2")
    assert agrees.proof.ranks == tiktoken_ranks.write(agrees)["ranks.tiktoken"]
    assert agrees.proof.ranks == tiktoken_ranks.write_ranks(agrees)
    unused = [(97, 98, 256), (256, 99, 257), (98, 99, 258), (97, 258, 257)]
    more = Vocab(_core.Vocab([*BYTES, b"ab", b"abc", b"bc"], unused, {}), "gpt2")
    assert (more.proof.unused_merges, more.proof.agrees) == (1, True)
    assert more.proof.ranks == tiktoken_ranks.write_ranks(more)
    differs = Vocab(_core.Vocab([*BYTES, b"xyz"], [], {}), "gpt2")
    assert (differs.proof.agrees, differs.proof.ranks) == (False, None)


@pytest.mark.parametrize("seed", range(5))
def test_a_proof_finds_the_same_as_the_merges_themselves(seed: int) -> None:
    """A random order of merges leaves tokens that nothing makes; ranks give a vocab all its merges."""
    vocab = random_vocab(seed)
    assert list(vocab.proof.unreachable) == vocab.core.unreachable()
    assert vocab.proof.unused_merges == vocab.core.num_merges - len(vocab.core.used_merges())
    special_ids = set(vocab.special_tokens.values())
    ordinary = [b"" if i in special_ids else token for i, token in enumerate(vocab.tokens)]
    ranks = _core.Vocab.from_ranks(ordinary, vocab.special_tokens)
    again = _core.Vocab(
        ranks.tokens(), ranks.merges(), ranks.special_tokens, ignore_merges=ranks.ignore_merges
    )
    proof = Vocab(again, "gpt2").proof
    assert proof.agrees
    assert list(proof.unreachable) == again.unreachable()
    assert proof.unused_merges == again.num_merges - len(again.used_merges()) == 0
