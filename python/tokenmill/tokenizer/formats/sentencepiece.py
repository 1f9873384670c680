"""SentencePiece .model files: recognised, described and refused. Bytes in, an error out.

Such a model merges characters instead of bytes, by scores instead of ranks, over text that its own
normalizer rewrote and that no regex cut. No vocab here gives the same ids, so none is made; the
error says what the file is. The reader below knows just enough protobuf for that, and trusts no
size that the file gives.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn

from tokenmill.errors import FormatError

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_PIECES, _TRAINER, _NORMALIZER = 1, 2, 3
_TOP_LEVEL = {1, 2, 3, 4, 5}
"""Pieces, trainer, normalizer, self-test data, denormalizer: all that a model has."""
_KINDS = {1: "unigram", 2: "BPE", 3: "word", 4: "character"}
_BYTE_PIECE = 6
_MAX_VARINT_BYTES = 10

Value = int | bytes


@dataclass
class Model:
    """What a .model file says about itself."""

    num_pieces: int = 0
    num_byte_pieces: int = 0
    kind: int = 1
    normalizer: str = ""
    settings: list[str] = field(default_factory=list[str])
    """What else would have to be done to a text to get its ids."""

    def __str__(self) -> str:
        kind = _KINDS.get(self.kind, f"type {self.kind}")
        details = [f"{kind}, {self.num_pieces:,} pieces", f"normalizer `{self.normalizer}`"]
        return ", ".join(details + self.settings)


def looks_like(data: bytes) -> bool:
    """Whether `data` starts with the first piece of a SentencePiece model, as all of them do."""
    try:
        number, piece = next(_fields(data[:4096], ""), (0, 0))
        if number != _PIECES or not isinstance(piece, bytes):
            return False
        number, text = next(_fields(piece, ""), (0, 0))
        return number == 1 and isinstance(text, bytes) and bool(text.decode())
    except (FormatError, UnicodeDecodeError):
        return False


def describe(data: bytes, file: str) -> Model:
    """What the model is. FormatError naming the byte where `data` is no such file."""
    model = Model()
    for number, value in _fields(data, file):
        if number not in _TOP_LEVEL or not isinstance(value, bytes):
            raise FormatError(f"`{file}` is no SentencePiece model: it has a field {number}")
        if number == _PIECES:
            model.num_pieces += 1
            kind = dict(_fields(value, file)).get(3, 1)
            model.num_byte_pieces += kind == _BYTE_PIECE
        elif number == _TRAINER:
            _read_trainer(dict(_fields(value, file)), model)
        elif number == _NORMALIZER:
            _read_normalizer(dict(_fields(value, file)), model)
    if model.num_byte_pieces:
        model.settings.append("unknown characters as bytes")
    return model


def _read_trainer(fields: dict[int, Value], model: Model) -> None:
    kind = fields.get(3, 1)
    model.kind = kind if isinstance(kind, int) else 0


def _read_normalizer(fields: dict[int, Value], model: Model) -> None:
    name = fields.get(1, b"")
    model.normalizer = name.decode("utf-8", "replace")[:40] if isinstance(name, bytes) else ""
    if fields.get(3, 1):
        model.settings.append("a space before each text")
    if fields.get(4, 1):
        model.settings.append("runs of spaces made one")


def refuse(data: bytes, file: str) -> NoReturn:
    """FormatError that says what `file` is and why it cannot be read as byte-level BPE."""
    raise FormatError(
        f"`{file}` is a SentencePiece model ({describe(data, file)}), which is not byte-level BPE: "
        "its pieces are characters joined by score over normalized text that no regex cuts, so no "
        "vocab of bytes and merges gives the same ids",
        "open it with `sentencepiece` or `transformers`, or train a tokenizer on your text with "
        "`tokenmill train`; the `tokenizer.model` of Llama 3 is another format and can be read",
    )


def _fields(data: bytes, file: str) -> Iterator[tuple[int, Value]]:
    """The fields of one message: (number, whole number or bytes)."""
    at = 0
    while at < len(data):
        start = at
        key, at = _varint(data, at, file)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, at = _varint(data, at, file)
            yield number, value
            continue
        if wire == _BYTES:
            size, at = _varint(data, at, file)
        else:
            size = {_FIXED64: 8, _FIXED32: 4}.get(wire, -1)
        if size < 0 or at + size > len(data):
            raise FormatError(f"`{file}` is no SentencePiece model, or cut: see byte {start:,}")
        part = data[at : at + size]
        at += size
        yield number, part if wire == _BYTES else int(struct.unpack("<I", part[:4])[0])


def _varint(data: bytes, at: int, file: str) -> tuple[int, int]:
    """The number that starts at `at`, and where it ends."""
    value = 0
    for index, byte in enumerate(data[at : at + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise FormatError(f"`{file}` is no SentencePiece model, or cut: see byte {at:,}")
