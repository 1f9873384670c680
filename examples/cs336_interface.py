"""The two functions of the CS336 course's first assignment, on top of tokenmill.

Prints:
    vocab of 272: 256 is b'<|endoftext|>', 257 is b'th'
    first merges: [(b't', b'h'), (b'r', b'e')]
    True
"""

import os
from pathlib import Path

import tokenmill as tm


def train_bpe(
    input_path: str | os.PathLike[str], vocab_size: int, special_tokens: list[str]
) -> tuple[dict[int, bytes], list[tuple[bytes, bytes]]]:
    """Vocab and merges, with the course's pattern and tie rule."""
    tokenizer = tm.train(
        input_path, vocab_size=vocab_size, special_tokens=special_tokens, profile="cs336"
    )
    return tokenizer.vocab, tokenizer.merges


def get_tokenizer(
    vocab: dict[int, bytes], merges: list[tuple[bytes, bytes]], special_tokens: list[str]
) -> tm.Tokenizer:
    """A tokenizer from any vocab and merges, in any id layout."""
    return tm.Tokenizer.from_vocab(vocab, merges, special_tokens, pattern="gpt2")


Path("tales.txt").write_text("<|endoftext|>".join(["the three little trees"] * 20))
vocab, merges = train_bpe("tales.txt", 280, ["<|endoftext|>"])
print(f"vocab of {len(vocab)}: 256 is {vocab[256]}, 257 is {vocab[257]}")
print("first merges:", merges[:2])
tokenizer = get_tokenizer(vocab, merges, ["<|endoftext|>"])
print(tokenizer.decode(tokenizer.encode("three trees")) == "three trees")
