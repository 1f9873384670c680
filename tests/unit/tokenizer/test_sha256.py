"""Tokenizer.sha256: the same for equal tokenizers, another one for any that gives other ids."""

import pickle
from pathlib import Path

import tokenmill as tm

BYTES = {byte: bytes([byte]) for byte in range(256)}
VOCAB = BYTES | {256: b"th", 257: b"the", 258: b"he"}
MERGES = [(b"t", b"h"), (b"th", b"e"), (b"h", b"e")]


def example() -> tm.Tokenizer:
    return tm.Tokenizer.from_vocab(VOCAB, MERGES, ["<|end|>"], "gpt4")


def test_stays_the_same_whatever_the_file(tmp_path: Path) -> None:
    tokenizer = example()
    folder = tokenizer.save(tmp_path / "tok")
    assert len(tokenizer.sha256) == 64
    specials = tokenizer.special_tokens
    for same in (
        example(),
        pickle.loads(pickle.dumps(tokenizer)),  # noqa: S301
        tm.Tokenizer.load(folder),
        tm.Tokenizer.load(folder / "tokenizer.json"),
        tm.Tokenizer.load(folder / "vocab.json", pattern="gpt4", special_tokens=specials),
        tm.Tokenizer.load(folder / "ranks.tiktoken", pattern="gpt4", special_tokens=specials),
    ):
        assert same == tokenizer
        assert same.sha256 == tokenizer.sha256


def test_is_another_one_for_other_ids() -> None:
    swapped = VOCAB | {256: b"the", 257: b"th"}
    tokenizers = [
        example(),
        tm.Tokenizer.from_vocab(VOCAB, MERGES, ["<|end|>"], "gpt2"),
        tm.Tokenizer.from_vocab(VOCAB, MERGES, ["<|eos|>"], "gpt4"),
        tm.Tokenizer.from_vocab(VOCAB, MERGES, [], "gpt4"),
        tm.Tokenizer.from_vocab(VOCAB, [MERGES[2], *MERGES[:2]], ["<|end|>"], "gpt4"),
        tm.Tokenizer.from_vocab(VOCAB, MERGES[:2], ["<|end|>"], "gpt4"),
        tm.Tokenizer.from_vocab(swapped, MERGES, ["<|end|>"], "gpt4"),
        example().with_special_tokens(["<|pad|>"]),
    ]
    hashes = {tokenizer.sha256 for tokenizer in tokenizers}
    assert len(hashes) == len(set(tokenizers)) == len(tokenizers)


def test_is_what_the_page_of_formats_says() -> None:
    """Computed here once more from the description, so that it cannot change unnoticed."""
    import hashlib
    import struct

    tokens = [*VOCAB.values(), b"<|end|>"]
    merges = [(116, 104, 256), (256, 101, 257), (104, 101, 258)]
    import tokenmill._core as core

    parts = [
        b"tokenmill tokenizer 1",
        core.Splitter("gpt4").regex.encode(),
        b"",
        b"\0",
        b"".join(struct.pack("<I", len(token)) for token in tokens),
        b"".join(tokens),
        b"".join(struct.pack("<3I", *merge) for merge in merges),
        struct.pack("<I", 259),
    ]
    data = b"".join(struct.pack("<Q", len(part)) + part for part in parts)
    assert example().sha256 == hashlib.sha256(data).hexdigest()
