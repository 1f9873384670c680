"""Tokens added to a vocab by name: `AddedToken` in the shape of `tokenizers`, and what we can add.

Hugging Face looks for tokens with `normalized` after the others, in what is left of the text. The core
looks for all at once; where that could find others, the token is refused.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_OPTIONS = ("single_word", "lstrip", "rstrip")


@dataclass(unsafe_hash=False, repr=False)
class AddedToken:
    """A token and how it is looked for. Those added here have none of the first three options."""

    content: str = ""
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = True
    special: bool = False

    def __str__(self) -> str:
        return self.content

    def __repr__(self) -> str:
        options = ("rstrip", "lstrip", "single_word", "normalized", "special")
        shown = ", ".join(f"{option}={getattr(self, option)}" for option in options)
        return f'AddedToken("{self.content}", {shown})'

    def __hash__(self) -> int:
        return hash(self.content)

    def as_json(self, token_id: int) -> dict[str, Any]:
        """As tokenizer.json lists it."""
        return {
            "id": token_id,
            "content": self.content,
            "single_word": self.single_word,
            "lstrip": self.lstrip,
            "rstrip": self.rstrip,
            "normalized": self.normalized,
            "special": self.special,
        }


def as_added_token(token: Any, *, special: bool) -> AddedToken:
    """What people pass to `add_tokens` (or, with `special`, to `add_special_tokens`): a string, or an
    `AddedToken` of ours or of the original."""
    if isinstance(token, str):
        return AddedToken(token, normalized=not special, special=special)
    try:
        copy = AddedToken(
            token.content,
            token.single_word,
            token.lstrip,
            token.rstrip,
            token.normalized,
            token.special or special,
        )
    except AttributeError:
        kind = type(token).__name__
        raise TypeError(f"expected a list of `str` or `AddedToken`, found `{kind}` in it") from None
    for option in _OPTIONS:
        if getattr(copy, option):
            raise NotImplementedError(f"`{copy.content}` has `{option}`, which is not supported")
    return copy


def listed_tokens(added_tokens: Iterable[Mapping[str, Any]] | None) -> dict[str, AddedToken]:
    """The `added_tokens` of a tokenizer.json that was accepted, by content."""
    return {
        added["content"]: AddedToken(
            added["content"],
            normalized=added.get("normalized") is True,
            special=added.get("special") is True,
        )
        for added in added_tokens or ()
    }


def check_addition(token: AddedToken, known: Iterable[AddedToken], normalizer: str | None) -> None:
    """NotImplementedError for a token that the original would look for in another way than we do."""
    if token.normalized and normalizer is not None:
        raise NotImplementedError(
            f"`{token.content}` is to be found in normalized text, which is not supported\n"
            f"hint: pass AddedToken({token.content!r}, normalized=False)"
        )
    for other in known:
        if other.normalized != token.normalized and _can_overlap(token.content, other.content):
            raise NotImplementedError(
                f"`{token.content}` can overlap `{other.content}`, and only one of the two has "
                "`normalized`"
            )


def _can_overlap(first: str, second: str) -> bool:
    """Whether a text can hold both with characters in common."""
    if first in second or second in first:
        return True
    ends = range(1, min(len(first), len(second)))
    return any(first[-n:] == second[:n] or second[-n:] == first[:n] for n in ends)
