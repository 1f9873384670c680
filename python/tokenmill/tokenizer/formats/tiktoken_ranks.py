"""ranks.tiktoken and ranks.json, for `tiktoken.Encoding`: a Vocab in, two files out, and back.

tiktoken knows no merges. It joins two neighbours whenever their bytes together are a token, lowest
id first, and takes a whole pretoken that is a token at once. Where that would give other ids than
the merges of a vocab do (`Vocab.proof`), no file is better than a file with other ids. The other way
round there are always merges that give tiktoken's ids (docs/formats.md has the argument).
"""

from binascii import b2a_base64
from collections.abc import Mapping, Sequence
from itertools import chain, compress
from pathlib import Path
from typing import NamedTuple

from tokenmill import _core
from tokenmill.errors import ConfigError, FormatError, VocabError
from tokenmill.storage.files import unreadable
from tokenmill.tokenizer.formats.checked_json import dump_json, parse_json
from tokenmill.tokenizer.formats.split_regex import from_tiktoken, tiktoken_spelling
from tokenmill.tokenizer.vocab import Vocab

RANKS_FILE_NAME = "ranks.tiktoken"
SETTINGS_FILE_NAME = "ranks.json"
_NEWLINE_AND_SPACE = bytes.maketrans(b"\n ", b" \n")
# Vocabularies of the world by their number of ranks: only to say what a file without a pattern
# probably is.
_PUBLISHED = {
    50_256: ("GPT-2's or r50k_base", "gpt2"),
    50_280: ("p50k_base", "gpt2"),
    100_256: ("cl100k_base", "cl100k"),
    128_000: ("Llama 3's", "llama3"),
    151_643: ("Qwen's", "qwen2"),
    199_998: ("o200k_base", "gpt4o"),
    200_000: ("Llama 4's", "gpt4o"),
}


def obstacle(vocab: Vocab) -> str | None:
    """Why tiktoken would give other ids than `vocab` does, or None if it gives the same."""
    if vocab.normalizer is not None:
        return "text is normalized to NFC first, and tiktoken does not do that"
    return vocab.proof.difference


def notes(vocab: Vocab) -> list[str]:
    """What tiktoken does differently with text that these files cannot say."""
    found: list[str] = []
    if _core.Splitter(vocab.pattern).name is None:
        found.append(
            f"`{RANKS_FILE_NAME}`: tiktoken drops text that no match of the pattern covers, where "
            "tokenmill and Hugging Face make it a pretoken of its own"
        )
    tokens = list(vocab.special_tokens)
    for token in tokens:
        longer = next((t for t in tokens if t != token and t.startswith(token)), None)
        if longer is not None:
            found.append(
                f"`{RANKS_FILE_NAME}`: where special token `{longer}` stands in a text, tiktoken "
                f"may find `{token}`, which it starts with"
            )
    return found


def write_ranks(vocab: Vocab) -> bytes:
    """The bytes of ranks.tiktoken."""
    ordinary = bytearray(b"\1" * len(vocab.tokens))
    for token_id in (*vocab.special_tokens.values(), *vocab.ids_without_token):
        ordinary[token_id] = 0
    base64 = list(map(b2a_base64, compress(vocab.tokens, ordinary)))
    ids = compress(range(len(vocab.tokens)), ordinary)
    # All in one formatting, which takes half as long as line by line. Base64 comes with a newline at
    # its end: a space stands where the newline should be, and the two change places.
    lines = b"%b%d " * len(base64) % tuple(chain.from_iterable(zip(base64, ids, strict=True)))
    return lines.translate(_NEWLINE_AND_SPACE)


def write(vocab: Vocab) -> dict[str, bytes]:
    """File name → bytes. Ask `obstacle` first; docs/formats.md shows how tiktoken opens them."""
    splitter = _core.Splitter(vocab.pattern)
    settings: dict[str, object] = {
        "name": f"{splitter.name or 'custom'}-{len(vocab.tokens)}",
        # Named patterns are spelled as published, which means the same to both.
        "pat_str": splitter.regex if splitter.name else tiktoken_spelling(splitter.regex),
        "special_tokens": vocab.special_tokens,
    }
    if not vocab.ids_without_token:
        # tiktoken checks this number, and would count an id without a token as an error.
        settings["explicit_n_vocab"] = len(vocab.tokens)
    # Those that the proof read, if it found that they are what they should be.
    ranks = vocab.proof.ranks or write_ranks(vocab)
    return {RANKS_FILE_NAME: ranks, SETTINGS_FILE_NAME: dump_json(settings)}


class Settings(NamedTuple):
    """What a file of ranks does not say itself."""

    pattern: str
    special_tokens: dict[str, int]
    vocab_size: int | None
    """Number of ids, if it says that none is free."""


def read(
    file: Path,
    *,
    pattern: str | None = None,
    special_tokens: Sequence[str] | Mapping[str, int] | None = None,
) -> Vocab:
    """The Vocab of a tiktoken file.

    Pattern and special tokens are those given, else those of a .json of the same name beside it.
    Special tokens given by name alone follow the highest rank.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise FormatError(str(unreadable(file, error))) from error
    beside = file.with_suffix(".json")
    found = None
    if (pattern is None or special_tokens is None) and beside.is_file():
        found = read_settings(beside.read_bytes(), str(beside))
    if pattern is None:
        if found is None:
            raise _without_pattern(file, data)
        pattern = found.pattern
    if special_tokens is None and found is not None:
        try:
            vocab = read_ranks(data, found.special_tokens, pattern, str(file))
        except VocabError as error:
            raise FormatError(f"`{beside}` at `special_tokens`: {error.message}") from None
        num_tokens = sum(1 for token in vocab.tokens if token)
        if found.vocab_size not in (None, num_tokens):
            raise FormatError(
                f"`{file}` and its special tokens are {num_tokens} tokens, but `{beside}` says "
                f"{found.vocab_size}",
                "was the file cut?",
            )
        return vocab
    if not isinstance(special_tokens, Mapping):
        following = sum(1 for line in data.splitlines() if line)
        special_tokens = {t: following + i for i, t in enumerate(special_tokens or ())}
    return read_ranks(data, special_tokens, pattern, str(file))


def _without_pattern(file: Path, data: bytes) -> ConfigError:
    published = _PUBLISHED.get(sum(1 for line in data.splitlines() if line))
    if published is None:
        hint = "pass `pattern=` (`--pattern`) with its name or regex, and `special_tokens=`"
    else:
        name, pattern = published
        hint = (
            f'it has as many ranks as {name}: if it is that, pass `pattern="{pattern}"` '
            f"(`--pattern {pattern}`), and its special tokens"
        )
    return ConfigError(
        f"`{file}` holds ranks only, which say nothing about the split pattern", hint
    )


def read_settings(data: bytes, file: str = SETTINGS_FILE_NAME) -> Settings:
    """The arguments of `tiktoken.Encoding` beside the ranks."""
    place = parse_json(data, file)
    regex = place["pat_str"]
    special = place["special_tokens"]
    size = place.child("explicit_n_vocab")
    return Settings(
        pattern=pattern_from_tiktoken(regex.as_string(), f"`{file}` at `pat_str`"),
        special_tokens={key: special[key].as_integer() for key in special.as_object()},
        vocab_size=None if size.value is None else size.as_integer(),
    )


def pattern_from_tiktoken(regex: str, place: str) -> str:
    """The name of the pattern that tiktoken writes as `regex`, or the regex as we write it."""
    try:
        # Published spellings are known as they stand; only others are read as tiktoken's dialect.
        name = _core.Splitter(regex).name
    except ValueError:
        name = None
    if name is not None:
        return name
    ours = from_tiktoken(regex)
    if ours is None:
        raise FormatError(
            f"{place}: `{regex}` uses sets in sets or word borders that have no equivalent here"
        )
    try:
        return _core.Splitter(ours).name or ours
    except ValueError as error:
        raise FormatError(f"{place}: `{regex}` cannot be used: {error}") from None


def read_ranks(
    data: bytes, special_tokens: Mapping[str, int], pattern: str, file: str = RANKS_FILE_NAME
) -> Vocab:
    """The Vocab of the lines of a tiktoken file."""
    return Vocab(_core.Vocab.read_ranks(data, special_tokens, file=file), pattern)
