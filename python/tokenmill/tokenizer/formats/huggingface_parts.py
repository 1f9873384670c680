"""The short parts of a tokenizer.json that others wrote, and what they mean for ids.

Accepted is what byte-level BPE needs and what cannot change an id; any other part is refused by its
name, because leaving it out would give other ids in silence.
"""

import unicodedata
from functools import cache
from typing import Any, Literal, NamedTuple, NoReturn

from tokenmill import _core
from tokenmill.tokenizer.formats.checked_json import Place, show_json
from tokenmill.tokenizer.formats.split_regex import from_oniguruma, oniguruma_spelling

_MOST_COMPARISONS = 1_000_000
_HINT = "tokenmill reads byte-level BPE; this part would give other ids"


def refuse(place: Place, only: str) -> NoReturn:
    place.fail(f"{show_json(place.value)} is not supported, only {only}", _HINT)


def refuse_unless(place: Place, *accepted: object) -> None:
    # By type as well: false equals 0, and true equals 1.
    if not any(type(place.value) is type(one) and place.value == one for one in accepted):
        refuse(place, show_json(accepted[0]))


def check_model(model: Place) -> bool:
    """Refuse a model that is not plain BPE. Gives `ignore_merges`."""
    # Old files do not name the type; a list for a vocab, as of Unigram, is refused by the core.
    refuse_unless(model.child("type"), "BPE", None)
    for part in ("continuing_subword_prefix", "end_of_word_suffix"):
        refuse_unless(model.child(part), None, "")
    dropout = model.child("dropout")
    if dropout.value is not None and dropout.value != 0:
        refuse(dropout, "`null`")
    # An unknown token, fused or as bytes, stands for letters the vocab lacks. Ours lacks none.
    ignore_merges = model.child("ignore_merges")
    refuse_unless(ignore_merges, False, True, None)
    return ignore_merges.value is True


def read_normalizer(place: Place) -> Literal["nfc"] | None:
    """NFC or nothing, also as a sequence of that."""
    if place.value is None:
        return None
    kind = place["type"]
    if kind.value == "Sequence":
        found = [read_normalizer(step) for step in place["normalizers"].items()]
        return "nfc" if "nfc" in found else None
    refuse_unless(kind, "NFC")
    return "nfc"


def check_decoder(place: Place) -> None:
    if place.value is not None:
        refuse_unless(place["type"], "ByteLevel")


def read_post_processor(place: Place) -> Any:
    """The JSON value, once it is of a kind that `tokenmill.compat` can apply."""
    if place.value is None:
        return None
    kind = place["type"]
    if kind.value == "Sequence":
        for step in place["processors"].items():
            read_post_processor(step)
    elif kind.value == "TemplateProcessing":
        for template in ("single", "pair"):
            place[template].as_list()
        place["special_tokens"].as_object()
    elif kind.value != "ByteLevel":
        refuse(kind, "`ByteLevel`, `TemplateProcessing` and `Sequence`")
    return place.value


class AddedTokens(NamedTuple):
    """`ids` in the order of the file, which decides ids that `model.vocab` does not give."""

    ids: dict[str, int]
    not_special: frozenset[str]


def read_added_tokens(place: Place, normalizer: str | None) -> AddedTokens:
    ids: dict[str, int] = {}
    not_special: set[str] = set()
    normalized: dict[str, Place] = {}
    for added in () if place.value is None else place.items():
        content = added["content"]
        token = content.as_string()
        if not token:
            added.fail("a special token is the empty string")
        try:
            token.encode()
        except UnicodeEncodeError:
            added.fail(f"special token {token!r} holds half of a surrogate pair")
        for part in ("single_word", "lstrip", "rstrip"):
            refuse_unless(added.child(part), False, None)
        for part in ("special", "normalized"):
            refuse_unless(added.child(part), True, False, None)
        if token in ids:
            added.fail(f"special token `{token}` stands here a second time")
        ids[token] = added["id"].as_integer()
        if added.child("special").value is not True:
            not_special.add(token)
        if added.child("normalized").value is True:
            normalized[token] = added["normalized"]
    _check_normalized(normalized, ids, normalizer)
    return AddedTokens(ids, frozenset(not_special))


def _check_normalized(
    normalized: dict[str, Place], ids: dict[str, int], normalizer: str | None
) -> None:
    """`normalized` tokens are looked for after the others, and in normalized text: refuse where that
    finds others than looking for all of them at once in the text itself."""
    for token, place in normalized.items():
        if normalizer is not None and unicodedata.normalize("NFC", token) != token:
            place.fail(f"special token `{token}` is not in form NFC, so normalizing changes it")
    if len(normalized) in (0, len(ids)):
        return
    others = [token for token in ids if token not in normalized]
    if len(others) * len(normalized) > _MOST_COMPARISONS:
        place = next(iter(normalized.values()))
        place.fail("too many special tokens of both kinds to rule out that some overlap", _HINT)
    starts = {start for other in others for start in _starts(other)}
    ends = {end for other in others for end in _ends(other)}
    for token, place in normalized.items():
        inside = any(other in token or token in other for other in others)
        if inside or not (ends.isdisjoint(_starts(token)) and starts.isdisjoint(_ends(token))):
            place.fail(
                f"`true` is not supported for `{token}`, which can overlap a special token with "
                "`normalized: false`",
                _HINT,
            )


def _starts(token: str) -> list[str]:
    # Nobody's special token is longer, and comparing all of a megabyte takes for ever.
    return [token[:length] for length in range(1, min(len(token), 1000) + 1)]


def _ends(token: str) -> list[str]:
    return [token[-length:] for length in range(1, min(len(token), 1000) + 1)]


def read_pattern(pre_tokenizer: Place) -> str:
    """The split pattern: its name, or the regex as we write it."""
    steps = _steps(pre_tokenizer)
    kinds = [step["type"].value for step in steps]
    if kinds not in (["ByteLevel"], ["Split", "ByteLevel"]):
        where = pre_tokenizer["type"] if len(kinds) == 1 else pre_tokenizer
        where.fail(
            f"the steps {show_json(kinds)} are not supported, only Split, ByteLevel and ByteLevel",
            _HINT,
        )
    byte_level = steps[-1]
    refuse_unless(byte_level["add_prefix_space"], False)
    if len(steps) == 1:
        refuse_unless(byte_level.child("use_regex"), True, None)
        return "gpt2"
    # Left out it means true: each piece would be split again.
    refuse_unless(byte_level["use_regex"], False)
    return _read_split(steps[0])


def _steps(pre_tokenizer: Place) -> list[Place]:
    if pre_tokenizer["type"].value != "Sequence":
        return [pre_tokenizer]
    return [step for part in pre_tokenizer["pretokenizers"].items() for step in _steps(part)]


def _read_split(split: Place) -> str:
    pattern = _read_regex(split["pattern"]["Regex"])
    behavior, invert = split["behavior"], split["invert"]
    refuse_unless(invert, False, True)
    # What lies between matches becomes a piece, too; upside down that is the same pieces.
    if behavior.value == "Isolated":
        return pattern
    # Matches are kept and the rest is dropped: the same where there is no rest.
    if (behavior.value, invert.value) != ("Removed", True):
        refuse(behavior, '`"Isolated"`')
    if _core.Splitter(pattern).name is None:
        refuse(behavior, '`"Isolated"` for a regex that may leave text between its matches')
    return pattern


@cache
def _names_of_spellings() -> dict[str, str]:
    """How we write each named pattern for Hugging Face → its name."""
    return {oniguruma_spelling(regex).regex: name for name, regex in _named()}


def _named() -> list[tuple[str, str]]:
    # Of two names for one regex the one that the core gives it.
    return [
        (name, regex)
        for name, regex in _core.named_patterns().items()
        if _core.Splitter(regex).name == name
    ]


def _read_regex(place: Place) -> str:
    regex = place.as_string()
    if regex in _names_of_spellings():
        return _names_of_spellings()[regex]
    ours = from_oniguruma(regex)
    if ours is None:
        place.fail(
            f"`{regex}` uses `$`, `^`, `{{…}}+`, sets in sets or flags that mean something else to "
            "Hugging Face",
            "only a folder with tokenmill's manifest can say what is meant",
        )
    try:
        return _core.Splitter(ours).name or ours
    except ValueError as error:
        place.fail(f"`{regex}` cannot be used: {error}")
