"""tokenizer.json, as Hugging Face's tokenizers writes it: a Vocab in, bytes out, and back.

The bytes are those that tokenizers itself would save. Files written by others are read as long as
they use only what a byte-level BPE needs (`huggingface_parts`). The two long parts, `model.vocab` and
`model.merges`, are read by the core.
"""

from dataclasses import dataclass
from itertools import chain, compress
from typing import Any

from tokenmill import _core
from tokenmill.errors import FormatError, VocabError
from tokenmill.tokenizer.formats import huggingface_parts as parts
from tokenmill.tokenizer.formats.byte_letters import all_to_letters, from_letters
from tokenmill.tokenizer.formats.checked_json import Place, dump_json, parse_json, quote_all
from tokenmill.tokenizer.formats.split_regex import oniguruma_spelling
from tokenmill.tokenizer.vocab import Extras, Origin, Vocab, check_merge_order

FILE_NAME = "tokenizer.json"
_BYTE_LEVEL = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": True,
}
_MODEL_PARTS: dict[str, object] = {
    "dropout": None,
    "unk_token": None,
    "continuing_subword_prefix": None,
    "end_of_word_suffix": None,
    "fuse_unk": False,
    "byte_fallback": False,
}
_ADDED_TOKEN_PARTS: dict[str, object] = {
    "single_word": False,
    "lstrip": False,
    "rstrip": False,
    "normalized": False,
}


def letters_by_id(vocab: Vocab) -> list[str]:
    """Each id's key in tokenizer.json and vocab.json: letters, and special tokens as they are.

    An id without a token has an empty one. VocabError where a special token reads like another
    token's letters: a key has one id.
    """
    keys = all_to_letters(vocab.tokens)
    for token, token_id in vocab.special_tokens.items():
        same = _spelled_by(token, vocab)
        if same is not None:
            raise VocabError(
                f"special token `{token}` is also how Hugging Face spells the bytes of token {same}",
                "choose a longer special token, such as `<|name|>`",
            )
        keys[token_id] = token
    return keys


def _spelled_by(letters: str, vocab: Vocab) -> int | None:
    """The id of the ordinary token of these letters. Letters spell one token, so no two ids share a
    key unless one is special."""
    try:
        return vocab.core.token_id(from_letters(letters))
    except ValueError:
        return None


@dataclass(frozen=True)
class InLetters:
    """The two long parts of a vocab in letters, in UTF-8, for all files that have them."""

    entries: bytes
    """A line `"key": id` for each id that has a token, in id order. No newline ends the last."""
    merges: bytes
    """A line for each merge, its parts with a space between them."""


def in_letters(vocab: Vocab) -> InLetters:
    """VocabError as `letters_by_id`."""
    keys = letters_by_id(vocab)
    merges = "\n".join([f"{keys[left]} {keys[right]}" for left, right, _ in vocab.merges])
    return InLetters(_entries(keys, vocab), merges.encode())


def _entries(keys: list[str], vocab: Vocab) -> bytes:
    has_token = bytearray(b"\1" * len(keys))
    for token_id in vocab.ids_without_token:
        has_token[token_id] = 0
    quoted = quote_all(list(compress(keys, has_token)))
    ids = compress(range(len(keys)), has_token)
    # All in one formatting: loops of Python's own were most of what saving a vocab took.
    lines = "%s: %d\n" * len(quoted) % tuple(chain.from_iterable(zip(quoted, ids, strict=True)))
    return lines.removesuffix("\n").encode()


def notes(vocab: Vocab) -> list[str]:
    """What could make Hugging Face split a text differently."""
    spelling = oniguruma_spelling(_core.Splitter(vocab.pattern).regex)
    return [f"`{FILE_NAME}`: {note}" for note in spelling.notes]


def write(vocab: Vocab, spelled: InLetters | None = None) -> bytes:
    """The bytes of tokenizer.json. `spelled` is `in_letters` of `vocab`, if the caller has it."""
    spelled = spelled or in_letters(vocab)
    document: dict[str, Any] = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": token_id,
                "content": token,
                **_ADDED_TOKEN_PARTS,
                "special": token not in vocab.extras.not_special,
            }
            for token, token_id in vocab.special_tokens.items()
        ],
        "normalizer": None if vocab.normalizer is None else {"type": vocab.normalizer.upper()},
        "pre_tokenizer": _pre_tokenizer(vocab.pattern),
        "post_processor": vocab.extras.post_processor,
        "decoder": {**_BYTE_LEVEL, "add_prefix_space": True},
        "model": {
            "type": "BPE",
            **_MODEL_PARTS,
            "ignore_merges": vocab.ignore_merges,
            "vocab": {},
            "merges": [],
        },
    }
    # The two long parts are put in by hand: json indents in Python, seconds for a large vocab.
    start = dump_json(document).removesuffix(b'{},\n    "merges": []\n  }\n}\n')
    entries = spelled.entries.replace(b"\n", b",\n      ")
    start += b'{\n      %b\n    },\n    "merges": [' % entries
    if not spelled.merges:
        return start + b"]\n  }\n}"
    pairs = _pairs(spelled.merges)
    return b'%b\n      [\n        "%b"\n      ]\n    ]\n  }\n}' % (start, pairs)


def _pairs(lines: bytes) -> bytes:
    """What stands in `merges` between the first quote and the last, made of all lines at once."""
    # The only two letters that JSON escapes.
    quoted = lines.replace(b"\\", rb"\\").replace(b'"', rb"\"")
    # A zero for each space meanwhile: what comes between merges has spaces itself.
    pairs = quoted.replace(b" ", b"\0").replace(b"\n", b'"\n      ],\n      [\n        "')
    return pairs.replace(b"\0", b'",\n        "')


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
    knows the `pattern` from elsewhere, as from a manifest, gives it, and the file must say the same.
    """
    rest, long_parts = _core.read_tokenizer_json(data, file)
    document = parse_json(rest, file)
    for part in ("truncation", "padding"):
        parts.refuse_unless(document.child(part), None)
    return read_parts(document, long_parts, pattern=pattern)


def read_parts(
    document: Place, long_parts: _core.TokenizerModel, *, pattern: str | None = None
) -> Vocab:
    """The same, of a document in two parts. Rules for lengths are not looked at."""
    model = document["model"]
    ignore_merges = parts.check_model(model)
    normalizer = parts.read_normalizer(document.child("normalizer"))
    parts.check_decoder(document.child("decoder"))
    post_processor = parts.read_post_processor(document.child("post_processor"))
    added = parts.read_added_tokens(document.child("added_tokens"), normalizer)
    for part in ("vocab", "merges"):
        _ = model[part]
    try:
        core = long_parts.vocab(added.ids, ignore_merges=ignore_merges)
    except VocabError as error:
        document.child("added_tokens").fail(error.message, error.hint)
    if pattern is None:
        check_merge_order(core, _origin(document.file))
        pattern = parts.read_pattern(document["pre_tokenizer"])
    elif document["pre_tokenizer"].value != _pre_tokenizer(pattern):
        document["pre_tokenizer"].fail(f"this is not how the pattern `{pattern}` is written")
    extras = Extras(post_processor=post_processor, not_special=added.not_special)
    return Vocab(core, pattern, normalizer, extras)


def _origin(file: str) -> Origin:
    return Origin(
        FormatError,
        tokens=f"`{file}` at `model.vocab`",
        special_tokens=f"`{file}` at `added_tokens`: ",
        merge=lambda index: f"`{file}` at `model.merges[{index}]`",
    )
