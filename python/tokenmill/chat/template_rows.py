"""Rows of conversations by a template of somebody else: what `encode_rows` does for a profile."""

import queue
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from tokenmill.chat.encoder import EncodedRows, RowOptions
from tokenmill.chat.foreign_template import ROLES, ForeignTemplate, Refused
from tokenmill.chat.messages import RowSkipped, Turn
from tokenmill.chat.rendering import Rendered
from tokenmill.chat.rows import Conversation, conversations_of
from tokenmill.errors import ConfigError, SourceError
from tokenmill.sources.choices import require_one_of
from tokenmill.tokenizer.tokenizer import Tokenizer

_HALVES = re.compile("[\ud800-\udfff]")
_ROWS_AT_ONCE = 128
"""Rows in one request to the process that runs the template."""


def encode_rows_by_template(
    template: ForeignTemplate,
    rows: Sequence[str | bytes],
    options: RowOptions | None = None,
    *,
    on_error: str = "fail",
) -> EncodedRows:
    """The documents of `rows` as the template writes them.

    As `encode_rows`, and slower: the template is Python. A conversation that the template refuses or
    whose contents it changes is left out for the reason `template`. ConfigError if the template does
    not say what is trained on.
    """
    require_one_of("error policy", on_error, ("fail", "skip"))
    options = options or RowOptions()
    _require_generation(template)
    return _collect(template, rows, options, skips_errors=on_error == "skip").finish()


class TemplateEncoder:
    """Rows by a template for several threads at once, as the core calls it; a process for each.

    ConfigError as for `ForeignTemplate`, and if the template does not say what is trained on.
    """

    def __init__(
        self, tokenizer: Tokenizer, template: str, options: RowOptions, threads: int
    ) -> None:
        self._options = options
        self._all: list[ForeignTemplate] = []
        self._idle: queue.SimpleQueue[ForeignTemplate] = queue.SimpleQueue()
        try:
            for _ in range(threads):
                self._all.append(ForeignTemplate(tokenizer, template))
                self._idle.put(self._all[-1])
            _require_generation(self._all[0])
        except BaseException:
            self.close()
            raise

    def __call__(self, rows: list[bytes]) -> "CalledRows":
        template = self._idle.get()
        try:
            return _collect(template, rows, self._options, skips_errors=True).as_called()
        finally:
            self._idle.put(template)

    def __enter__(self) -> "TemplateEncoder":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the processes."""
        for template in self._all:
            template.close()


CalledRows = tuple[
    bytes, bytes, list[tuple[int, int, int]], list[tuple[int, str, str]], int, int, dict[str, int]
]
"""Rows as the core takes them; `_core.pyi` says what is what."""


def _require_generation(template: ForeignTemplate) -> None:
    if not template.has_generation:
        raise ConfigError(
            "the chat template has no `{% generation %}`, so nothing says what is trained on",
            "put it around what the assistant says, or use a profile",
        )


def _collect(
    template: ForeignTemplate,
    rows: Sequence[str | bytes],
    options: RowOptions,
    *,
    skips_errors: bool,
) -> "_Collected":
    collected = _Collected(template, options, skips_errors=skips_errors)
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        collected.add(start, rows[start : start + _ROWS_AT_ONCE])
    return collected


class _Collected:
    """What rows have become so far."""

    def __init__(
        self, template: ForeignTemplate, options: RowOptions, *, skips_errors: bool
    ) -> None:
        self._template = template
        self._options = options
        self._skips_errors = skips_errors
        self._ids: list[int] = []
        self._mask: list[int] = []
        self._ends: list[int] = [0]
        self._bytes: list[int] = []
        self._rows: list[int] = []
        self._skipped: list[tuple[int, str, str]] = []
        self._truncated = 0
        self._replaced = 0
        self._lookalikes: Counter[str] = Counter()

    def add(self, first: int, rows: Sequence[str | bytes]) -> None:
        """Rows from number `first` on."""
        read: list[tuple[int, list[Conversation]]] = []
        for index, row in enumerate(rows, first):
            try:
                read.append((index, self._read(row)))
            except RowSkipped as skipped:
                self._skipped.append((index, skipped.reason, skipped.detail))
            except SourceError as error:
                self._unreadable(index, error)
        every = [conversation for _, found in read for conversation in found]
        rendered = iter(self._template.render_turns(every))
        for index, conversations in read:
            self._add_row(index, conversations, rendered)

    def _unreadable(self, index: int, error: SourceError) -> None:
        if not self._skips_errors:
            raise SourceError(f"row {index}: {error.message}", error.hint) from None
        self._skipped.append((index, "unreadable", error.message))

    def _read(self, row: str | bytes) -> list[Conversation]:
        text = self._valid(row)
        options = self._options
        conversations = conversations_of(text, ROLES, mode=options.mode, shape=options.shape)
        return [self._whole(each) for each in conversations]

    def _whole(self, conversation: Conversation) -> Conversation:
        """JSON may name half of a surrogate pair, which no text holds."""
        if not any(_HALVES.search(turn.content) for turn in conversation.turns):
            return conversation
        if self._options.invalid_utf8 == "error":
            raise SourceError("holds half of a surrogate pair, which is not valid UTF-8")
        turns = [Turn(role, self._without_halves(said)) for role, said in conversation.turns]
        return Conversation(turns, conversation.answer)

    def _without_halves(self, text: str) -> str:
        whole, replaced = _HALVES.subn("\ufffd", text)
        self._replaced += replaced
        return whole

    def _valid(self, row: str | bytes) -> str:
        if self._options.invalid_utf8 == "keep":
            raise ConfigError("a chat template needs text: `invalid_utf8` cannot be `keep` here")
        if self._options.invalid_utf8 == "replace":
            if isinstance(row, str):
                return self._without_halves(row)
            text = row.decode("utf-8", "replace")
            self._replaced += text.count("\ufffd") - row.count("\ufffd".encode())
            return text
        try:
            return row if isinstance(row, str) else row.decode()
        except UnicodeDecodeError as error:
            raise SourceError(
                f"is not valid UTF-8: byte {error.start} of the line is 0x{error.object[error.start]:02X}"
            ) from None

    def _add_row(
        self,
        index: int,
        conversations: Sequence[Conversation],
        rendered: Iterator[Rendered | Refused],
    ) -> None:
        documents: list[tuple[list[int], list[int]]] = []
        problems: list[tuple[str, str]] = []
        truncated = 0
        for found in [next(rendered) for _ in conversations]:
            if isinstance(found, Refused):
                problems.append(("template", f"the chat template {found.why}"))
                continue
            try:
                ids, mask = self._shortened(found)
            except RowSkipped as skipped:
                problems.append((skipped.reason, skipped.detail))
                continue
            except SourceError as error:
                self._unreadable(index, error)
                return
            truncated += len(ids) < len(found.ids)
            documents.append((ids, mask))
        if problems:
            self._skipped.append((index, *problems[0]))
            return
        self._truncated += truncated
        for conversation, (ids, mask) in zip(conversations, documents, strict=True):
            self._ids += ids
            self._mask += mask
            self._ends.append(len(self._ids))
            self._rows.append(index)
            contents = [turn.content for turn in conversation.turns]
            self._bytes.append(sum(len(content.encode()) for content in contents))
            for content in contents:
                self._lookalikes.update(self._template.special_tokens_in(content))

    def _shortened(self, found: Rendered) -> tuple[list[int], list[int]]:
        ids, mask, _ = found
        most, policy = self._options.max_tokens, self._options.too_long
        if most is not None and len(ids) > most:
            detail = f"{len(ids)} tokens are more than {most}"
            if policy == "error":
                raise SourceError(detail)
            if policy == "drop":
                raise RowSkipped("too_long", detail)
            part = slice(0, most) if policy == "keep-start" else slice(len(ids) - most, None)
            ids, mask = ids[part], mask[part]
        if not any(mask):
            raise RowSkipped("no_trained_tokens", "it has no token to train on")
        return ids, mask

    def finish(self) -> EncodedRows:
        import numpy as np

        return EncodedRows(
            ids=np.array(self._ids, dtype=self._template.id_type),
            offsets=np.array(self._ends, dtype=np.int64),
            mask=np.array(self._mask, dtype=np.uint8),
            bytes=np.array(self._bytes, dtype=np.int64),
            rows=np.array(self._rows, dtype=np.int64),
            skipped=sorted(self._skipped),
            truncated=self._truncated,
            lookalikes=dict(self._lookalikes),
        )

    def as_called(self) -> CalledRows:
        """As the core takes it."""
        sizes = [end - start for start, end in pairwise(self._ends)]
        documents = list(zip(self._rows, sizes, self._bytes, strict=True))
        return (
            array("I", self._ids).tobytes(),
            bytes(self._mask),
            documents,
            sorted(self._skipped),
            self._truncated,
            self._replaced,
            dict(self._lookalikes),
        )
