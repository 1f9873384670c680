"""Messages: who says what, checked, contents joined, the system message placed."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from tokenmill.chat.profiles import Profile
from tokenmill.errors import SourceError

Message = Mapping[str, Any]
"""`role` and `content`; the content is a string, or a list of `{"type": "text", "text": …}`."""

_ALIASES = {"human": "user", "gpt": "assistant"}


class RowSkipped(Exception):
    """A conversation that is one and of no use, with the name of the reason."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason = reason
        self.detail = detail


class Turn(NamedTuple):
    """One turn of a conversation, by a role the profile has."""

    role: str
    content: str


def turns_of(messages: Sequence[Message], profile: Profile) -> list[Turn]:
    """The turns that `profile` makes of `messages`. SourceError naming the message that is wrong."""
    turns: list[Turn] = []
    for index, message in enumerate(messages):
        try:
            turns.append(turn_of(message, profile))
        except (RowSkipped, SourceError) as error:
            what = error.detail if isinstance(error, RowSkipped) else error.message
            raise SourceError(f"message {index}: {what}") from None
    try:
        return merge_system(turns, profile)
    except RowSkipped as skipped:
        raise SourceError(skipped.detail) from None


def turn_of(message: object, profile: Profile) -> Turn:
    """One message. SourceError for what is none, RowSkipped for one that no template writes."""
    if not isinstance(message, Mapping):
        raise SourceError(f"is {message!r}, not an object with `role` and `content`")
    fields = cast("Message", message)
    names = [fields[key] for key in ("role", "from") if isinstance(fields.get(key), str)]
    if not names:
        raise SourceError("has no `role`")
    if fields.get("tool_calls"):
        raise RowSkipped("tool_calls", "it has `tool_calls`")
    role = find_role(names[0], profile)
    content = fields.get("content", fields.get("value"))
    if content is None:
        raise RowSkipped("null_content", "its content is null or missing")
    if isinstance(content, list):
        return Turn(role, "".join(_part(part) for part in cast("list[object]", content)))
    if not isinstance(content, str):
        raise SourceError(f"its content is {content!r}, not a string")
    return Turn(role, content)


def find_role(name: str, profile: Profile) -> str:
    """The role of `profile` that is called `name`, here or elsewhere."""
    for role in (name, _ALIASES.get(name, name)):
        if role in profile.roles or (role == "system" and profile.merge_system is not None):
            return role
    known = ", ".join(f"`{each}`" for each in profile.roles)
    raise RowSkipped("unknown_role", f"the template has no role `{name}`, only {known}")


def merge_system(turns: list[Turn], profile: Profile) -> list[Turn]:
    """`turns` with the system message in front of the user's, for templates that want it there."""
    if profile.merge_system is None:
        return turns
    is_first = bool(turns) and turns[0].role == "system"
    is_alone = is_first and (len(turns) < 2 or turns[1].role != "user")
    if is_alone or any(turn.role == "system" for turn in turns[1:]):
        raise RowSkipped(
            "system_not_first", "a system message belongs in front of the first user message"
        )
    if not is_first:
        return turns
    merged = turns[0].content + profile.merge_system + turns[1].content
    return [Turn("user", merged), *turns[2:]]


def _part(part: object) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, Mapping):
        raise SourceError(f"a part of its content is {part!r}")
    fields = cast("Message", part)
    text = fields.get("text")
    if fields.get("type", "text") != "text" or not isinstance(text, str):
        kind = fields.get("type", "?")
        raise RowSkipped("content_part", f"a part of its content is of type `{kind}`, not text")
    return text
