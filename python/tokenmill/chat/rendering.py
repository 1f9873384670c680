"""Messages to ids, mask and text in plain Python: what a template means, written to be read.

The core renders rows many times faster and must agree with this; the property tests hold them
together. What always holds: contents are encoded as ordinary text, so the only special ids are those
of the template, and the mask is made as the ids are.
"""

import os
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from tokenmill.chat.messages import Message, Turn, turns_of
from tokenmill.chat.profile_file import find_profile
from tokenmill.chat.profiles import Profile
from tokenmill.errors import ConfigError
from tokenmill.tokenizer.tokenizer import Tokenizer


class Rendered(NamedTuple):
    """A conversation as ids, a mask of the same length (1 is trained on), and as text."""

    ids: list[int]
    mask: list[int]
    text: str


class Part(NamedTuple):
    """Some text of a rendered conversation."""

    text: str
    is_special: bool
    is_trained: bool


def render(
    tokenizer: Tokenizer,
    profile: str | os.PathLike[str] | Profile,
    messages: Sequence[Message],
    *,
    add_generation_prompt: bool = False,
) -> Rendered:
    """`messages` by the template of `profile`.

    With `add_generation_prompt` the result ends with what opens a turn of the assistant: the prompt
    of a model that is to answer. ConfigError if the tokenizer lacks special tokens of the profile;
    `prepare_tokenizer` adds them.
    """
    profile = find_profile(profile)
    require_special_tokens(tokenizer, profile)
    parts = list(parts_of(turns_of(messages, profile), profile))
    if add_generation_prompt:
        opening = profile.pieces(profile.roles["assistant"].before)
        parts += [Part(piece.text, piece.is_special, is_trained=False) for piece in opening]
    return Rendered(*encode_parts(tokenizer, parts), "".join(part.text for part in parts))


def require_special_tokens(tokenizer: Tokenizer, profile: Profile) -> None:
    """ConfigError if the tokenizer lacks special tokens of the profile, or has others in its text."""
    known = tokenizer.special_tokens
    missing = [token for token in profile.special_tokens if token not in known]
    if missing:
        listed = ", ".join(f"`{token}`" for token in missing)
        raise ConfigError(
            f"profile `{profile.name}` needs the special tokens {listed}, which the tokenizer lacks",
            "`prepare_tokenizer` makes a tokenizer that has them",
        )
    bpe = tokenizer._bpe  # pyright: ignore[reportPrivateUsage]
    around = [text for role in profile.roles.values() for text in (role.before, role.after)]
    for text in (profile.bos, *around):
        for piece in profile.pieces(text):
            found = [] if piece.is_special else bpe.find_special(piece.text)
            if found:
                raise ConfigError(
                    f"profile `{profile.name}` has `{found[0]}` as text, which is a special token "
                    "of the tokenizer",
                    "add it to `special_tokens` of the profile",
                )


def parts_of(turns: Sequence[Turn], profile: Profile) -> Iterator[Part]:
    """What a conversation is made of, in order."""
    for piece in profile.pieces(profile.bos):
        yield Part(piece.text, piece.is_special, is_trained=False)
    for name, content in turns:
        role = profile.roles[name]
        for piece in profile.pieces(role.before):
            yield Part(piece.text, piece.is_special, is_trained=False)
        yield Part(content, is_special=False, is_trained=role.trained)
        trained = profile.num_trained_after(role)
        for index, piece in enumerate(profile.pieces(role.after)):
            yield Part(piece.text, piece.is_special, is_trained=index < trained)


def encode_parts(tokenizer: Tokenizer, parts: Sequence[Part]) -> tuple[list[int], list[int]]:
    """The ids of `parts`, and which are trained on. Texts that touch are encoded as one."""
    ids: list[int] = []
    mask: list[int] = []
    for is_special, group in groupby(parts, key=lambda part: part.is_special):
        run = list(group)
        if is_special:
            ids += [tokenizer.special_tokens[part.text] for part in run]
            mask += [int(part.is_trained) for part in run]
        else:
            new = tokenizer.encode_ordinary("".join(part.text for part in run))
            ids += new
            mask += _mask_of(tokenizer, new, run)
    return ids, mask


def _mask_of(tokenizer: Tokenizer, ids: Sequence[int], run: Sequence[Part]) -> list[int]:
    """1 for each token that has a part in trained text."""
    if len({part.is_trained for part in run if part.text}) < 2:
        return [int(any(part.is_trained for part in run if part.text))] * len(ids)
    trained = _trained_bytes(tokenizer, run)
    mask: list[int] = []
    at = 0
    for token_id in ids:
        end = at + len(tokenizer.token_bytes(token_id))
        mask.append(int(any(trained[at:end])))
        at = end
    return mask


def _trained_bytes(tokenizer: Tokenizer, run: Sequence[Part]) -> bytearray:
    """For each byte that the ids of `run` spell, whether it is of trained text."""
    if tokenizer.normalizer is None:
        return bytearray(
            part.is_trained for part in run for _ in part.text.encode("utf-8", "surrogatepass")
        )
    text = "".join(part.text for part in run)
    trained = bytearray(len(_normalized(tokenizer, text).encode()))
    start = 0
    for part in run:
        end = start + len(part.text)
        if part.is_trained and part.text:
            first, last = _span_after_normalizing(tokenizer, text, start, end)
            trained[first:last] = b"\1" * (last - first)
        start = end
    return trained


def _span_after_normalizing(
    tokenizer: Tokenizer, text: str, start: int, end: int
) -> tuple[int, int]:
    """Where `text[start:end]` is in the normalized bytes. A character that was composed across an
    edge is inside."""
    whole = _normalized(tokenizer, text)
    before = _normalized(tokenizer, text[:start])
    after = _normalized(tokenizer, text[end:])
    first = _num_shared(before, whole)
    last = len(whole) - _num_shared(after[::-1], whole[::-1])
    return len(whole[:first].encode()), len(whole[: max(first, last)].encode())


def _num_shared(one: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _normalized(tokenizer: Tokenizer, text: str) -> str:
    return tokenizer._bpe.normalize(text).decode()  # pyright: ignore[reportPrivateUsage]
