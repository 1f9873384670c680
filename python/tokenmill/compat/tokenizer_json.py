"""A whole tokenizer.json, with the parts that a Vocab does not hold: read for `Tokenizer`, and written.

They change no id of a text (docs/formats.md), and are kept beside the vocab as they stand in the file.
"""

import functools
import json
from typing import Any

from tokenmill import _core
from tokenmill.tokenizer.formats import huggingface_json
from tokenmill.tokenizer.formats.checked_json import parse_json, quote_all
from tokenmill.tokenizer.vocab import Vocab


class Document:
    """A tokenizer.json. In `parts`, `model.vocab` and `model.merges` are None: they are in `vocab`."""

    def __init__(
        self,
        vocab: Vocab,
        parts: dict[str, Any],
        *,
        data: bytes | None = None,
        outside_model: frozenset[str] | None = None,
    ) -> None:
        """`outside_model` is found in `data`, the bytes of the file, if it is not given."""
        self.vocab = vocab
        self.parts = parts
        self._data = data
        if outside_model is not None:
            self.__dict__["outside_model"] = outside_model

    @functools.cached_property
    def outside_model(self) -> frozenset[str]:
        """Special tokens that `added_tokens` has and `model.vocab` has not."""
        # Asked for by few, and takes as long as all the rest of loading.
        data, self._data = self._data, None
        if data is None or not self.vocab.special_tokens:
            return frozenset()
        in_model = json.loads(data)["model"]["vocab"]
        return frozenset(token for token in self.vocab.special_tokens if token not in in_model)


def read_document(data: bytes, file: str) -> Document:
    """FormatError naming the place for what is no byte-level BPE."""
    rest, long_parts = _core.read_tokenizer_json(data, file)
    # Rules about the lengths of encodings are no part of a Vocab, whose own reader refuses them.
    vocab = huggingface_json.read_parts(parse_json(rest, file), long_parts)
    return Document(vocab, json.loads(rest), data=data)


def document_of(vocab: Vocab) -> Document:
    """That of a vocab that comes from elsewhere. Its special tokens are in the model, too."""
    rest, _ = _core.read_tokenizer_json(huggingface_json.write(vocab), huggingface_json.FILE_NAME)
    return Document(vocab, json.loads(rest))


def write_document(
    vocab: Vocab, parts: dict[str, Any], outside_model: frozenset[str], *, pretty: bool
) -> str:
    """The text that `tokenizers` would write."""
    keys = huggingface_json.letters_by_id(vocab)
    quoted = quote_all(keys)
    left_out = {vocab.special_tokens[token] for token in outside_model}
    colon = ": " if pretty else ":"
    entries = [
        f"{key}{colon}{token_id}"
        for token_id, key in enumerate(quoted)
        if keys[token_id] and token_id not in left_out
    ]
    merges = [
        _wrapped("[]", [quoted[left], quoted[right]], 3 if pretty else None)
        for left, right, _ in vocab.merges
    ]
    # The two long parts are put in by hand: json indents in Python, seconds for a large vocab.
    model = parts["model"] | {"vocab": "\0vocab", "merges": "\0merges"}
    text = json.dumps(
        parts | {"model": model},
        ensure_ascii=False,
        indent=2 if pretty else None,
        separators=(",", colon),
    )
    # Merges first: they hold letters only, a special token may look like anything.
    text = text.replace('"\\u0000merges"', _wrapped("[]", merges, 2 if pretty else None))
    return text.replace('"\\u0000vocab"', _wrapped("{}", entries, 2 if pretty else None))


def _wrapped(brackets: str, items: list[str], depth: int | None) -> str:
    """`items` between brackets, each on a line of its own if they stand `depth` levels deep."""
    if depth is None or not items:
        return brackets[0] + ",".join(items) + brackets[1]
    margin = "\n" + "  " * (depth + 1)
    return brackets[0] + margin + f",{margin}".join(items) + "\n" + "  " * depth + brackets[1]
