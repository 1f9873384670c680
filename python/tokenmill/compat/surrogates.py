"""Text as the core takes it, when half of a surrogate pair in it must not pass.

A Python `str` may hold such halves, UTF-8 may not. The core writes them as three bytes of their own;
tiktoken puts U+FFFD in their place, Hugging Face refuses them.
"""

from typing import Any


def utf8(text: Any) -> str | bytes:
    """`text`, as bytes unless it is ASCII. UnicodeEncodeError if it holds half of a surrogate pair.

    Costs nothing: the core would make the same bytes of it, and Python would keep them.
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be `str`, found `{type(text).__name__}`")
    return text if text.isascii() else text.encode()


def repaired_utf8(text: Any) -> str | bytes:
    """The same, where two halves that belong together become one character, others U+FFFD."""
    try:
        return utf8(text)
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
