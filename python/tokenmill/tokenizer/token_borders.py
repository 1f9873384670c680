"""Where tokens begin and end in their text: offsets, the first tokens, pieces of so many tokens.

A token may end inside a character. Text that comes as `str` is only ever cut where a token ends and a
character ends too; text that comes as `bytes` is cut where a token ends. With an NFC normalizer all of
this is about the normalized text, which is what the ids spell.
"""

from itertools import pairwise
from typing import TYPE_CHECKING, AnyStr, Literal

from tokenmill import _core
from tokenmill.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection

    import numpy as np
    import numpy.typing as npt

    from tokenmill.tokenizer.token_batch import IdArray

    WhichSpecial = Literal["all"] | Collection[str]

# Lone surrogates of a `str` become ids as the three bytes that would encode them, and back.
_ERRORS = "surrogatepass"


def ids_with_offsets(
    bpe: _core.Bpe,
    text: str | bytes,
    unit: str,
    allowed_special: "WhichSpecial",
    disallowed_special: "WhichSpecial",
) -> "tuple[IdArray, npt.NDArray[np.int64]]":
    """The ids, and for each where it starts and ends, in characters or bytes."""
    import numpy as np

    if unit not in ("chars", "bytes"):
        raise ConfigError(f"unit is `{unit}`, not `chars` or `bytes`")
    ids = bpe.encode_to_array(text, allowed_special, disallowed_special)
    if unit == "chars":
        flat = memoryview(bpe.char_offsets(bpe.decode_bytes(ids), ids))
        return np.asarray(ids), np.frombuffer(flat, np.int64).reshape(-1, 2)
    borders = np.frombuffer(memoryview(bpe.byte_offsets(ids)), np.int64)
    return np.asarray(ids), np.stack((borders[:-1], borders[1:]), axis=1)


def text_of_first(
    bpe: _core.Bpe,
    text: AnyStr,
    max_tokens: int,
    allowed_special: "WhichSpecial",
    disallowed_special: "WhichSpecial",
) -> AnyStr:
    """The text of the first ids of `text`, at most `max_tokens`."""
    _require_number(max_tokens, least=0)
    start, _ = bpe.encode_start(text, max_tokens, allowed_special, disallowed_special)
    if isinstance(text, bytes):
        return bpe.decode_bytes(start)
    return _whole_characters(bpe, memoryview(start).tolist()).decode("utf-8", _ERRORS)


def _whole_characters(bpe: _core.Bpe, ids: list[int]) -> bytes:
    """What `ids` spell, without the last ones if it ends inside a character."""
    data = bpe.decode_bytes(ids)
    while _ends_inside_character(data):
        data = data[: -len(bpe.decode_bytes([ids.pop()]))]
    return data


def _ends_inside_character(start: bytes) -> bool:
    """Whether UTF-8 that was cut somewhere was cut inside a character."""
    for num_bytes, byte in enumerate(reversed(start[-4:]), 1):
        if byte < 0x80:
            return False
        if byte >= 0xC0:
            return num_bytes < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4)
    return False


def pieces(
    bpe: _core.Bpe,
    text: AnyStr,
    max_tokens: int,
    allowed_special: "WhichSpecial",
    disallowed_special: "WhichSpecial",
) -> list[AnyStr]:
    """`text` in pieces of at most `max_tokens` ids, longer only where no character ends in time."""
    _require_number(max_tokens, least=1)
    ids = bpe.encode_to_array(text, allowed_special, disallowed_special)
    data = bpe.decode_bytes(ids)
    if isinstance(text, bytes):
        return [data[start:end] for start, end in pairwise(_cuts(bpe, ids, None, max_tokens))]
    cuts = _cuts(bpe, ids, data, max_tokens)
    return [data[start:end].decode("utf-8", _ERRORS) for start, end in pairwise(cuts)]


def _cuts(bpe: _core.Bpe, ids: _core.Array, utf8: bytes | None, max_tokens: int) -> list[int]:
    """Byte positions to cut at, both ends included. With `utf8`, what `ids` spell, only between its
    characters."""
    import numpy as np

    borders = np.asarray(bpe.byte_offsets(ids))
    num_tokens = len(borders) - 1
    if utf8 is None:
        return [*borders[:-1:max_tokens].tolist(), *borders[-1:].tolist()][not num_tokens :]
    index = np.arange(num_tokens + 1)
    is_cut = np.ones(num_tokens + 1, bool)
    is_cut[:-1] = np.frombuffer(utf8, np.uint8)[borders[:-1]] & 0xC0 != 0x80
    at_or_before = np.maximum.accumulate(np.where(is_cut, index, 0))
    at_or_after = np.minimum.accumulate(np.where(is_cut, index, num_tokens)[::-1])[::-1]
    token, cuts = 0, [0]
    while token < num_tokens:
        end = min(token + max_tokens, num_tokens)
        token = int(at_or_before[end] if at_or_before[end] > token else at_or_after[end])
        cuts.append(int(borders[token]))
    return cuts


def _require_number(max_tokens: int, least: int) -> None:
    if type(max_tokens) is not int or max_tokens < least:
        raise ConfigError(f"max_tokens is `{max_tokens!r}`, not a whole number from {least} on")
