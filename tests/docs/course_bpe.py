"""BPE as a student of CS336 writes it first: text in, merges out, every pair counted anew before every merge.

Nothing of tokenmill is in it, so what a page says to be equal was made twice.
"""

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import regex

EOS = "<|endoftext|>"
GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

Pair = tuple[bytes, bytes]


def train(text: str, vocab_size: int) -> list[Pair]:
    """The merges, of equally frequent pairs the greatest first, until the vocab is full or no pair is left."""
    counts = Counter(word for part in text.split(EOS) for word in regex.findall(GPT2, part))
    words = [([bytes([byte]) for byte in word.encode()], count) for word, count in counts.items()]
    merges: list[Pair] = []
    while len(merges) < vocab_size - 257:
        pairs: Counter[Pair] = Counter()
        for tokens, count in words:
            for pair in pairwise(tokens):
                pairs[pair] += count
        if not pairs:
            break
        merges.append(max(pairs, key=lambda pair: (pairs[pair], pair)))
        for tokens, _ in words:
            join(tokens, merges[-1])
    return merges


def join(tokens: list[bytes], pair: Pair) -> None:
    at = 0
    while at < len(tokens) - 1:
        if (tokens[at], tokens[at + 1]) == pair:
            tokens[at : at + 2] = [b"".join(pair)]
        at += 1


def write(stem: Path, merges: list[Pair]) -> None:
    """`STEM_vocab.json` with lists of bytes and `STEM_merges.txt` in hex; the special token follows the bytes."""
    tokens = [*(bytes([byte]) for byte in range(256)), EOS.encode(), *map(b"".join, merges)]
    vocab = {str(number): list(token) for number, token in enumerate(tokens)}
    Path(f"{stem}_vocab.json").write_text(json.dumps(vocab, indent=2))
    lines = [f"{left.hex()} {right.hex()}\n" for left, right in merges]
    Path(f"{stem}_merges.txt").write_text("".join(lines))
