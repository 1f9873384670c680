"""Chat profiles: a named set of special tokens and one template, as data.

A template says what stands before and after the content of each role. Everything is made from that
one definition: ids and mask in Rust (`encoder.py`), the same in plain Python and as text
(`rendering.py`), and a Jinja file that transformers renders to the same ids (`jinja_export.py`).
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

from tokenmill.errors import ConfigError


class Piece(NamedTuple):
    """A part of what a template puts around contents: one special token, or literal text."""

    text: str
    is_special: bool


@dataclass(frozen=True)
class Role:
    """How a turn of one role is written. `before` and `after` may hold special tokens and text."""

    before: str
    after: str
    trained: bool = False


@dataclass(frozen=True)
class Profile:
    """Special tokens and a template. ConfigError when they make no sense together.

    Literal text of `before` and `after` is encoded together with the content it touches, so ids are
    those a tokenizer gives the rendered text.

    >>> lean = Profile("lean", ("<u>", "<a>", "<e>"), {
    ...     "user": Role("<u>", "<e>"), "assistant": Role("<a>", "<e>", trained=True)})
    >>> lean.stop_token
    '<e>'
    """

    name: str
    special_tokens: tuple[str, ...]
    roles: Mapping[str, Role]
    bos: str = ""
    """What every conversation begins with."""
    train_end: bool = True
    """Whether the end of a trained turn is trained on: `after` up to its first special token. A model
    that never saw its own end of turn does not know when to stop."""
    merge_system: str | None = None
    """What joins a system message to the user message behind it, for templates without such a turn."""
    instruction: str = "user"
    """The role that `instruction` of an Alpaca row plays."""
    input: str = "user"
    """The same for `input`. Where both play one role they are one message, an empty line between."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "special_tokens", tuple(self.special_tokens))
        object.__setattr__(self, "roles", dict(self.roles))
        self._check_special_tokens()
        self._check_roles()
        for name in ("instruction", "input"):
            role = getattr(self, name)
            merged = role == "system" and self.merge_system is not None
            if role not in self.roles and not merged:
                raise self._wrong(f"`{name}` is the role `{role}`, which it does not have")

    def _check_special_tokens(self) -> None:
        if not self.special_tokens:
            raise self._wrong("has no special tokens")
        for token in self.special_tokens:
            if not token:
                raise self._wrong("a special token is the empty string")
            if self.special_tokens.count(token) > 1:
                raise self._wrong(f"special token `{token}` is given twice")

    def _check_roles(self) -> None:
        for name in ("user", "assistant"):
            if name not in self.roles:
                raise self._wrong(f"has no role `{name}`")
        if self.merge_system is not None and "system" in self.roles:
            raise self._wrong("has a role `system` and `merge_system`, which does without one")
        assistant = self.roles["assistant"]
        if not assistant.trained:
            raise self._wrong("role `assistant` is not trained", "set `trained = true`")
        if self.train_end and not assistant.after:
            raise self._wrong(
                "nothing stands after what the assistant says, so a model never learns to stop",
                "give role `assistant` an `after`, or set `train_end = false`",
            )
        for name, role in self.roles.items():
            if not role.before and not role.after:
                raise self._wrong(f"nothing marks the turns of role `{name}`")

    def _wrong(self, what: str, hint: str | None = None) -> ConfigError:
        return ConfigError(f"profile `{self.name}`: {what}", hint)

    @cached_property
    def _special(self) -> re.Pattern[str]:
        longest_first = sorted(self.special_tokens, key=len, reverse=True)
        return re.compile("|".join(map(re.escape, longest_first)))

    def pieces(self, text: str) -> list[Piece]:
        """A `bos`, `before` or `after`, cut at special tokens."""
        pieces: list[Piece] = []
        at = 0
        for found in self._special.finditer(text):
            if at < found.start():
                pieces.append(Piece(text[at : found.start()], is_special=False))
            pieces.append(Piece(found[0], is_special=True))
            at = found.end()
        if at < len(text):
            pieces.append(Piece(text[at:], is_special=False))
        return pieces

    def num_trained_after(self, role: Role) -> int:
        """How many pieces of `role.after` are trained on."""
        if not role.trained or not self.train_end:
            return 0
        pieces = self.pieces(role.after)
        ends = [index for index, piece in enumerate(pieces, 1) if piece.is_special]
        return ends[0] if ends else len(pieces)

    def as_json(self) -> dict[str, Any]:
        """The definition as values of JSON: all that decides ids, for manifests."""
        return {**asdict(self), "special_tokens": list(self.special_tokens)}

    @property
    def stop_token(self) -> str | None:
        """The special token that ends what the assistant says: where generation stops."""
        after = self.pieces(self.roles["assistant"].after)
        return next((piece.text for piece in after if piece.is_special), None)


CHAT = Profile(
    name="chat",
    special_tokens=("<|system|>", "<|user|>", "<|assistant|>", "<|end|>"),
    roles={
        "system": Role("<|system|>", "<|end|>"),
        "user": Role("<|user|>", "<|end|>"),
        "assistant": Role("<|assistant|>", "<|end|>", trained=True),
    },
)
ALPACA_TAGS = Profile(
    name="alpaca-tags",
    special_tokens=("<SYSTEM>", "</SYSTEM>", "<USER>", "</USER>", "<MODEL>", "</MODEL>"),
    roles={
        "system": Role("<SYSTEM>", "</SYSTEM>"),
        "user": Role("<USER>", "</USER>"),
        "assistant": Role("<MODEL>", "</MODEL>", trained=True),
    },
    instruction="system",
    input="user",
)
NANOCHAT = Profile(
    name="nanochat",
    # The last four are for a Python tool that the model may call; no row makes them.
    special_tokens=(
        "<|bos|>",
        "<|user_start|>",
        "<|user_end|>",
        "<|assistant_start|>",
        "<|assistant_end|>",
        "<|python_start|>",
        "<|python_end|>",
        "<|output_start|>",
        "<|output_end|>",
    ),
    bos="<|bos|>",
    roles={
        "user": Role("<|user_start|>", "<|user_end|>"),
        "assistant": Role("<|assistant_start|>", "<|assistant_end|>", trained=True),
    },
    merge_system="\n\n",
)
PROFILES: Mapping[str, Profile] = {
    profile.name: profile for profile in (CHAT, ALPACA_TAGS, NANOCHAT)
}
