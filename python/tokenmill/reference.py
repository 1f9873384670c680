"""Byte-level BPE in plain Python, written to be read: counts in, merges out, text to ids and back.

Every merge counts all pairs of the text again: slow, and plain enough to hold faster ones against.
Bytes are ids 0–255, learned tokens follow. `split` cuts text into pretokens no merge crosses.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

Split = Callable[[bytes], Iterable[bytes]]
Pair = tuple[int, int]
BYTES = [bytes([byte]) for byte in range(256)]

# Hugging Face orders single bytes by their letters: visible Latin-1 characters first.
VISIBLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
HUGGINGFACE_ORDER = VISIBLE + [byte for byte in range(256) if byte not in VISIBLE]


class Learned(NamedTuple):
    tokens: list[bytes]  # bytes of each id
    merges: list[tuple[int, int, int]]  # (left id, right id, joined id), in rank order


def cut_at_special(text: bytes, special_tokens: Iterable[str]) -> list[tuple[bytes, bool]]:
    """Stretches of `text`, and whether each is a special token. The longer of two wins."""
    longest_first = sorted((token.encode() for token in special_tokens), key=len, reverse=True)
    if not longest_first:
        return [(text, False)]
    # What the regex captures, the special tokens, stands at the odd places.
    stretches = re.split(b"(" + b"|".join(map(re.escape, longest_first)) + b")", text)
    return [(stretch, index % 2 == 1) for index, stretch in enumerate(stretches) if stretch]


def count_pretokens(
    documents: Iterable[bytes], split: Split, special_tokens: Sequence[str] = ()
) -> Counter[bytes]:
    """Pretoken → occurrences. No pretoken reaches into a special token or another document."""
    counts: Counter[bytes] = Counter()
    for document in documents:
        for stretch, is_special in cut_at_special(document, special_tokens):
            if not is_special:
                counts.update(split(stretch))
    return counts


def tie_key(pair: Pair, ties: str, tokens: Sequence[bytes]) -> tuple[bytes, bytes] | Pair:
    """Greatest for the pair to take among pairs of equal count."""
    if ties == "greatest-bytes":
        return tokens[pair[0]], tokens[pair[1]]
    if ties == "huggingface":
        left, right = (HUGGINGFACE_ORDER.index(i) if i < 256 else i for i in pair)
        return -left, -right
    return {"lowest-ids": (-pair[0], -pair[1])}[ties]


def join(ids: Iterable[int], pair: Pair, joined: int) -> list[int]:
    """`ids` with every `pair` joined, leftmost first: a a a becomes aa a."""
    out: list[int] = []
    for token_id in ids:
        if out and (out[-1], token_id) == pair:
            out[-1] = joined
        else:
            out.append(token_id)
    return out


def train(
    counts: Mapping[bytes, int] | Mapping[tuple[int, ...], int],
    num_tokens: int,
    ties: str = "lowest-ids",
    min_count: int = 1,
    max_token_bytes: int | None = None,
    tokens: Sequence[bytes] = BYTES,
) -> Learned:
    """Join the most frequent pair, again and again. Pretokens are bytes, or ids of `tokens`."""
    tokens = list(tokens)
    merges: list[tuple[int, int, int]] = []
    pretokens = [(list(pretoken), count) for pretoken, count in counts.items()]
    while len(tokens) < num_tokens:
        pairs: Counter[Pair] = Counter()
        for ids, count in pretokens:
            for pair in pairwise(ids):  # windows overlap: a a a holds the pair (a, a) twice
                pairs[pair] += count
        spelling = {pair: tokens[pair[0]] + tokens[pair[1]] for pair in pairs}
        short = [p for p in pairs if max_token_bytes is None or len(spelling[p]) <= max_token_bytes]
        best = max(short, key=lambda p: (pairs[p], tie_key(p, ties, tokens)), default=None)
        if best is None or pairs[best] < min_count:
            break
        if spelling[best] not in tokens:  # merges that spell the same bytes share an id
            tokens.append(spelling[best])
        joined = tokens.index(spelling[best])
        if (*best, joined) not in merges:  # a shared id can bring a merged pair back
            merges.append((*best, joined))
        pretokens = [(join(ids, best, joined), count) for ids, count in pretokens]
    return Learned(tokens, merges)


def encode(text: bytes, learned: Learned, split: Split, specials: Mapping[str, int]) -> list[int]:
    """The ids of `text`: in each pretoken the merge of lowest rank goes first, leftmost first."""
    byte_ids = [learned.tokens.index(byte) for byte in BYTES]
    ranks = {(left, right): (rank, to) for rank, (left, right, to) in enumerate(learned.merges)}
    out: list[int] = []
    for stretch, is_special in cut_at_special(text, specials):
        for pretoken in () if is_special else split(stretch):
            ids = [byte_ids[byte] for byte in pretoken]
            while found := [(*ranks[p], i) for i, p in enumerate(pairwise(ids)) if p in ranks]:
                _, joined, index = min(found)
                ids[index : index + 2] = [joined]
            out += ids
        if is_special:
            out.append(specials[stretch.decode()])
    return out


def decode(ids: Iterable[int], tokens: Sequence[bytes]) -> bytes:
    return b"".join(tokens[token_id] for token_id in ids)
