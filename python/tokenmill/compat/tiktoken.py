"""What `import tiktoken` gives, on our core: the same calls, the same answers, the same errors.

An import line is all that changes:

    from tokenmill.compat import tiktoken      # was: import tiktoken

What differs: where tiktoken panics we answer; of special tokens that overlap the longest wins; a vocab
must hold all 256 bytes and have no holes among its ranks (docs/compat.md).
"""

import functools
from typing import Any

from tokenmill.compat.tiktoken_encoding import Encoding

__all__ = [
    "Encoding",
    "encoding_for_model",
    "encoding_name_for_model",
    "get_encoding",
    "list_encoding_names",
]

# tiktoken knows the names, fetches the files and keeps them; what it has loaded we take over.


def _tiktoken(function: str) -> Any:
    try:
        import tiktoken
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            f"`{function}` finds vocabularies through tiktoken, which is not installed\n"
            "hint: pip install tiktoken, or load a file with `tokenmill.Tokenizer.load` and pass it "
            "to `Encoding.from_tokenizer`",
            name="tiktoken",
        ) from None
    return tiktoken


@functools.lru_cache(maxsize=32)
def _converted(encoding: Any) -> Encoding:
    return Encoding.from_encoding(encoding)


def get_encoding(encoding_name: str) -> Encoding:
    """The encoding of that name, which tiktoken finds or downloads. ValueError if it knows none."""
    return _converted(_tiktoken("get_encoding").get_encoding(encoding_name))


def encoding_for_model(model_name: str) -> Encoding:
    """The encoding a model uses. KeyError if tiktoken does not know the model."""
    return _converted(_tiktoken("encoding_for_model").encoding_for_model(model_name))


def encoding_name_for_model(model_name: str) -> str:
    """The name of the encoding a model uses. KeyError if tiktoken does not know the model."""
    return _tiktoken("encoding_name_for_model").encoding_name_for_model(model_name)


def list_encoding_names() -> list[str]:
    """The names that `get_encoding` takes."""
    return _tiktoken("list_encoding_names").list_encoding_names()
