# pyright: basic
"""Sampling: logits in, one token id for each row out.

Filters are those of transformers, in its order: temperature, then top-k, then top-p. Each row has random numbers of its own, one for
a token, so what is drawn for it depends on its logits and its seed alone.

Shapes: B rows, V tokens.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from tokenmill.errors import FormatError
from tokenmill.lm.generate_settings import GenerateSettings


def filter_logits(
    logits_BV: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Tensor:
    """Logits divided by `temperature`, with minus infinity for tokens that are not to be drawn."""
    scores_BV = logits_BV / temperature
    if top_k is not None and top_k < scores_BV.shape[-1]:
        kth_B1 = scores_BV.topk(top_k, dim=-1).values[:, -1:]
        scores_BV = scores_BV.masked_fill(scores_BV < kth_B1, -torch.inf)
    if top_p is not None and top_p < 1.0:
        ascending_BV, order_BV = scores_BV.sort(dim=-1)
        # What comes before a token that is left out is less likely still, and goes too.
        is_tail_BV = ascending_BV.softmax(dim=-1).cumsum(dim=-1) <= 1 - top_p
        is_tail_BV[:, -1] = False
        left_out_BV = is_tail_BV.scatter(1, order_BV, is_tail_BV)
        scores_BV = scores_BV.masked_fill(left_out_BV, -torch.inf)
    return scores_BV


class Sampler:
    """Draws the tokens of some rows, one step after the other."""

    def __init__(self, settings: GenerateSettings, seeds: Sequence[int]) -> None:
        self.settings = settings
        self.step = 0
        # Always drawn on the CPU and all at once: the same numbers on every device. In float32, so that no number times a sum
        # of probabilities reaches that sum.
        self.chances_BN = torch.stack(
            [
                torch.rand(settings.max_tokens, generator=torch.Generator().manual_seed(seed))
                for seed in seeds
            ]
        ).double()

    def draw(self, logits_BV: Tensor) -> list[int]:
        """The next token of each row. FormatError where the logits are no numbers."""
        settings = self.settings
        if settings.temperature == 0:
            return logits_BV.argmax(dim=-1).tolist()
        scores_BV = filter_logits(
            logits_BV,
            temperature=settings.temperature,
            top_k=settings.top_k,
            top_p=settings.top_p,
        )
        sums_BV = scores_BV.softmax(dim=-1).double().cumsum(dim=-1)
        chances_B1 = self.chances_BN[:, self.step : self.step + 1].to(sums_BV.device)
        self.step += 1
        # The first token whose sum is above the number: one of probability 0 adds nothing and is never it.
        drawn_B1 = torch.searchsorted(sums_BV, chances_B1 * sums_BV[:, -1:], right=True)
        ids = drawn_B1.squeeze(1).tolist()
        if max(ids) >= logits_BV.shape[-1]:
            raise not_numbers()
        return ids


def not_numbers() -> FormatError:
    return FormatError(
        "the model gives logits that are no numbers",
        "its weights are damaged, or its training diverged",
    )
