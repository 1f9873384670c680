"""Open what `convert` wrote with the library it is for, and compare ids: a Conversion in, a count out.

The libraries are not dependencies of tokenmill: one that is missing is an error that names it.
"""

import base64
import importlib
import importlib.metadata
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tokenmill.errors import ConfigError, VocabError
from tokenmill.tokenizer.artifact import build_bpe
from tokenmill.tokenizer.convert import Conversion
from tokenmill.tokenizer.formats import huggingface_json, tiktoken_ranks
from tokenmill.tokenizer.vocab import Vocab

NUM_RANDOM_TEXTS = 2000
_MAX_TOKENS = 12
# Where split patterns differ: white space of all kinds, endings, numbers, scripts and marks.
_HARD_TEXTS = (
    "",
    "a\n\n \t\r\n  b \u00a0\u3000\n ",
    "I'm HE'S we'Ve they'LL 'tis d'accord",
    "1 12 123 1234 12345678 ½ ² Ⅷ ٣٤٥ x1y22",
    "camelCase HTTPServer snake_case // ** ... !? <|x|>",
    "Straße ΕΛΛΗΝΙΚΆ русский שָׁלוֹם مَرْحَبًا हिन्दी ไทย 日本語 한국어 e\u0301",
    "👩‍👩‍👧 🇩🇪 \u0000 \u007f \ufeff",
)

Encode = Callable[[str, bool], list[int]]
"""The ids of a text, special tokens as ids or as text."""


@dataclass(frozen=True)
class Checked:
    """The other library gave the same ids for `num_texts` texts."""

    library: str
    version: str
    num_texts: int


def require_library(to: str) -> str:
    """The name of the library that opens what is written for `to`. ConfigError if there is none."""
    if to not in _OPENERS:
        raise ConfigError(
            f"`--check` knows no Python library that encodes by what is written for `{to}`",
            "leave it out: what is written is read back and compared in any case",
        )
    name = _OPENERS[to][0]
    try:
        importlib.import_module(name)
    except ImportError:
        raise ConfigError(
            f"`--check` needs `{name}`, which is not installed", f"pip install {name}"
        ) from None
    return name


def check(conversion: Conversion) -> Checked:
    """Compare ids on texts made from the vocab itself. VocabError naming the first that differs."""
    name = require_library(conversion.to)
    theirs = _OPENERS[conversion.to][1](importlib.import_module(name), conversion)
    ours = build_bpe(conversion.vocab)
    num_texts = 0
    for text, specials in _texts(conversion.vocab):
        expected = ours.encode(text, "all" if specials else (), ())
        found = theirs(text, specials)
        if found != expected:
            raise VocabError(
                f"{name} gives {text!r} the ids {found}, tokenmill {expected}",
                "the notes above may say why; if none does, this is a bug: please report it",
            )
        num_texts += 1
    return Checked(name, importlib.metadata.version(name), num_texts)


def _texts(vocab: Vocab) -> Iterator[tuple[str, bool]]:
    """Texts, and whether special tokens in them are ids."""
    rng = random.Random(0)
    special = [token.encode() for token in vocab.special_tokens]
    ordinary = [token for token in vocab.tokens if token and token not in special]
    for text in _HARD_TEXTS:
        yield text, False
    for index in range(NUM_RANDOM_TEXTS):
        with_special = bool(special) and index % 4 == 0
        parts = [rng.choice(ordinary) for _ in range(rng.randint(1, _MAX_TOKENS))]
        if with_special:
            parts.insert(rng.randint(0, len(parts)), rng.choice(special))
        yield b"".join(parts).decode("utf-8", "replace"), with_special


def _open_huggingface(tokenizers: Any, conversion: Conversion) -> Encode:
    return _with_tokenizers(tokenizers.Tokenizer.from_file(str(conversion.files[0])))


def _open_gpt2(tokenizers: Any, conversion: Conversion) -> Encode:
    # The two files lack all but the model; the rest is taken from where it can be said.
    whole = tokenizers.Tokenizer.from_str(huggingface_json.write(conversion.vocab).decode())
    whole.model = tokenizers.models.BPE.from_file(*(str(file) for file in conversion.files))
    return _with_tokenizers(whole)


def _with_tokenizers(theirs: Any) -> Encode:
    def encode(text: str, specials: bool) -> list[int]:
        theirs.encode_special_tokens = not specials
        return theirs.encode(text, add_special_tokens=False).ids

    return encode


def _open_tiktoken(tiktoken: Any, conversion: Conversion) -> Encode:
    ranks, settings = (path.read_bytes() for path in conversion.files)
    return _with_tiktoken(tiktoken, ranks, json.loads(settings))


def _open_nanochat(tiktoken: Any, conversion: Conversion) -> Encode:
    # The pickle stays closed: the same values go in by the front door.
    ranks, settings = tiktoken_ranks.write(conversion.vocab).values()
    return _with_tiktoken(tiktoken, ranks, json.loads(settings))


def _with_tiktoken(tiktoken: Any, ranks: bytes, settings: dict[str, Any]) -> Encode:
    lines = (line.split() for line in ranks.splitlines())
    of_token = {base64.b64decode(token): int(rank) for token, rank in lines}
    encoding = tiktoken.Encoding(mergeable_ranks=of_token, **settings)

    def encode(text: str, specials: bool) -> list[int]:
        if specials:
            return encoding.encode(text, allowed_special="all")
        return encoding.encode_ordinary(text)

    return encode


_OPENERS: dict[str, tuple[str, Callable[[Any, Conversion], Encode]]] = {
    "hf": ("tokenizers", _open_huggingface),
    "gpt2": ("tokenizers", _open_gpt2),
    "tiktoken": ("tiktoken", _open_tiktoken),
    "nanochat": ("tiktoken", _open_nanochat),
}
"""What `--to` takes → the library, and how it opens the files."""
