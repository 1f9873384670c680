"""Final ids: where bytes, learned tokens and special tokens go."""

from typing import NamedTuple

from tokenmill.train.backends.backend import LearnedMerges
from tokenmill.train.settings import NUM_BYTES, TrainSettings


class Layout(NamedTuple):
    """A vocab by final ids, as `Tokenizer.from_ids` takes it."""

    tokens: list[bytes]
    merges: list[tuple[int, int, int]]
    special_tokens: dict[str, int]


def lay_out(learned: LearnedMerges, settings: TrainSettings) -> Layout:
    """Put the special tokens where the settings want them; bytes come before learned tokens,
    without holes."""
    specials = settings.all_special_tokens
    first = {"first": 0, "after-bytes": NUM_BYTES, "last": len(learned.tokens)}[
        settings.special_placement
    ]
    tokens = list(learned.tokens)
    tokens[first:first] = [token.encode() for token in specials]
    merges = learned.merges
    if first < len(learned.tokens):
        shifted = [
            token_id + len(specials) * (token_id >= first)
            for token_id in range(len(learned.tokens))
        ]
        merges = [
            (shifted[left], shifted[right], shifted[joined]) for left, right, joined in merges
        ]
    return Layout(tokens, merges, {token: first + index for index, token in enumerate(specials)})
