"""What to train: one frozen record of every choice, and the profiles that set several at once."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tokenmill import _core
from tokenmill.errors import ConfigError, VocabError
from tokenmill.progress import quantity
from tokenmill.sources.choices import nearest_hint, require_one_of, require_whole_number

NUM_BYTES = 256
MAX_VOCAB_SIZE = 2**31
TIES = ("lowest-ids", "huggingface", "greatest-bytes")
PLACEMENTS = ("first", "after-bytes", "last")
ENGINES = ("rust", "reference")

_OTHER_NAMES = {
    "cl100k": "gpt4",
    "o200k": "gpt4o",
    "r50k": "gpt2",
    "p50k": "gpt2",
    "qwen3": "qwen2",
}


@dataclass(frozen=True)
class TrainSettings:
    """Everything besides the text that decides which tokenizer comes out."""

    vocab_size: int = 32768
    """Ids in all: 256 bytes, learned tokens, special tokens and reserved ones."""
    pattern: str = "gpt4"
    """The split pattern: a name, or a regex."""
    special_tokens: tuple[str, ...] = ("<|endoftext|>",)
    """Cut out of the text before anything else, each with an id of its own."""
    special_placement: str = "last"
    """Where special tokens get their ids: `first`, `after-bytes` or `last`."""
    reserve: int = 0
    """Placeholder special tokens `<|reserved_0|>` … for later use."""
    ties: str = "lowest-ids"
    """Which of several pairs of equal count to take: `lowest-ids`, `huggingface` or
    `greatest-bytes`."""
    min_count: int = 1
    """Training stops when the best pair occurs fewer times than this."""
    max_token_bytes: int | None = None
    """No learned token is longer than this."""

    def __post_init__(self) -> None:
        require_one_of("tie rule", self.ties, TIES)
        require_one_of("special placement", self.special_placement, PLACEMENTS)
        require_whole_number("reserve", self.reserve, 0, MAX_VOCAB_SIZE)
        require_whole_number("min count", self.min_count, 1)
        if self.max_token_bytes is not None:
            require_whole_number("max token bytes", self.max_token_bytes, 1)
        check_special_tokens(self.all_special_tokens)
        check_pattern_name(self.pattern)
        _check_vocab_size(self.vocab_size, len(self.all_special_tokens))

    @property
    def all_special_tokens(self) -> tuple[str, ...]:
        """Special tokens, then the reserved ones."""
        return (*self.special_tokens, *(f"<|reserved_{index}|>" for index in range(self.reserve)))

    @property
    def num_tokens(self) -> int:
        """Bytes and learned tokens: the vocab without special tokens."""
        return self.vocab_size - len(self.all_special_tokens)

    def as_settings(self) -> dict[str, object]:
        """What a manifest records, in JSON's types."""
        return {
            "vocab_size": self.vocab_size,
            "pattern": self.pattern,
            "special_tokens": list(self.special_tokens),
            "special_placement": self.special_placement,
            "reserve": self.reserve,
            "ties": self.ties,
            "min_count": self.min_count,
            "max_token_bytes": self.max_token_bytes,
        }


def _check_vocab_size(vocab_size: object, num_special: int) -> None:
    least = NUM_BYTES + num_special
    if not isinstance(vocab_size, int) or isinstance(vocab_size, bool):
        raise VocabError(f"vocab size must be a whole number, found `{vocab_size!r}`")
    if vocab_size < least:
        raise VocabError(
            f"vocab size {vocab_size} is below {least} ({NUM_BYTES} bytes + {quantity(num_special, 'special token')})"
        )
    if vocab_size > MAX_VOCAB_SIZE:
        raise VocabError(
            f"vocab size {vocab_size} is above {MAX_VOCAB_SIZE} (2**31), the most ids there can be"
        )


def check_special_tokens(tokens: Sequence[str]) -> None:
    """ConfigError unless each is a text of its own that no byte spells already."""
    seen: set[str] = set()
    for token in tokens:
        if not isinstance(token, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"special tokens are str, found `{token!r}`")
        if not token:
            raise ConfigError("a special token is empty; each must have at least two bytes")
        if token in seen:
            raise ConfigError(f"the special token `{token}` is given twice")
        try:
            spelling = token.encode()
        except UnicodeEncodeError as error:
            raise ConfigError(f"the special token {token!r} cannot be written in UTF-8") from error
        if len(spelling) == 1:
            raise ConfigError(
                f"the special token `{token}` is a single byte, which has an id already"
            )
        seen.add(token)


def check_pattern_name(pattern: object) -> None:
    """ConfigError for a pattern that is meant as a name but is none. Whether a regex is one,
    `Splitter` says."""
    if not isinstance(pattern, str) or not pattern:
        raise ConfigError(f"the pattern must be a name or a regex, found `{pattern!r}`")
    names = list(_core.named_patterns())
    # Words without any regex sign would be a strange way to split text: they are names, mistyped.
    if pattern in names or not re.fullmatch(r"[\w-]+", pattern):
        return
    other = next((name for start, name in _OTHER_NAMES.items() if pattern.startswith(start)), None)
    hint = f"it is called `{other}` here" if other else nearest_hint(pattern, names)
    listed = ", ".join(f"`{name}`" for name in names)
    raise ConfigError(f"unknown pattern `{pattern}`; there are {listed}, or pass a regex", hint)


_NANOCHAT_SPECIAL = (
    "bos",
    *(
        f"{who}_{edge}"
        for who in ("user", "assistant", "python", "output")
        for edge in ("start", "end")
    ),
)

PROFILES: Mapping[str, Mapping[str, object]] = MappingProxyType(
    {
        "gpt4": {
            "pattern": "gpt4",
            "ties": "lowest-ids",
            "special_tokens": (
                "<|endoftext|>",
                "<|fim_prefix|>",
                "<|fim_middle|>",
                "<|fim_suffix|>",
                "<|endofprompt|>",
            ),
            "special_placement": "last",
        },
        "nanochat": {
            "vocab_size": 32768,
            "pattern": "nanochat",
            "ties": "lowest-ids",
            "special_tokens": tuple(f"<|{name}|>" for name in _NANOCHAT_SPECIAL),
            "special_placement": "last",
            "doc_cap": 10_000,
            "max_chars": 2_000_000_000,
        },
        "cs336": {
            "pattern": "gpt2",
            "ties": "greatest-bytes",
            "special_tokens": ("<|endoftext|>",),
            "special_placement": "after-bytes",
        },
    }
)
"""Name → the settings and read options it stands for. What the caller says as well wins."""


def profile_values(profile: str | None) -> Mapping[str, object]:
    """What `profile` sets; nothing for `None`."""
    return {} if profile is None else PROFILES[require_one_of("profile", profile, PROFILES)]


def normalise_special_tokens(special_tokens: Sequence[str] | None) -> tuple[str, ...] | None:
    """A tuple of special tokens; a single str, which Python would take apart, is refused."""
    if isinstance(special_tokens, str):
        raise ConfigError(
            f"special tokens are given as the str `{special_tokens}`",
            f'pass `["{special_tokens}"]`',
        )
    return None if special_tokens is None else tuple(special_tokens)
