"""tokenizer.json, as Hugging Face's tokenizers writes it: a Vocab in, bytes out, and back.

The bytes are those that tokenizers itself would save. Files written by others are read as long as
they use only what a byte-level BPE needs; any other part is refused by its name, because leaving it
out would give other ids in silence.
"""

from collections.abc import Mapping
from typing import Any, cast

from tokenmill import _core
from tokenmill.errors import FormatError, VocabError
from tokenmill.tokenizer.formats.byte_letters import from_letters, to_letters
from tokenmill.tokenizer.formats.checked_json import (
    Place,
    dump_json,
    parse_json,
    quote_all,
    show_json,
)
from tokenmill.tokenizer.formats.split_regex import means_the_same_to_both, oniguruma_spelling
from tokenmill.tokenizer.vocab import Origin, Vocab, vocab_from_bytes

FILE_NAME = "tokenizer.json"
_BYTE_LEVEL = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": True,
}
# What a byte-level BPE says about each of these; anything else changes ids.
_MODEL_PARTS: dict[str, object] = {
    "dropout": None,
    "unk_token": None,
    "continuing_subword_prefix": None,
    "end_of_word_suffix": None,
    "fuse_unk": False,
    "byte_fallback": False,
    "ignore_merges": False,
}
_ADDED_TOKEN_PARTS: dict[str, object] = {
    "single_word": False,
    "lstrip": False,
    "rstrip": False,
    "normalized": False,
    "special": True,
}


def letters_by_id(vocab: Vocab) -> list[str]:
    """Each id's key in tokenizer.json and vocab.json: letters, and special tokens as they are.

    VocabError where a special token reads like another token's letters: a key has one id.
    """
    special = {token_id: token for token, token_id in vocab.special_tokens.items()}
    keys = [
        special.get(token_id) or to_letters(token) for token_id, token in enumerate(vocab.tokens)
    ]
    id_of: dict[str, int] = {}
    for token_id, key in enumerate(keys):
        if id_of.setdefault(key, token_id) != token_id:
            raise VocabError(
                f"special token `{key}` is also how Hugging Face spells the bytes of token "
                f"{id_of[key] if token_id in special else token_id}",
                "choose a longer special token, such as `<|name|>`",
            )
    return keys


def notes(vocab: Vocab) -> list[str]:
    """What could make Hugging Face split a text differently."""
    spelling = oniguruma_spelling(_core.Splitter(vocab.pattern).regex)
    return [f"`{FILE_NAME}`: {note}" for note in spelling.notes]


def write(vocab: Vocab) -> bytes:
    """The bytes of tokenizer.json."""
    keys = letters_by_id(vocab)
    document: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": token_id, "content": token, **_ADDED_TOKEN_PARTS}
            for token, token_id in vocab.special_tokens.items()
        ],
        "normalizer": None,
        "pre_tokenizer": _pre_tokenizer(vocab.pattern),
        "post_processor": None,
        "decoder": {**_BYTE_LEVEL, "add_prefix_space": True},
        "model": {
            "type": "BPE",
            **_MODEL_PARTS,
            "vocab": {},
            "merges": [],
        },
    }
    # The two long parts are put in by hand: json indents in Python, seconds for a large vocab.
    quoted = quote_all(keys)
    entries = ",\n".join(f"      {key}: {token_id}" for token_id, key in enumerate(quoted))
    merges = ",\n".join(
        f"      [\n        {quoted[left]},\n        {quoted[right]}\n      ]"
        for left, right, _ in vocab.merges
    )
    text = dump_json(document).decode().rstrip("\n")
    text = text.removesuffix('"vocab": {},\n    "merges": []\n  }\n}')
    text += f'"vocab": {{\n{entries}\n    }},\n    "merges": '
    return (text + (f"[\n{merges}\n    ]" if merges else "[]") + "\n  }\n}").encode()


def _pre_tokenizer(pattern: str) -> dict[str, Any]:
    # GPT-2's regex is built into ByteLevel; gigatoken and llama.cpp know it in that form only.
    if pattern == "gpt2":
        return dict(_BYTE_LEVEL)
    split = {
        "type": "Split",
        "pattern": {"Regex": oniguruma_spelling(_core.Splitter(pattern).regex).regex},
        "behavior": "Isolated",
        "invert": False,
    }
    byte_level = {**_BYTE_LEVEL, "use_regex": False}
    return {"type": "Sequence", "pretokenizers": [split, byte_level]}


def read(data: bytes, file: str = FILE_NAME, *, pattern: str | None = None) -> Vocab:
    """The Vocab in `data`; `file` is its name in messages.

    The file cannot tell apart two patterns of one regex, and spells some regexes differently: who
    knows the `pattern` from elsewhere gives it, and the file must say the same.
    """
    document = parse_json(data, file)
    model = document["model"]
    for part in ("truncation", "padding", "normalizer"):
        _refuse_unless(document.child(part), None)
    _refuse_unless(model.child("type"), "BPE")
    for part, value in _MODEL_PARTS.items():
        # Left out, as old files do, means the same as said.
        if part in model:
            _refuse_unless(model[part], value, *_harmless(part))
    _check_byte_level_end(document)
    special_tokens = _read_added_tokens(document.child("added_tokens"))
    vocab = _read_vocab(model["vocab"], special_tokens)
    merges = _read_merges(model["merges"], vocab)
    origin = Origin(
        FormatError,
        tokens=f"`{file}` at `model.vocab`",
        special_tokens=f"`{file}` at `added_tokens`: ",
        merge=lambda index: f"`{file}` at `model.merges[{index}]`",
    )
    if pattern is None:
        pattern = _read_pattern(document["pre_tokenizer"])
    elif document["pre_tokenizer"].value != _pre_tokenizer(pattern):
        document["pre_tokenizer"].fail(f"this is not how the pattern `{pattern}` is written")
    return vocab_from_bytes(vocab, merges, special_tokens, pattern, origin)


def _harmless(part: str) -> tuple[object, ...]:
    """Other values of `part` that cannot change an id."""
    # An empty prefix joins nothing, and without an unknown token there is nothing to fuse.
    return {
        "continuing_subword_prefix": ("",),
        "end_of_word_suffix": ("",),
        "fuse_unk": (True,),
        "dropout": (0, 0.0),
    }.get(part, ())


def _refuse_unless(place: Place, *accepted: object) -> None:
    if place.value not in accepted:
        place.fail(
            f"{show_json(place.value)} is not supported, only {show_json(accepted[0])}",
            "tokenmill reads byte-level BPE; this part would give other ids",
        )


def _check_byte_level_end(document: Place) -> None:
    """Refuse a decoder or post-processor that does more than turn letters back into bytes."""
    decoder = document.child("decoder")
    if decoder.value is not None:
        _refuse_unless(decoder["type"], "ByteLevel")
    post_processor = document.child("post_processor")
    if post_processor.value is not None:
        _refuse_unless(post_processor["type"], "ByteLevel")


def _read_added_tokens(added_tokens: Place) -> dict[str, int]:
    special_tokens: dict[str, int] = {}
    for added in () if added_tokens.value is None else added_tokens.items():
        content = added["content"].as_string()
        for part, value in _ADDED_TOKEN_PARTS.items():
            # No normalizer is accepted, so `normalized` cannot matter.
            if part in added and part != "normalized":
                _refuse_unless(added[part], value)
        if content in special_tokens:
            added.fail(f"special token `{content}` stands here a second time")
        special_tokens[content] = added["id"].as_integer()
    return special_tokens


def _read_vocab(place: Place, special_tokens: Mapping[str, int]) -> dict[int, bytes]:
    """id → bytes. Keys are letters, except for special tokens, which stand as they are."""
    vocab: dict[int, bytes] = {}
    for key, token_id in place.as_object().items():
        if type(token_id) is not int:
            place.fail(f"the id of `{key}` is {show_json(token_id)}, not a whole number")
        if token_id in vocab:
            place.fail(f"id {token_id} is given to `{key}` and to another token")
        if key in special_tokens:
            if special_tokens[key] != token_id:
                place.fail(
                    f"`{key}` has id {token_id} here and {special_tokens[key]} in `added_tokens`"
                )
            vocab[token_id] = key.encode("utf-8", "surrogatepass")
            continue
        try:
            vocab[token_id] = from_letters(key)
        except ValueError as error:
            place.fail(f"token `{key}` is not byte-level: {error}")
    return vocab


def _read_merges(place: Place, vocab: Mapping[int, bytes]) -> list[tuple[bytes, bytes]]:
    token_of = {to_letters(token): token for token in vocab.values()}
    merges: list[tuple[bytes, bytes]] = []
    for index, value in enumerate(place.as_list()):
        # Nearly every merge is two known tokens; whatever else it may be is looked at closely.
        parts = cast(list[Any], value) if type(value) is list else []
        try:
            left, right = parts
            merges.append((token_of[left], token_of[right]))
        except (KeyError, TypeError, ValueError):
            merges.append(_read_merge(Place(value, place.file, f"{place.path}[{index}]")))
    return merges


def _read_merge(place: Place) -> tuple[bytes, bytes]:
    # Old files write a merge as one string; no letter is a space, so a space is the border.
    is_string = isinstance(place.value, str)
    parts = place.as_string().split(" ") if is_string else [p.value for p in place.items()]
    if [type(part) for part in parts] != [str, str]:
        place.fail(f"expected two tokens, found {show_json(place.value)}")
    try:
        return from_letters(parts[0]), from_letters(parts[1])
    except ValueError as error:
        place.fail(f"{show_json(place.value)} is not byte-level: {error}")


def _read_pattern(pre_tokenizer: Place) -> str:
    if pre_tokenizer["type"].value == "ByteLevel":
        _refuse_unless(pre_tokenizer["add_prefix_space"], False)
        if "use_regex" in pre_tokenizer:
            _refuse_unless(pre_tokenizer["use_regex"], True)
        return "gpt2"
    _refuse_unless(pre_tokenizer["type"], "Sequence")
    steps = list(pre_tokenizer["pretokenizers"].items())
    if [step["type"].value for step in steps] != ["Split", "ByteLevel"]:
        found = [step["type"].value for step in steps]
        pre_tokenizer.fail(f"the steps {show_json(found)} are not supported, only Split, ByteLevel")
    split, byte_level = steps
    _refuse_unless(split["behavior"], "Isolated")
    _refuse_unless(split["invert"], False)
    _refuse_unless(byte_level["add_prefix_space"], False)
    _refuse_unless(byte_level["use_regex"], False)
    return _read_regex(split["pattern"]["Regex"])


def _read_regex(place: Place) -> str:
    regex = place.as_string()
    if not means_the_same_to_both(regex):
        place.fail(
            f"`{regex}` uses `$`, `^`, `{{…}}+` or flags that mean something else to Hugging Face",
            "only a folder with tokenmill's manifest can say what is meant",
        )
    try:
        return _core.Splitter(regex).name or regex
    except ValueError as error:
        place.fail(f"`{regex}` cannot be used: {error}")
