"""What Hugging Face puts around a text: the JSON value of `post_processor` in, steps out.

ByteLevel leaves spaces out of offsets, TemplateProcessing adds special tokens, Sequence does several
things one after another. Steps take one encoding for each sequence and give encodings that follow
each other; they own what they take.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast

from tokenmill.compat.encoding import Encoding
from tokenmill.compat.parts import ListedPart, added_part
from tokenmill.errors import FormatError


class PostProcessor(Protocol):
    """A step after encoding and truncation."""

    def num_added(self, *, is_pair: bool) -> int:
        """How many tokens it adds."""
        ...

    def process(self, encodings: list[Encoding], add_special_tokens: bool) -> list[Encoding]: ...


@dataclass(frozen=True)
class ByteLevel:
    """Leaves out of offsets the spaces at both ends of tokens."""

    add_prefix_space: bool
    trim_offsets: bool

    def num_added(self, *, is_pair: bool) -> int:
        return 0

    def process(self, encodings: list[Encoding], add_special_tokens: bool) -> list[Encoding]:
        for number, encoding in enumerate(encodings):
            if self.trim_offsets:
                for one in encoding.with_overflowing():
                    one.trim_offsets(self.add_prefix_space)
            encoding.set_sequence_id(number)
        return encodings


@dataclass(frozen=True)
class SequencePiece:
    """Where a template has the first (0) or second (1) sequence."""

    number: Literal[0, 1]
    type_id: int


@dataclass(frozen=True)
class SpecialPiece:
    """Where a template has special tokens."""

    part: ListedPart


_Template = tuple[SequencePiece | SpecialPiece, ...]


@dataclass(frozen=True)
class TemplateProcessing:
    """Puts sequences and special tokens in the order of a template."""

    single: _Template
    pair: _Template

    def num_added(self, *, is_pair: bool) -> int:
        pieces = self.pair if is_pair else self.single
        return sum(len(piece.part) for piece in pieces if isinstance(piece, SpecialPiece))

    def process(self, encodings: list[Encoding], add_special_tokens: bool) -> list[Encoding]:
        if len(encodings) > 2:
            raise NotImplementedError("a TemplateProcessing after another one")
        processed: list[Encoding] = []
        for piece in self.pair if len(encodings) == 2 else self.single:
            if isinstance(piece, SequencePiece):
                encoding = encodings[piece.number]
                encoding.set_type_id(piece.type_id)
                encoding.set_sequence_id(piece.number)
                processed.append(encoding.copy())
            elif add_special_tokens:
                processed.append(Encoding([piece.part]))
        return processed


@dataclass(frozen=True)
class Steps:
    """Several, one after another."""

    steps: tuple[PostProcessor, ...]

    def num_added(self, *, is_pair: bool) -> int:
        return sum(step.num_added(is_pair=is_pair) for step in self.steps)

    def process(self, encodings: list[Encoding], add_special_tokens: bool) -> list[Encoding]:
        for step in self.steps:
            encodings = step.process(encodings, add_special_tokens)
        return encodings


def post_process(
    processor: PostProcessor | None,
    first: Encoding,
    second: Encoding | None,
    add_special_tokens: bool,
) -> Encoding:
    """One encoding of one or two. Both may be changed."""
    encodings = [first] if second is None else [first, second]
    if processor is None:
        if second is None:
            return first
        for number, encoding in enumerate(encodings):
            encoding.set_sequence_id(number)
        return Encoding.merge(encodings, growing_offsets=False)
    for number, encoding in enumerate(encodings):
        encoding.set_type_id(number)
        for one in encoding.with_overflowing():
            one.set_sequence_id(number)
    processed = processor.process(encodings, add_special_tokens)
    return Encoding.merge(processed, growing_offsets=False)


def post_processor_value(processor: Any) -> Any:
    """The JSON value of what somebody set as post-processor: None, that value, or an object of
    `tokenizers.processors`."""
    if processor is None or isinstance(processor, Mapping):
        return cast(Any, processor)
    state = getattr(processor, "__getstate__", lambda: None)()
    if not isinstance(state, bytes | str):
        kind = type(processor).__name__
        raise TypeError(f"post-processor must be one of `tokenizers.processors`, found `{kind}`")
    return json.loads(state)


def read_post_processor(value: Any, place: str = "post_processor") -> PostProcessor | None:
    """The steps of a JSON value. NotImplementedError naming a type that is not supported."""
    if value is None:
        return None
    try:
        kind = value["type"]
        if kind == "ByteLevel":
            return ByteLevel(bool(value["add_prefix_space"]), bool(value["trim_offsets"]))
        if kind == "TemplateProcessing":
            return _read_template_processing(value)
        if kind == "Sequence":
            processors = cast(list[Any], value["processors"])
            return _read_sequence(processors, place)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise FormatError(f"`{place}` is not what Hugging Face writes: {error!r}") from None
    raise NotImplementedError(
        f"`{place}` is `{kind}`; supported are ByteLevel, TemplateProcessing and Sequence"
    )


def _read_sequence(processors: list[Any], place: str) -> Steps:
    read = [
        read_post_processor(one, f"{place}.processors[{index}]")
        for index, one in enumerate(processors)
    ]
    steps = tuple(step for step in read if step is not None)
    return Steps(steps)


def _read_template_processing(value: Mapping[str, Any]) -> TemplateProcessing:
    special = cast(Mapping[str, Any], value["special_tokens"])
    return TemplateProcessing(
        single=_read_template(value["single"], special), pair=_read_template(value["pair"], special)
    )


def _read_template(
    pieces: Sequence[Mapping[str, Any]], special_tokens: Mapping[str, Any]
) -> _Template:
    template: list[SequencePiece | SpecialPiece] = []
    for piece in pieces:
        ((kind, content),) = piece.items()
        if kind == "Sequence":
            number = ("A", "B").index(content["id"])
            template.append(SequencePiece(cast(Any, number), int(content["type_id"])))
        else:
            entry = special_tokens[content["id"]]
            ids, tokens = list(map(int, entry["ids"])), list(map(str, entry["tokens"]))
            part = added_part(ids, tokens, int(content["type_id"]), attention=1)
            template.append(SpecialPiece(part))
    return tuple(template)
