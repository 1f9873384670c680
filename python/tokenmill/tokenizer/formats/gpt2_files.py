"""vocab.json and merges.txt, as GPT-2 was published: a Vocab in, two files out, and back.

They carry neither the split pattern nor which tokens are special. Published pairs hold special tokens
in vocab.json all the same: keys like `<|endoftext|>` that no merge makes.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tokenmill import _core
from tokenmill.errors import FormatError
from tokenmill.storage.files import unreadable
from tokenmill.tokenizer.formats.byte_letters import from_letters
from tokenmill.tokenizer.formats.checked_json import parse_json
from tokenmill.tokenizer.formats.huggingface_json import InLetters, in_letters, letters_by_id
from tokenmill.tokenizer.vocab import Merge, Origin, Vocab, show, vocab_from_ids

VOCAB_FILE_NAME = "vocab.json"
MERGES_FILE_NAME = "merges.txt"
_HEADER = "#version"
_LIKE_SPECIAL = re.compile(r"<.+>|\[[A-Z_]+\]")
# Endings of the two names: as everybody writes them, and as GPT-2 was first published.
_PAIRS = {VOCAB_FILE_NAME: MERGES_FILE_NAME, "encoder.json": "vocab.bpe"}


def write(vocab: Vocab, spelled: InLetters | None = None) -> dict[str, bytes]:
    """File name → bytes. `spelled` is `in_letters` of `vocab`, if the caller has it."""
    spelled = spelled or in_letters(vocab)
    lines = spelled.merges + b"\n" if spelled.merges else b""
    return {
        VOCAB_FILE_NAME: b"{\n  %b\n}\n" % spelled.entries.replace(b"\n", b",\n  "),
        MERGES_FILE_NAME: f"{_HEADER}: 0.2\n".encode() + lines,
    }


def notes(vocab: Vocab, spelled: InLetters | None = None) -> list[str]:
    """What a reader of these files could get wrong."""
    found: list[str] = []
    spelled = spelled or in_letters(vocab)
    start = (b"\n" + spelled.merges).find(f"\n{_HEADER}".encode())
    if start >= 0:
        merge = spelled.merges[start:].partition(b"\n")[0].decode()
        found.append(
            f"`{MERGES_FILE_NAME}`: the merge `{merge}` starts like the header line, and Hugging "
            "Face's reader of this file skips it; tokenizer.json is not affected"
        )
    if vocab.ignore_merges and vocab.core.unreachable():
        token = show(vocab.tokens[vocab.core.unreachable()[0]])
        found.append(
            f"`{MERGES_FILE_NAME}`: it cannot say `ignore_merges`, and no merges lead to {token}"
        )
    if vocab.normalizer is not None:
        found.append(f"`{VOCAB_FILE_NAME}`: it cannot say that text is normalized to NFC first")
    return found


def read(
    file: Path,
    *,
    pattern: str = "gpt2",
    special_tokens: Sequence[str] | Mapping[str, int] | None = None,
) -> Vocab:
    """The Vocab of vocab.json, named by `file`, and of the merges.txt beside it.

    Without `special_tokens` those keys are special that no merge makes and that no token could be
    or that read like `<s>` or `[PAD]`; any other key that no merge makes is an error.
    """
    merges_file = second_of_pair(file) or file.with_name(MERGES_FILE_NAME)
    data, merges_data = _bytes_of(file), _bytes_of(merges_file)
    try:
        core = _read_at_once(data, merges_data, special_tokens)
    except (ValueError, RecursionError):  # ours are ValueErrors, too
        core = None
    if core is not None and core.unordered_merge() is None:
        return Vocab(core, pattern)
    # What is wrong, and in which line, or special tokens that vocab.json has not.
    keys = read_vocab(data, str(file))
    lines = _read_lines(merges_data, str(merges_file))
    merges = _merges_by_ids(lines, keys, str(merges_file))
    if special_tokens is None:
        made = {joined for _, _, joined in merges}
        special_tokens = _find_special_tokens(
            {k: i for k, i in keys.items() if i not in made}, file
        )
    names = set(special_tokens)
    vocab: dict[int, bytes] = {}
    for key, token_id in keys.items():
        if token_id in vocab:
            raise FormatError(f"`{file}`: id {token_id} is given to `{key}` and to another token")
        try:
            vocab[token_id] = key.encode() if key in names else from_letters(key)
        except ValueError as error:
            raise FormatError(f"`{file}`: token {key!r} is not byte-level: {error}") from None
    origin = Origin(
        FormatError,
        tokens=f"`{file}`",
        special_tokens=f"`{file}`: ",
        merge=lambda index: f"`{merges_file}` line {lines[index][0]}",
    )
    return vocab_from_ids(vocab, merges, special_tokens, pattern, origin)


def _read_at_once(
    data: bytes, merges_data: bytes, special_tokens: Sequence[str] | Mapping[str, int] | None
) -> _core.Vocab | None:
    """The two files as the core reads them in a tokenizer.json: a third of the time it takes to look at
    each token here. None, or a ValueError, for what has to be looked at more closely."""
    keys: dict[str, int] = json.loads(data)
    merges = merges_data.decode("utf-8-sig")
    if merges.startswith(_HEADER):
        merges = merges.partition("\n")[2]
    merges = merges.removesuffix("\n")
    is_plain = isinstance(keys, dict) and not isinstance(special_tokens, str)  # pyright: ignore[reportUnnecessaryIsInstance]
    if "\r" in merges or not is_plain:
        return None
    if special_tokens is None:
        made = set(merges.replace(" ", "").split("\n"))
        others = {key: keys[key] for key in keys.keys() - made}
        special_tokens = _find_special_tokens(others, Path(VOCAB_FILE_NAME))
    if any(name not in keys for name in special_tokens):
        return None
    ids = {name: keys[name] for name in special_tokens}
    if len(ids) != len(special_tokens):
        return None
    if isinstance(special_tokens, Mapping) and ids != special_tokens:
        return None
    return _as_tokenizer_json(data, merges.encode()).vocab(ids, ignore_merges=False)


def _as_tokenizer_json(data: bytes, lines: bytes) -> _core.TokenizerModel:
    """vocab.json and the lines of merges.txt as the core reads them in a tokenizer.json. ValueError
    for what it does not take."""
    # Each line becomes a JSON string; a control character in one makes it none, which the core says.
    escaped = lines.replace(b"\\", rb"\\").replace(b'"', rb"\"").replace(b"\n", b'","')
    quoted = b'["%b"]' % escaped if lines else b"[]"
    document = b'{"model":{"vocab":%b,"merges":%b}}' % (data, quoted)
    rest, model = _core.read_tokenizer_json(document, VOCAB_FILE_NAME)
    if json.loads(rest) != {"model": {"vocab": None, "merges": None}}:
        raise ValueError(f"`{VOCAB_FILE_NAME}` closes its object before it ends")
    return model


def difference(files: Mapping[str, bytes], vocab: Vocab) -> tuple[str, str] | None:
    """Which of `files`, read back, differs from `vocab`, and in what; None if neither does."""
    data, merges_data = files[VOCAB_FILE_NAME], files[MERGES_FILE_NAME]
    try:
        header, _, lines = merges_data.partition(b"\n")
        model = _as_tokenizer_json(data, lines.removesuffix(b"\n"))
        read = model.vocab(vocab.special_tokens, ignore_merges=vocab.ignore_merges)
        if header.startswith(_HEADER.encode()) and read == vocab.core:
            return None
    except ValueError:  # ours are ValueErrors, too
        pass
    # Which of the two it is, is found one by one.
    keys = {key: i for i, key in enumerate(letters_by_id(vocab)) if key}
    try:
        same_keys = read_vocab(data) == keys
    except FormatError:
        same_keys = False
    return (MERGES_FILE_NAME, "merges") if same_keys else (VOCAB_FILE_NAME, "tokens")


def _merges_by_ids(
    lines: Sequence[tuple[int, str, str]], keys: Mapping[str, int], file: str
) -> list[Merge]:
    merges: list[Merge] = []
    for number, left, right in lines:
        try:
            merges.append((keys[left], keys[right], keys[left + right]))
        except KeyError as error:
            parts = _merge_by_bytes(number, left, right, file)
            joins = f"`{file}` line {number} joins {show(parts[0])} and {show(parts[1])}"
            unknown = show(from_letters(error.args[0]))
            raise FormatError(f"{joins}, but {unknown} is not in the vocab") from None
    return merges


def _find_special_tokens(not_made: Mapping[str, int], file: Path) -> dict[str, int]:
    """Of the tokens that no merge makes, those that are no bytes."""
    others = {key: i for key, i in not_made.items() if not _is_byte(key)}
    for key in others:
        if not _is_special(key):
            raise FormatError(
                f"`{file}` has {key!r}, which no merge of `{second_of_pair(file)}` makes",
                "was the file cut? a special token has to be named in `special_tokens`",
            )
    return others


def _is_byte(key: str) -> bool:
    return len(key) == 1 and not _is_special(key)


def _is_special(key: str) -> bool:
    try:
        from_letters(key)
    except ValueError:
        return True
    return _LIKE_SPECIAL.fullmatch(key) is not None


def first_of_pair(path: Path) -> Path:
    """The file of tokens that belongs to a file of merges; any other path as it is."""
    for first, second in _PAIRS.items():
        if path.name.endswith(second):
            return path.with_name(path.name.removesuffix(second) + first)
    return path


def second_of_pair(path: Path) -> Path | None:
    """The file of merges that belongs to a file of tokens, whether it is there or not."""
    for first, second in _PAIRS.items():
        if path.name.endswith(first):
            return path.with_name(path.name.removesuffix(first) + second)
    return None


def _bytes_of(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise FormatError(str(unreadable(file, error))) from error


def read_vocab(data: bytes, file: str = VOCAB_FILE_NAME) -> dict[str, int]:
    """Key → id, special tokens among them."""
    place = parse_json(data, file)
    vocab = place.as_object()
    for key, token_id in vocab.items():
        if type(token_id) is not int:
            place.fail(f"the id of `{key}` is `{token_id}`, not a whole number")
    return vocab


def read_merges(data: bytes, file: str = MERGES_FILE_NAME) -> list[tuple[bytes, bytes]]:
    """The merges in rank order."""
    return [_merge_by_bytes(*line, file) for line in _read_lines(data, file)]


def _read_lines(data: bytes, file: str) -> list[tuple[int, str, str]]:
    """(line number, left part, right part) of every merge."""
    try:
        lines = data.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise FormatError(f"`{file}` is not UTF-8: bad byte at {error.start}") from None
    merges: list[tuple[int, str, str]] = []
    first = 1 if lines[0].startswith(_HEADER) else 0
    for number, line in enumerate(lines[first:], first + 1):
        if not line and number == len(lines):
            continue
        parts = line.removesuffix("\r").split(" ")
        if len(parts) != 2:
            shown = line if len(line) <= 60 else f"{line[:60]}…"
            raise FormatError(f"`{file}` line {number} is `{shown}`, not two tokens")
        merges.append((number, parts[0], parts[1]))
    return merges


def _merge_by_bytes(number: int, left: str, right: str, file: str) -> tuple[bytes, bytes]:
    try:
        return from_letters(left), from_letters(right)
    except ValueError as error:
        raise FormatError(f"`{file}` line {number} is not byte-level: {error}") from None
