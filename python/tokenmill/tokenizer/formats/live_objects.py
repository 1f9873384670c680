"""Tokenizers of other libraries that a program holds already: an object in, a Vocab out.

Objects are told by what they offer, so neither library is imported, nor has to be installed.
"""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from tokenmill import _core
from tokenmill.errors import ConfigError, FormatError
from tokenmill.tokenizer.formats import huggingface_json
from tokenmill.tokenizer.formats.tiktoken_ranks import pattern_from_tiktoken
from tokenmill.tokenizer.vocab import Vocab


def is_live_object(candidate: object) -> bool:
    """Whether `read` can make something of `candidate`."""
    return _is_tiktoken(candidate) or _backend(candidate) is not None


def read(candidate: object) -> Vocab:
    """The Vocab of a `tiktoken.Encoding`, a `tokenizers.Tokenizer`, or a tokenizer of transformers
    with one inside."""
    if _is_tiktoken(candidate):
        return _read_tiktoken(candidate)
    backend = _backend(candidate)
    if backend is None:
        kind = f"{type(candidate).__module__}.{type(candidate).__qualname__}"
        raise ConfigError(
            f"`{kind}` is not a tokenizer that can be loaded",
            "pass a path, a `tiktoken.Encoding` or a `tokenizers.Tokenizer`",
        )
    return _read_tokenizers(backend, candidate)


def _is_tiktoken(candidate: object) -> bool:
    parts = ("_mergeable_ranks", "_special_tokens", "_pat_str")
    return all(hasattr(candidate, part) for part in parts)


def _read_tiktoken(encoding: Any) -> Vocab:
    ranks = cast(Mapping[bytes, int], encoding._mergeable_ranks)
    special_tokens = cast(Mapping[str, int], encoding._special_tokens)
    name = f"the encoding `{getattr(encoding, 'name', '?')}`"
    pattern = pattern_from_tiktoken(encoding._pat_str, name)
    return vocab_from_ranks(ranks, special_tokens, pattern, name)


def vocab_from_ranks(
    ranks: Mapping[bytes, int],
    special_tokens: Mapping[str, int],
    pattern: str,
    name: str = "the vocab",
) -> Vocab:
    """From token → rank, as tiktoken and rustbpe hold it. `name` is for messages."""
    highest = max(ranks.values(), default=-1)
    if min(ranks.values(), default=0) < 0 or highest > 2 * len(ranks) + len(special_tokens):
        raise FormatError(f"{name} has {len(ranks)} ranks up to {highest}, so ranks are missing")
    tokens = [b""] * (highest + 1)
    for token, rank in ranks.items():
        if tokens[rank]:
            raise FormatError(f"{name} gives rank {rank} to {tokens[rank]!r} and to {token!r}")
        tokens[rank] = token
    return Vocab(_core.Vocab.from_ranks(tokens, special_tokens), pattern)


def _backend(candidate: object) -> Any:
    """The `tokenizers.Tokenizer` that `candidate` is or has inside."""
    inside = getattr(candidate, "backend_tokenizer", candidate)
    offers = all(callable(getattr(inside, part, None)) for part in ("to_str", "token_to_id"))
    return inside if offers else None


def _read_tokenizers(backend: Any, owner: Any) -> Vocab:
    name = f"{type(owner).__module__.partition('.')[0]}.{type(owner).__name__}"
    if owner is backend:
        return huggingface_json.read(backend.to_str().encode(), name)
    if backend.padding is not None or backend.truncation is not None:
        # What the last call asked for stays behind in the object; the tokenizer has nothing of it.
        backend = copy.deepcopy(backend)
        backend.no_padding()
        backend.no_truncation()
    vocab = huggingface_json.read(backend.to_str().encode(), name)
    template = getattr(owner, "chat_template", None)
    roles = {
        role: getattr(owner, role, None)
        for role in ("bos_token", "eos_token", "pad_token", "unk_token")
    }
    config = {role: str(token) for role, token in roles.items() if token is not None}
    extras = replace(
        vocab.extras,
        chat_template=template if isinstance(template, str) else None,
        config=config,
    )
    return replace(vocab, extras=extras)
