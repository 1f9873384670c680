# pyright: basic
"""Questions with exact answers: a file of them and a model in, how many it gets right out.

A line is `{"prompt": …, "answers": […]}`, or has `messages` in place of the prompt and one `answer` in place of several. A model that was
taught to talk is asked in its chat format, and its whole answer must be one of those that are right. Any other model goes on with the
prompt as a text, and what it writes must begin with one.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tokenmill.errors import ConfigError, SourceError
from tokenmill.lm.chat_format import ChatFormat, chat_format
from tokenmill.lm.generate import generate
from tokenmill.lm.model import Model
from tokenmill.progress import Meter
from tokenmill.storage.files import local_path, unreadable
from tokenmill.tokenizer.tokenizer import Tokenizer

MAX_TOKENS = 32
AT_ONCE = 128
A_LINE = 'a line is `{"prompt": "…", "answers": ["…", …]}`'


@dataclass(frozen=True)
class Question:
    """What is asked, and what is right."""

    messages: tuple[Mapping[str, Any], ...]
    answers: tuple[str, ...]

    @property
    def text(self) -> str:
        """What is asked, for a model that does not know how to talk."""
        return "\n".join(str(message["content"]) for message in self.messages)


@dataclass(frozen=True)
class Answered:
    """A question, and what a model made of it."""

    question: Question
    text: str
    is_right: bool

    def as_json(self) -> dict[str, Any]:
        return {
            "prompt": self.question.text,
            "answer": self.text,
            "answers": list(self.question.answers),
            "right": self.is_right,
        }


def read_questions(path: str | os.PathLike[str]) -> list[Question]:
    """The questions of a JSONL file. SourceError naming the line that is none."""
    file = local_path(path)
    try:
        # JSON may hold any line break but this one, which `splitlines` does not know.
        lines = file.read_bytes().split(b"\n")
    except OSError as error:
        raise unreadable(file, error) from error
    found = [
        _question(line, f"`{file}`, line {number}")
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]
    if not found:
        raise SourceError(f"`{file}` has no questions", A_LINE)
    return found


def _question(line: bytes, where: str) -> Question:
    try:
        row = json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise SourceError(
            f"{where} is not UTF-8: bad byte at {error.start}", "save it as UTF-8"
        ) from None
    except (ValueError, RecursionError) as error:
        raise SourceError(f"{where} is not JSON: {error}", A_LINE) from None
    if not isinstance(row, dict):
        raise SourceError(f"{where} is not an object", A_LINE)
    answers = row.get("answers", [row["answer"]] if "answer" in row else None)
    if not isinstance(answers, list) or not answers or not all(_is_text(each) for each in answers):
        raise SourceError(
            f"{where} has no right answer", 'give `"answer": "…"` or `"answers": ["…", …]`'
        )
    messages = row.get("messages", [{"role": "user", "content": row.get("prompt")}])
    is_sound = isinstance(messages, list) and messages
    if not is_sound or not all(
        isinstance(each, dict) and _is_text(each.get("role")) and _is_text(each.get("content"))
        for each in messages
    ):
        raise SourceError(
            f"{where} asks nothing",
            'give `"prompt": "…"` or `"messages": [{"role": …, "content": …}]`',
        )
    return Question(tuple(messages), tuple(answers))


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def ask(
    model: Model,
    tokenizer: Tokenizer,
    questions: Sequence[Question],
    *,
    max_tokens: int = MAX_TOKENS,
    profile: Mapping[str, Any] | None = None,
    meter: Meter | None = None,
) -> list[Answered]:
    """What the likeliest answers of `model` are, token by token, and whether they are right. `profile` is what its run says."""
    form = None if tokenizer.chat_template is None else chat_format(tokenizer, profile)
    meter = meter or Meter(False)
    meter.begin("asking", "questions")
    found: list[Answered] = []
    try:
        for at in range(0, len(questions), AT_ONCE):
            some = questions[at : at + AT_ONCE]
            found += _ask(model, tokenizer, form, some, max_tokens)
            meter.update(len(found), len(found) / len(questions))
    finally:
        meter.end()
    return found


def _ask(
    model: Model,
    tokenizer: Tokenizer,
    form: ChatFormat | None,
    questions: Sequence[Question],
    max_tokens: int,
) -> Iterator[Answered]:
    prompts: list[Any] = [
        each.text if form is None else form.prompt_ids(each.messages) for each in questions
    ]
    stops = None if form is None else form.stop_tokens
    texts = generate(
        model, tokenizer, prompts, max_tokens=max_tokens, temperature=0.0, stop_tokens=stops
    )
    for question, found in zip(questions, texts, strict=True):
        text = found.text.strip()
        if form is None:
            is_right = text.startswith(tuple(each.strip() for each in question.answers))
        else:
            is_right = text in [each.strip() for each in question.answers]
        yield Answered(question, text, is_right)


def share_right(answered: Sequence[Answered]) -> float:
    """How many of them are right, from 0 to 1."""
    if not answered:
        raise ConfigError("there are no questions")
    return sum(each.is_right for each in answered) / len(answered)
