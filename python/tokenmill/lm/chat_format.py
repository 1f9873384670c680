# pyright: basic
"""How one talks to a model: messages in, the ids of a prompt out, and the tokens that end an answer.

The profile says both. A tokenizer that was made ready for one carries its template, by which it is known again; templates of others are
rendered in their sandbox.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from typing import Any

from tokenmill.chat import PROFILES, Profile, Role, jinja_template, render
from tokenmill.chat.messages import Message
from tokenmill.errors import ConfigError
from tokenmill.lm.generate import roles_of
from tokenmill.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True)
class ChatFormat:
    """The way to talk that a model was taught."""

    tokenizer: Tokenizer
    profile: Profile | None
    """`None` where a template of somebody else is rendered."""
    stop_tokens: tuple[int, ...]

    def prompt_ids(self, messages: Sequence[Message]) -> list[int]:
        """What a model reads before it answers. SourceError for a role that the template lacks."""
        if self.profile is not None:
            return render(self.tokenizer, self.profile, messages, add_generation_prompt=True).ids
        return _rendered(self.tokenizer, messages, add_generation_prompt=True).ids


def chat_format(tokenizer: Tokenizer, profile: Mapping[str, Any] | None = None) -> ChatFormat:
    """How to talk to a model with `tokenizer`; `profile` is what its run says, as JSON. ConfigError if nobody says."""
    found = _profile_of(tokenizer, profile)
    if found is not None:
        stop = found.stop_token
        stops = () if stop is None else (tokenizer.special_tokens[stop],)
        return ChatFormat(tokenizer, found, stops or _ends(tokenizer))
    if tokenizer.chat_template is None:
        raise ConfigError(
            "the model's tokenizer has no chat template: nothing says how one talks to it",
            "`tokenmill lm sft` teaches a model to talk; `tokenmill lm generate` goes on with any text",
        )
    turn: list[Message] = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
    ]
    answer = _rendered(tokenizer, turn)
    trained = [
        token for token, is_trained in zip(answer.ids, answer.mask, strict=True) if is_trained
    ]
    special = set(tokenizer.special_tokens.values())
    # What stands before an answer may be trained too; what is said is never special.
    behind = dropwhile(lambda token: token in special, trained)
    stops = tuple(token for token in behind if token in special)[:1]
    return ChatFormat(tokenizer, None, stops or _ends(tokenizer))


def _profile_of(tokenizer: Tokenizer, stated: Mapping[str, Any] | None) -> Profile | None:
    known = list(PROFILES.values())
    if stated is not None:
        roles = {name: Role(**role) for name, role in stated["roles"].items()}
        known.insert(0, Profile(**{**stated, "roles": roles}))
    return next((each for each in known if jinja_template(each) == tokenizer.chat_template), None)


def _rendered(tokenizer: Tokenizer, messages: Sequence[Message], **options: Any) -> Any:
    from tokenmill.chat.foreign_template import ForeignTemplate

    assert tokenizer.chat_template is not None
    with ForeignTemplate(tokenizer, tokenizer.chat_template) as template:
        return template.render(messages, **options)


def _ends(tokenizer: Tokenizer) -> tuple[int, ...]:
    """The tokenizer's own end of text."""
    return tuple(token for role, token in roles_of(tokenizer).items() if role == "eos_token")
