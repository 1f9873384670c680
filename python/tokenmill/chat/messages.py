"""Messages as people write them in Python: checked, contents joined, the system message placed."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from tokenmill.chat.profiles import Profile
from tokenmill.errors import SourceError

Message = Mapping[str, object]
"""`role` and `content`; the content is a string, or a list of `{"type": "text", "text": …}`."""

_ALIASES = {"human": "user", "gpt": "assistant"}


class Turn(NamedTuple):
    """One turn of a conversation, by a role the profile has."""

    role: str
    content: str


def turns_of(messages: Sequence[Message], profile: Profile) -> list[Turn]:
    """The turns that `profile` makes of `messages`. SourceError naming the message that is wrong."""
    turns = [_turn(index, message, profile) for index, message in enumerate(messages)]
    if profile.merge_system is None:
        return turns
    if turns and turns[0].role == "system":
        if len(turns) < 2 or turns[1].role != "user":
            raise SourceError("a system message belongs in front of the first user message")
        merged = turns[0].content + profile.merge_system + turns[1].content
        turns = [Turn("user", merged), *turns[2:]]
    if any(turn.role == "system" for turn in turns):
        raise SourceError("a system message belongs in front of the first user message")
    return turns


def _turn(index: int, message: Message, profile: Profile) -> Turn:
    name = message.get("role", message.get("from"))
    if not isinstance(name, str):
        raise SourceError(f"message {index}: has no `role`")
    if message.get("tool_calls"):
        raise SourceError(f"message {index}: it has `tool_calls`, which no profile renders")
    role = name if name in profile.roles else _ALIASES.get(name, name)
    merged = role == "system" and profile.merge_system is not None
    if role not in profile.roles and not merged:
        known = ", ".join(f"`{each}`" for each in profile.roles)
        raise SourceError(
            f"message {index}: profile `{profile.name}` has no role `{name}`, only {known}"
        )
    return Turn(role, _content(index, message.get("content", message.get("value"))))


def _content(index: int, content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise SourceError(f"message {index}: its content is {content!r}, not a string")
    texts: list[str] = []
    for part in cast("list[object]", content):
        if isinstance(part, str):
            texts.append(part)
            continue
        table = cast("Mapping[str, object]", part) if isinstance(part, Mapping) else {}
        text = table.get("text")
        if table.get("type", "text") != "text" or not isinstance(text, str):
            raise SourceError(f"message {index}: a part of its content is {part!r}, not text")
        texts.append(text)
    return "".join(texts)
