"""Files of course projects and other small trainers: a file in, a Vocab out.

Hex merges beside a vocab of byte lists, base64 JSON, minbpe's .model, and rank files that lack the 256
bytes. They carry ids exactly, but most neither the split pattern nor which tokens are special: what
is assumed is logged, and what would have to be guessed is an error. Pickles are refused unopened.
"""

import base64
import binascii
import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tokenmill import _core
from tokenmill.errors import FormatError
from tokenmill.tokenizer.formats.checked_json import Place, parse_json, show_json
from tokenmill.tokenizer.vocab import Origin, Vocab, show, vocab_from_bytes

log = logging.getLogger("tokenmill")

SpecialTokens = Sequence[str] | Mapping[str, int]
Pairs = list[tuple[bytes, bytes]]

# What the systems that write these files split by, whose files do not say it.
_COURSE_PATTERN = "gpt2"
_RANKS_PATTERN = "gpt4"
# minbpe's simplest tokenizer splits nothing: the whole text is one pretoken.
_NO_SPLIT = r"[\s\S]+"

_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_BYTE_LISTS = re.compile(rb'\s*\{\s*"\d+"\s*:\s*\[')
_BASE64_JSON = re.compile(
    rb'\s*\{\s*(?:"vocab"\s*:\s*\{\s*"\d+"\s*:\s*"|"merges"\s*:\s*\[\s*\[\s*"[\w+/=]*"\s*,)'
)
_MINBPE = re.compile(rb"minbpe v\d+\r?\n")
_MINBPE_VOCAB = re.compile(rb"\[\\u0000\] 0\r?\n")
_RANKS_FROM_256 = re.compile(rb"[A-Za-z0-9+/]+=* 256\r?\n")
_LIKE_SPECIAL = re.compile(r"<\|[^|]+\|>|</?[^<>\s]+>|\[[A-Z_]+\]")


def looks_like(data: bytes) -> bool:
    """Whether `read` is the one to open a file with these first bytes; a few hundred are enough."""
    kinds = (_PICKLE, _BYTE_LISTS, _BASE64_JSON, _MINBPE, _MINBPE_VOCAB, _RANKS_FROM_256)
    return any(kind.match(data) for kind in kinds)


def read(
    path: Path, *, special_tokens: SpecialTokens | None = None, pattern: str | None = None
) -> Vocab:
    """The Vocab in the file at `path`.

    `special_tokens` that the file lacks follow its highest id; left out, entries that no merge
    makes and that read like `<|endoftext|>` are special. FormatError naming the place.
    """
    file = str(path)
    data = _bytes_of(path)
    if _PICKLE.match(data):
        _refuse_pickle(file)
    if _MINBPE.match(data):
        return _read_minbpe(data, file, special_tokens, pattern)
    if _MINBPE_VOCAB.match(data):
        raise FormatError(
            f"`{file}` is minbpe's list of tokens for people to read, which cannot be read back",
            f"pass `{path.with_suffix('.model')}`, which minbpe writes beside it",
        )
    if _RANKS_FROM_256.match(data):
        return _read_ranks_without_bytes(data, file, special_tokens, pattern)
    return _read_json(path, data, special_tokens, pattern)


def _read_json(
    path: Path, data: bytes, special_tokens: SpecialTokens | None, pattern: str | None
) -> Vocab:
    """Either of the two that keep tokens and merges apart, as the CS336 course does."""
    file = str(path)
    if _BYTE_LISTS.match(data):
        merges_path = _merges_beside(path)
        tokens, merges = _read_byte_lists(data, file), _read_hex_merges(merges_path)
        merge_of = f"`{merges_path}` line "
    else:
        tokens, merges = _read_base64_json(data, file)
        merge_of = f"`{file}` merge "
    _log_pattern(file, pattern, _COURSE_PATTERN)
    origin = Origin(
        FormatError,
        tokens=f"`{file}`",
        special_tokens=f"`{file}`: ",
        merge=lambda index: f"{merge_of}{index + 1}",
    )
    _refuse_repeats(tokens, file)
    specials = _special_tokens(tokens, merges, special_tokens, file)
    return vocab_from_bytes(tokens, merges, specials, pattern or _COURSE_PATTERN, origin)


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise FormatError(f"`{path}` cannot be read: {error.strerror}") from error


def _refuse_pickle(file: str) -> NoReturn:
    raise FormatError(
        f"`{file}` is a pickle, which runs whatever code is in it when it is opened: nothing is "
        "unpickled here",
        "if you trust it, write its ranks as text and pass that file:\n"
        "  import base64, pickle\n"
        f'  ranks = pickle.load(open({Path(file).name!r}, "rb"))["mergeable_ranks"]\n'
        '  open("ranks.tiktoken", "w").writelines('
        'f"{base64.b64encode(t).decode()} {r}\\n" for t, r in ranks.items())',
    )


def _log_pattern(file: str, pattern: str | None, assumed: str) -> None:
    if pattern is None:
        log.warning("`%s` does not say how to split text: taking `%s`", file, assumed)


# The vocab as {"256": [116, 104]}, the merges as lines of two hex strings.


def _read_byte_lists(data: bytes, file: str) -> dict[int, bytes]:
    place = parse_json(data, file)
    return {
        _id(key, place): _bytes_from_list(Place(value, file, key)) for key, value in _entries(place)
    }


def _entries(place: Place) -> list[tuple[str, Any]]:
    return list(place.as_object().items())


def _id(key: str, place: Place) -> int:
    # `007` beside `7` would be one id twice; longer ones are no ids.
    if not re.fullmatch(r"0|[1-9][0-9]{0,9}", key):
        place.fail(f"key {show_json(key)} is not an id")
    return int(key)


def _bytes_from_list(place: Place) -> bytes:
    values = place.as_list()
    # `bytes` would take true for a 1.
    if all(type(value) is int and 0 <= value < 256 for value in values):
        return bytes(values)
    place.fail(f"{show_json(values)} is not a list of bytes, which run from 0 to 255")


def _merges_beside(path: Path) -> Path:
    """`x_merges.txt` for `x_vocab.json`."""
    head, found, _ = path.name.rpartition("vocab.json")
    beside = path.with_name(f"{head}merges.txt")
    if not found or not beside.is_file():
        raise FormatError(
            f"`{path}` is a vocab without merges"
            + (f", and `{beside}` does not exist" if found else ""),
            "the two belong together as `NAME_vocab.json` and `NAME_merges.txt`",
        )
    return beside


def _read_hex_merges(path: Path) -> Pairs:
    merges: Pairs = []
    for number, line in enumerate(_bytes_of(path).splitlines(), 1):
        parts = line.split(b" ")
        if len(parts) != 2 or not all(re.fullmatch(rb"(?:[0-9a-fA-F]{2})+", p) for p in parts):
            raise FormatError(f"`{path}` line {number} is not two tokens in hex: {show(line[:60])}")
        left, right = (binascii.unhexlify(part) for part in parts)
        merges.append((left, right))
    return merges


# {"vocab": {"256": "dGg="}, "merges": [["dA==", "aA=="]]}


def _read_base64_json(data: bytes, file: str) -> tuple[dict[int, bytes], Pairs]:
    document = parse_json(data, file)
    vocab = document["vocab"]
    tokens = {
        _id(key, vocab): _from_base64(Place(value, file, f"vocab.{key}"))
        for key, value in _entries(vocab)
    }
    merges: Pairs = []
    for place in document["merges"].items():
        parts = list(place.items())
        if len(parts) != 2:
            place.fail(f"expected two tokens, found {show_json(place.value)}")
        merges.append((_from_base64(parts[0]), _from_base64(parts[1])))
    return tokens, merges


def _from_base64(place: Place) -> bytes:
    text = place.as_string()
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:  # binascii's among them
        place.fail(f"{show_json(place.value)} is not base64")


def _refuse_repeats(tokens: Mapping[int, bytes], file: str) -> None:
    id_of: dict[bytes, int] = {}
    for token_id, token in sorted(tokens.items()):
        first = id_of.setdefault(token, token_id)
        if first != token_id:
            raise FormatError(
                f"`{file}` has {show(token)} twice, as ids {first} and {token_id}",
                "two merges of its trainer spell the same bytes; a text would have two sets of ids, "
                "so train again: tokenmill gives such merges one id",
            )


def _special_tokens(
    tokens: Mapping[int, bytes], merges: Pairs, given: SpecialTokens | None, file: str
) -> SpecialTokens:
    """`given`, or what no merge makes; in either case nothing is left that nobody accounts for."""
    made = {left + right for left, right in merges}
    named = {token.encode("utf-8", "surrogatepass") for token in given or ()}
    found: list[str] = []
    for token_id, token in sorted(tokens.items()):
        if len(token) < 2 or token in made or token in named:
            continue
        text = token.decode("utf-8", "replace")
        if given is None and _LIKE_SPECIAL.fullmatch(text):
            found.append(text)
            continue
        raise FormatError(
            f"`{file}`: no merge makes token {token_id}, {show(token)}",
            "is the file with the merges complete? If this is a special token, name it "
            "(`--special`, `special_tokens=`)",
        )
    return found if given is None else given


# minbpe's .model: the pattern, special tokens with ids, and merges as pairs of ids, from line 2 on.


def _read_minbpe(data: bytes, file: str, given: SpecialTokens | None, pattern: str | None) -> Vocab:
    lines = _lines(data, file)
    if lines[0] != "minbpe v1":
        raise FormatError(f"`{file}` is of `{lines[0]}`, only `minbpe v1` is known")
    num_special = _number(lines[2] if len(lines) > 2 else "", 3, file)
    special_lines, merge_lines = lines[3 : 3 + num_special], lines[3 + num_special :]
    if len(special_lines) < num_special:
        raise FormatError(f"`{file}` ends among its {num_special:,} special tokens")
    own: dict[str, int] = {}
    for number, line in enumerate(special_lines, 4):
        text, _, token_id = line.rpartition(" ")
        own[text] = _number(token_id, number, file)
    first_line = 4 + num_special
    tokens, merges = _follow_merges(merge_lines, first_line, file, max_bytes=_token_bytes(data))
    _refuse_repeats(tokens, file)
    origin = Origin(
        FormatError,
        tokens=f"`{file}`",
        special_tokens=f"`{file}`: ",
        merge=lambda index: f"`{file}` line {first_line + index}",
    )
    specials = _with_given(own, given, max([*tokens, *own.values()]) + 1, file)
    return vocab_from_bytes(tokens, merges, specials, pattern or lines[1] or _NO_SPLIT, origin)


def _lines(data: bytes, file: str) -> list[str]:
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise FormatError(f"`{file}` is not UTF-8: bad byte at {error.start}") from None
    return [line.removesuffix("\r") for line in (lines[:-1] if not lines[-1] else lines)]


def _token_bytes(data: bytes) -> int:
    """How much all tokens may spell. Merges of ids can double a token with every line: without a
    bound, a file of a few hundred bytes would ask for all memory there is."""
    return 64 * len(data) + (1 << 24)


def _follow_merges(
    lines: Sequence[str], first_line: int, file: str, *, max_bytes: int
) -> tuple[dict[int, bytes], Pairs]:
    tokens = {byte: bytes([byte]) for byte in range(256)}
    merges: Pairs = []
    total = 0
    for number, line in enumerate(lines, first_line):
        parts = [_number(part, number, file) for part in line.split(" ")]
        if len(parts) != 2:
            raise FormatError(f"`{file}` line {number} is `{line[:60]}`, not two ids")
        if max(parts) not in tokens:
            raise FormatError(
                f"`{file}` line {number} merges id {max(parts)}, which no line before it makes"
            )
        left, right = (tokens[part] for part in parts)
        total += len(left) + len(right)
        if total > max_bytes:
            raise FormatError(f"`{file}` line {number}: the tokens pass {max_bytes:,} bytes")
        merges.append((left, right))
        tokens[len(tokens)] = left + right
    return tokens, merges


def _number(text: str, line: int, file: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10):
        raise FormatError(f"`{file}` line {line}: `{text[:60]}` is not a whole number")
    return int(text)


def _with_given(
    own: dict[str, int], given: SpecialTokens | None, next_id: int, file: str
) -> dict[str, int]:
    """Special tokens of the file, and those `given` beside it."""
    specials = dict(own)
    for token in given or ():
        token_id = given[token] if isinstance(given, Mapping) else own.get(token, next_id)
        if own.get(token, token_id) != token_id:
            raise FormatError(f"`{file}` has `{token}` as id {own[token]}, not {token_id}")
        specials[token] = token_id
        next_id = max(next_id, token_id + 1)
    return specials


# A rank file as tiktoken's, but from rank 256 on: bpetok leaves the 256 bytes out.


def _read_ranks_without_bytes(
    data: bytes, file: str, given: SpecialTokens | None, pattern: str | None
) -> Vocab:
    tokens = [bytes([byte]) for byte in range(256)]
    for number, line in enumerate(data.splitlines(), 1):
        token, _, rank = line.rpartition(b" ")
        if rank != str(len(tokens)).encode():
            raise FormatError(
                f"`{file}` line {number} has rank {show(rank[:20])}, not {len(tokens)}",
                "a file without the 256 single bytes can be read if its ranks run from 256 on",
            )
        tokens.append(_from_base64(Place(token.decode("latin-1"), file, f"line {number}")))
    _refuse_repeats(dict(enumerate(tokens)), file)
    log.warning("`%s` lacks the 256 single bytes: taking them as ids 0 to 255", file)
    _log_pattern(file, pattern, _RANKS_PATTERN)
    specials = _with_given({}, given, len(tokens), file)
    return Vocab(_core.Vocab.from_ranks(tokens, specials), pattern or _RANKS_PATTERN)
