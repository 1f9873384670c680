"""Chat templates of others: Jinja from strangers, run in a sandbox, contents kept apart.

A template is a program. It runs in jinja2's immutable sandbox, in a process of its own that is killed
when it takes too long, needs too much memory or talks too much (`template_process.py`).

Contents never become special ids here either. Every conversation is rendered twice: once with marks
in place of the contents, so that whatever comes out besides the marks is the template's own, and once
as it is. Marks replaced by contents must give the second text (white space at the ends of a content
aside, which many templates trim); a template that does anything else with contents is refused for
that conversation, because nobody could say which part of its text a user wrote.
"""

import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tokenmill.chat.messages import Message, Turn, turns_of
from tokenmill.chat.profiles import Profile, Role
from tokenmill.chat.rendering import Part, Rendered, encode_parts
from tokenmill.chat.template_runner import TemplateRunner
from tokenmill.errors import ConfigError, SourceError
from tokenmill.storage.files import local_path, unreadable
from tokenmill.tokenizer.formats import transformers_config
from tokenmill.tokenizer.tokenizer import Tokenizer

# Private characters: no template looks for them and no filter that keeps text changes them.
_MARK = "\U000f0000"
_START, _END = "\U000f0001", "\U000f0002"
_DIGITS = "\U000f0010\U000f0011\U000f0012\U000f0013\U000f0014\U000f0015\U000f0016\U000f0017"
_GENERATION = re.compile(r"\{%[-+]?\s*generation\s*[-+]?%\}")

ROLES = Profile(
    name="a template of its own",
    special_tokens=("<>",),
    roles={
        "system": Role("<>", "<>"),
        "user": Role("<>", "<>"),
        "assistant": Role("<>", "<>", trained=True),
    },
)
"""The roles that rows may have where a foreign template renders them. It has no other use."""


@dataclass(frozen=True)
class Refused:
    """A conversation that the template did not render, or not in a way that keeps contents apart."""

    why: str


def find_template(source: str | os.PathLike[str], tokenizer: Tokenizer) -> str:
    """The template of `tokenizer` for `"tokenizer"`, else that of a file."""
    if source == "tokenizer":
        if tokenizer.chat_template is None:
            raise ConfigError("the tokenizer has no chat template", "name a Jinja file instead")
        return tokenizer.chat_template
    file = local_path(source)
    try:
        return file.read_bytes().decode()
    except OSError as error:
        raise unreadable(file, error) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"`{file}` is not UTF-8: bad byte at {error.start}") from None


class ForeignTemplate:
    """A template at work, for as long as the `with` block lasts.

    ConfigError if it is not Jinja, or jinja2 is not installed.
    """

    def __init__(
        self, tokenizer: Tokenizer, template: str, *, timeout_seconds: float = 20.0
    ) -> None:
        vocab = tokenizer._vocab  # pyright: ignore[reportPrivateUsage]
        roles = transformers_config.roles(vocab)
        variables = {role: vocab.tokens[token_id].decode() for role, token_id in roles.items()}
        self._tokenizer = tokenizer
        self._special = _alternatives(tokenizer.special_tokens)
        self._runner = TemplateRunner(template, variables, timeout_seconds=timeout_seconds)
        self.has_generation = _GENERATION.search(template) is not None
        """Whether it says what is trained on. Without that every mask is zero."""

    @property
    def id_type(self) -> str:
        """The dtype that holds every id of the tokenizer."""
        return "uint16" if self._tokenizer.vocab_size <= 1 << 16 else "uint32"

    def special_tokens_in(self, content: str) -> list[str]:
        """What looks like a special token in a content, every time it does."""
        return [] if self._special is None else self._special.findall(content)

    def __enter__(self) -> "ForeignTemplate":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self._runner.close()

    def render(
        self, messages: Sequence[Message], *, add_generation_prompt: bool = False
    ) -> Rendered:
        """`messages` by the template. SourceError if it refuses them or changes their contents."""
        turns = turns_of(messages, ROLES)
        (rendered,) = self.render_turns([(turns, 0)], add_generation_prompt=add_generation_prompt)
        if isinstance(rendered, Refused):
            raise SourceError(f"the chat template {rendered.why}")
        return rendered

    def render_turns(
        self,
        conversations: Sequence[tuple[Sequence[Turn], int]],
        *,
        add_generation_prompt: bool = False,
    ) -> list[Rendered | Refused]:
        """Each conversation by the template. Turns before its number are not trained on."""
        marks = _Marks.unlike(turn.content for turns, _ in conversations for turn in turns)
        requests: list[dict[str, Any]] = []
        for turns, _ in conversations:
            contents = [turn.content for turn in turns]
            masked = [marks.content(i) if content else "" for i, content in enumerate(contents)]
            for texts, around in ((masked, marks.generation), (contents, ("", ""))):
                messages = [
                    {"role": turn.role, "content": text}
                    for turn, text in zip(turns, texts, strict=True)
                ]
                requests.append(
                    {
                        "messages": messages,
                        "marks": around,
                        "add_generation_prompt": add_generation_prompt,
                        "max_chars": 10 * sum(map(len, contents)) + 1000 * len(contents) + 100_000,
                    }
                )
        answers = self._runner.render(requests)
        return [
            self._rendered([turn.content for turn in turns], first_trained, marks, own, real)
            for (turns, first_trained), own, real in zip(
                conversations, answers[::2], answers[1::2], strict=True
            )
        ]

    def _rendered(
        self,
        contents: Sequence[str],
        first_trained: int,
        marks: "_Marks",
        own: Mapping[str, str],
        real: Mapping[str, str],
    ) -> Rendered | Refused:
        for answer in (own, real):
            if "error" in answer:
                return Refused(f"fails: {answer['error']}")
        pieces = marks.pieces(own["text"])
        chosen = _contents_as_written(pieces, contents, real["text"])
        if chosen is None:
            return Refused("changes contents, so that nobody can tell what a user wrote")
        parts = list(self._parts(pieces, chosen, first_trained))
        ids, mask = encode_parts(self._tokenizer, parts)
        return Rendered(ids, mask, real["text"])

    def _parts(
        self, pieces: "Sequence[_Piece]", chosen: Sequence[str], first_trained: int
    ) -> Iterator[Part]:
        for piece, text in zip(pieces, chosen, strict=True):
            trained = piece.is_trained and piece.turn >= first_trained
            if piece.content is not None or self._special is None:
                yield Part(text, is_special=False, is_trained=trained)
                continue
            at = 0
            for found in self._special.finditer(text):
                yield Part(text[at : found.start()], is_special=False, is_trained=trained)
                yield Part(found[0], is_special=True, is_trained=trained)
                at = found.end()
            yield Part(text[at:], is_special=False, is_trained=trained)


@dataclass(frozen=True)
class _Piece:
    """Text of the template, or the place of a content, in a text with marks."""

    text: str
    content: int | None
    is_trained: bool
    turn: int
    """The turn it belongs to."""


@dataclass(frozen=True)
class _Marks:
    """What stands for contents, and around what the assistant says. Nobody can have guessed it."""

    nonce: str

    @staticmethod
    def unlike(contents: Iterator[str]) -> "_Marks":
        texts = list(contents)
        while True:
            nonce = "".join(secrets.choice(_DIGITS) for _ in range(24))
            if not any(nonce in text for text in texts):
                return _Marks(nonce)

    def content(self, index: int) -> str:
        digits = "".join(_DIGITS[int(digit)] for digit in oct(index)[2:])
        return f"{_MARK}{self.nonce}{digits}{_MARK}"

    @property
    def generation(self) -> tuple[str, str]:
        return _START + self.nonce + _START, _END + self.nonce + _END

    def pieces(self, text: str) -> list[_Piece]:
        """`text` cut at the marks."""
        start, end = self.generation
        mark = re.compile(f"({start}|{end}|{_MARK}{self.nonce}[{_DIGITS}]+{_MARK})")
        pieces: list[_Piece] = []
        said: list[tuple[str, int | None]] | None = None
        turn = 0
        for part in (*mark.split(text), end):
            if part == start:
                said = []
            elif part == end:
                # An empty content has no mark: then it is the turn after the last one seen.
                turn = max((n for _, n in said or () if n is not None), default=turn + 1)
                pieces += [_Piece(text, number, True, turn) for text, number in said or ()]
                said = None
            elif part:
                number = self._index(part) if part.startswith(_MARK + self.nonce) else None
                if said is None:
                    turn = turn if number is None else number
                    pieces.append(_Piece(part, number, False, turn))
                else:
                    said.append((part, number))
        return pieces

    def _index(self, mark: str) -> int:
        digits = mark[1 + len(self.nonce) : -1]
        return int("".join(str(_DIGITS.index(digit)) for digit in digits), 8)


def _contents_as_written(
    pieces: Sequence[_Piece], contents: Sequence[str], text: str
) -> list[str] | None:
    """The text of each piece so that together they are `text`, contents as they are or trimmed."""
    # How far some choice of the pieces so far reaches, and the choices that led there.
    reached: dict[int, tuple[str, ...]] = {0: ()}
    for piece in pieces:
        raw = piece.text if piece.content is None else contents[piece.content]
        forms = (raw,) if piece.content is None else (raw, raw.strip(), raw.lstrip(), raw.rstrip())
        further: dict[int, tuple[str, ...]] = {}
        for at, so_far in reached.items():
            for form in forms:
                if text.startswith(form, at):
                    further.setdefault(at + len(form), (*so_far, form))
        reached = further
    found = reached.get(len(text))
    return None if found is None else list(found)


def _alternatives(special_tokens: Mapping[str, int]) -> re.Pattern[str] | None:
    longest_first = sorted(special_tokens, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
