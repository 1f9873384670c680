# pyright: basic
"""A vocab that grows: a model and a tokenizer with more special tokens in, a model that has a row for each of them out.

New rows are the mean of those there are: a token nobody has seen is then as likely as tokens are on average, and no more. Drawn ones, or
zeros, would make it the likeliest of all wherever the others are unlikely.
"""

from collections.abc import Collection, Mapping

import torch
from torch import Tensor

from tokenmill.errors import ConfigError
from tokenmill.tokenizer.tokenizer import Tokenizer

GROWING = ("model.embed_tokens.weight", "lm_head.weight")


def grown(
    weights: Mapping[str, Tensor], vocab_size: int, new_ids: Collection[int] = ()
) -> dict[str, Tensor]:
    """`weights` with rows for `vocab_size` tokens. Those behind the last one are new, and so are `new_ids`: a model may have had room
    for more ids than its tokenizer had."""
    made = dict(weights)
    for name in GROWING:
        rows = made.get(name)
        if rows is None or (len(rows) >= vocab_size and not new_ids):
            continue
        there = len(rows)
        is_new = torch.zeros(max(vocab_size, there), dtype=torch.bool)
        is_new[there:] = True
        is_new[list(new_ids)] = True
        mean = rows[~is_new[:there]].mean(0, keepdim=True)
        made[name] = torch.cat((rows, mean.expand(len(is_new) - there, -1)))
        made[name][is_new] = mean
    return made


def new_ids_of(base: Tokenizer, other: Tokenizer) -> tuple[int, ...]:
    """The ids that `other` has and `base` lacks."""
    return tuple(sorted(set(other.vocab) - set(base.vocab)))


def require_extension(model_name: str, base: Tokenizer, data_name: str, other: Tokenizer) -> None:
    """ConfigError naming both hashes unless `other` is `base`, or `base` and special tokens behind it."""
    if base.sha256 == other.sha256:
        return
    kept = all(
        other.special_tokens.get(token) == number for token, number in base.special_tokens.items()
    )
    old, new = base.vocab, other.vocab
    same = kept and base.pattern == other.pattern and base.merges == other.merges
    if same and all(new.get(number) == token for number, token in old.items()):
        return
    raise ConfigError(
        f"`{model_name}` and `{data_name}` do not belong together: the model has the tokenizer of sha256 "
        f"`{base.sha256}`, the ids that of `{other.sha256}`, which is not the same with more special tokens",
        "encode the rows with the tokenizer of the model: `tokenmill encode … --tokenizer RUN/tokenizer`",
    )
