"""One row in, conversations out: how rows hold what people say, in plain Python.

The core reads rows this way too and many times faster; this one serves templates of others, which
run in Python anyway, and the tests, which hold the two together.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

from tokenmill.chat.messages import RowSkipped, Turn, find_role, merge_system, turn_of
from tokenmill.chat.profiles import Profile
from tokenmill.errors import SourceError

Row = Mapping[str, Any]
SPEAKER = re.compile(r"\n\n(Human|Assistant): ?")
"""Who speaks in a conversation that is one text, as hh-rlhf has it."""


class Conversation(NamedTuple):
    """Turns, of which those before `answer` are never trained on."""

    turns: list[Turn]
    answer: int


def conversations_of(
    row: str | bytes, profile: Profile, *, mode: str = "sft", shape: str | None = None
) -> list[Conversation]:
    """The conversation of a row, or in mode `preference` the chosen and the rejected one.

    SourceError for what is not such a row, RowSkipped for one that is left out.
    """
    try:
        document = json.loads(row)
    except ValueError as error:
        raise SourceError(f"not valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise SourceError(f"is {document!r}, not an object")
    fields = {key: value for key, value in cast("Row", document).items() if value is not None}
    if mode == "preference":
        return _preference(fields, profile)
    shape = shape or _shape(fields, cast("Row", document))
    return [_sft(fields, profile, shape)]


def _shape(fields: Row, document: Row) -> str:
    if "messages" in fields:
        return "messages"
    if "conversations" in fields:
        return "conversations"
    if "prompt" in fields and "completion" in document:
        return "prompt-completion"
    if "instruction" in fields and "output" in document:
        return "alpaca"
    keys = ", ".join(f"`{key}`" for key in document) or "no keys"
    raise SourceError(f"is no conversation: it has {keys}")


def _sft(fields: Row, profile: Profile, shape: str) -> Conversation:
    turns = [] if shape == "messages" else _system(fields, profile)
    answer = 0
    if shape in ("messages", "conversations"):
        turns += _messages(fields, shape, profile)
    else:
        if shape == "alpaca":
            turns += _alpaca_prompt(fields, profile)
        else:
            turns += _text_or_messages(fields, "prompt", "user", profile)
        answer = len(turns)
        key = "output" if shape == "alpaca" else "completion"
        turns += _text_or_messages(fields, key, "assistant", profile)
    _check_completion(turns[answer:], profile)
    return _merged(Conversation(turns, answer), profile)


def _alpaca_prompt(fields: Row, profile: Profile) -> list[Turn]:
    instruction = _text(fields, "instruction")
    added = _text(fields, "input") if "input" in fields else ""
    if not added:
        return [Turn(profile.instruction, instruction)]
    if profile.instruction == profile.input:
        return [Turn(profile.instruction, f"{instruction}\n\n{added}")]
    return [Turn(profile.instruction, instruction), Turn(profile.input, added)]


def _preference(fields: Row, profile: Profile) -> list[Conversation]:
    for key in ("chosen", "rejected"):
        if key not in fields:
            raise SourceError(f"has no field `{key}`")
    chosen = _text_or_messages(fields, "chosen", "assistant", profile)
    rejected = _text_or_messages(fields, "rejected", "assistant", profile)
    prompt = _system(fields, profile)
    if _are_transcripts(fields):
        chosen, rejected = (_speakers(fields[key]) for key in ("chosen", "rejected"))
    if all(not answer or answer[0].role == "assistant" for answer in (chosen, rejected)):
        if "prompt" not in fields:
            raise SourceError("has no field `prompt`")
        prompt += _text_or_messages(fields, "prompt", "user", profile)
    else:
        shared = _shared(chosen, rejected)
        if chosen == rejected:
            raise RowSkipped("chosen_equals_rejected", "`chosen` and `rejected` are the same")
        if not shared:
            raise RowSkipped("prompt_differs", "`chosen` and `rejected` begin differently")
        if not _is_there(fields, chosen[:shared], profile):
            raise RowSkipped("prompt_differs", "`prompt` is not in what both begin with")
        prompt += chosen[:shared]
        chosen, rejected = chosen[shared:], rejected[shared:]
    if chosen == rejected:
        raise RowSkipped("chosen_equals_rejected", "`chosen` and `rejected` are the same")
    _check_completion(chosen, profile)
    _check_completion(rejected, profile)
    return [
        _merged(Conversation(prompt + answer, len(prompt)), profile)
        for answer in (chosen, rejected)
    ]


def _are_transcripts(fields: Row) -> bool:
    """Whether both answers are texts that begin with a speaker, and nothing says what they answer."""
    texts = [fields["chosen"], fields["rejected"]]
    return "prompt" not in fields and all(
        isinstance(text, str) and text.startswith("\n\nHuman:") for text in texts
    )


def _speakers(text: str) -> list[Turn]:
    _, *parts = SPEAKER.split(text)
    roles = {"Human": "user", "Assistant": "assistant"}
    return [Turn(roles[name], said) for name, said in zip(parts[::2], parts[1::2], strict=True)]


def _shared(one: Sequence[Turn], other: Sequence[Turn]) -> int:
    pairs = zip(one, other, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _is_there(fields: Row, prompt: Sequence[Turn], profile: Profile) -> bool:
    stated = fields.get("prompt")
    if stated is None:
        return True
    if isinstance(stated, str):
        return any(turn.content == stated for turn in prompt)
    turns = _text_or_messages(fields, "prompt", "user", profile)
    return list(prompt[: len(turns)]) == turns


def _check_completion(turns: Sequence[Turn], profile: Profile) -> None:
    trained = [t for t in turns if t.role in profile.roles and profile.roles[t.role].trained]
    if not trained:
        raise RowSkipped("no_assistant_turn", f"none of its {len(turns)} turns is trained on")
    if not any(turn.content for turn in trained):
        raise RowSkipped("empty_completion", "what the assistant says is empty")


def _system(fields: Row, profile: Profile) -> list[Turn]:
    system = fields.get("system")
    if not isinstance(system, str) or not system:
        return []
    return [Turn(find_role("system", profile), system)]


def _merged(conversation: Conversation, profile: Profile) -> Conversation:
    turns = merge_system(conversation.turns, profile)
    shorter = len(conversation.turns) - len(turns)
    return Conversation(turns, max(conversation.answer - shorter, 0))


def _text(fields: Row, key: str) -> str:
    if key not in fields:
        raise RowSkipped("null_content", f"`{key}` is missing or null")
    if not isinstance(fields[key], str):
        raise SourceError(f"field `{key}` holds {fields[key]!r}, not a string")
    return fields[key]


def _text_or_messages(fields: Row, key: str, role: str, profile: Profile) -> list[Turn]:
    if isinstance(fields.get(key), list):
        return _messages(fields, key, profile)
    return [Turn(role, _text(fields, key))]


def _messages(fields: Row, key: str, profile: Profile) -> list[Turn]:
    messages = fields.get(key)
    if not isinstance(messages, list):
        raise SourceError(f"field `{key}` is not a list of messages")
    return [turn_of(message, profile) for message in cast("list[object]", messages)]
