"""What kind of tokenizer a path holds: told by names in a folder, and by the first bytes of a file.

A name never overrules what the bytes say: `tokenizer.model` is ranks in Llama 3 and SentencePiece in
Llama 2.
"""

import re
from pathlib import Path
from typing import Literal, NamedTuple, NoReturn

from tokenmill.errors import FormatError
from tokenmill.storage.files import unreadable
from tokenmill.tokenizer.formats import (
    course_files,
    gpt2_files,
    huggingface_json,
    sentencepiece,
    tiktoken_ranks,
)

Kind = Literal["huggingface", "ranks", "gpt2", "course"]
_KNOWN = (
    "tokenmill reads tokenizer.json, tiktoken's ranks, vocab.json with merges.txt, and files of "
    "small trainers (docs/formats.md)"
)
_LOOKED_AT_BYTES = 65_536
_RANK_LINE = re.compile(rb"[A-Za-z0-9+/]+={0,2} \d+\r?(?:\n|$)")
_KEY_WITH_ID = re.compile(rb'\s*\{\s*"(?:[^"\\]|\\.){1,4096}"\s*:\s*-?\d')
# What a folder without tokenizer.json may begin with, the likeliest first.
_ENDINGS = (".tiktoken", "tokenizer.model", "vocab.json", "encoder.json", ".model", ".json")
_NOT_TOKENIZERS = frozenset({"manifest.json", "ranks.json"})


class Found(NamedTuple):
    """`file` is the one to begin with."""

    kind: Kind
    file: Path


def detect(path: Path) -> Found:
    """What `path`, a file or a folder, holds. FormatError if it is nothing we read."""
    if path.is_dir():
        return detect(_in_folder(path))
    path = gpt2_files.first_of_pair(path)
    try:
        with path.open("rb") as file:
            start = file.read(_LOOKED_AT_BYTES)
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise FormatError(
                f"`{path}` does not exist", "pass a tokenizer folder or a tokenizer.json"
            ) from error
        raise FormatError(str(unreadable(path, error))) from error
    return Found(_kind_of(path, start), path)


def _in_folder(folder: Path) -> Path:
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    if huggingface_json.FILE_NAME in names:
        return folder / huggingface_json.FILE_NAME
    for ending in _ENDINGS:
        fitting = [n for n in names if n.endswith(ending) and n not in _NOT_TOKENIZERS]
        if len(fitting) > 1:
            shown = ", ".join(f"`{name}`" for name in fitting[:5])
            raise FormatError(
                f"`{folder}` holds several files to choose from: {shown}", "pass one of them"
            )
        if fitting:
            return folder / fitting[0]
    found = ", ".join(f"`{name}`" for name in names[:5]) or "nothing"
    raise FormatError(f"`{folder}` has no `{huggingface_json.FILE_NAME}`, found {found}", _KNOWN)


def _kind_of(path: Path, start: bytes) -> Kind:
    if course_files.looks_like(start):
        return "course"
    if start.lstrip().startswith(b"{"):
        paired = gpt2_files.second_of_pair(path) is not None and _KEY_WITH_ID.match(start)
        return "gpt2" if paired else "huggingface"
    if path.suffix == Path(tiktoken_ranks.RANKS_FILE_NAME).suffix or _RANK_LINE.match(start):
        return "ranks"
    if path.suffix == ".json":
        return "huggingface"  # whose reader says what is wrong with it
    _refuse(path, start)


def _refuse(path: Path, start: bytes) -> NoReturn:
    if start.startswith(b"GGUF"):
        raise FormatError(f"`{path}` is a GGUF file, which tokenmill writes but does not read")
    if sentencepiece.looks_like(start):
        sentencepiece.refuse(path.read_bytes(), str(path))
    raise FormatError(f"`{path}` is no tokenizer file that is known here", _KNOWN)
