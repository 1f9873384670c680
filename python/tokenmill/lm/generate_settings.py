"""How text is drawn: one frozen record of every choice, with the defaults everybody else refers to."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tokenmill.errors import ConfigError
from tokenmill.sources.choices import require_whole_number

MAX_SEED = (1 << 63) - 1


@dataclass(frozen=True)
class GenerateSettings:
    """Everything that decides the text besides model, tokenizer and prompt."""

    max_tokens: int = 200
    """The text ends after so many tokens, if it does not before."""
    temperature: float = 0.8
    """Logits are divided by it; 0 takes the likeliest token every time."""
    top_k: int | None = None
    """Draw among the k likeliest tokens, and those as likely as the last of them."""
    top_p: float | None = None
    """Draw among the likeliest tokens that together have this probability, at least one."""
    seed: int = 0
    """Row i draws by seed + i, whatever else is in the batch."""
    stop: Sequence[str] = ()
    """The text ends before the first of these strings, wherever tokens begin and end."""
    stop_tokens: Sequence[int | str] | None = None
    """Token ids or special tokens that end the text; `None` is the tokenizer's end of text."""

    def __post_init__(self) -> None:
        require_whole_number("max_tokens", self.max_tokens, 0)
        require_whole_number("seed", self.seed, 0, MAX_SEED)
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise ConfigError(f"temperature {self.temperature} is not 0 or above")
        if self.top_k is not None:
            require_whole_number("top_k", self.top_k, 1)
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p {self.top_p} is not above 0 and at most 1")
        if isinstance(self.stop, str):
            raise ConfigError(f"stop is the one string `{self.stop}`", "pass a list")
        if "" in self.stop:
            raise ConfigError("a stop string is empty, which would end every text at once")
