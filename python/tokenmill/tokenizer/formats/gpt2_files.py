"""vocab.json and merges.txt, as GPT-2 was published: a Vocab in, two files out, and back.

They carry neither the split pattern nor which tokens are special: the reader has to know both.
"""

from tokenmill.errors import FormatError
from tokenmill.tokenizer.formats.byte_letters import from_letters, to_letters
from tokenmill.tokenizer.formats.checked_json import parse_json, quote_all
from tokenmill.tokenizer.formats.huggingface_json import letters_by_id
from tokenmill.tokenizer.vocab import Vocab

VOCAB_FILE_NAME = "vocab.json"
MERGES_FILE_NAME = "merges.txt"
_HEADER = "#version: 0.2"


def write(vocab: Vocab) -> dict[str, bytes]:
    """File name → bytes."""
    keys = letters_by_id(vocab)
    lines = [_HEADER, *(f"{keys[left]} {keys[right]}" for left, right, _ in vocab.merges)]
    entries = ",\n".join(f"  {key}: {token_id}" for token_id, key in enumerate(quote_all(keys)))
    return {
        VOCAB_FILE_NAME: f"{{\n{entries}\n}}\n".encode(),
        MERGES_FILE_NAME: ("\n".join(lines) + "\n").encode(),
    }


def notes(vocab: Vocab) -> list[str]:
    """What a reader of these files could get wrong."""
    hidden = [
        f"{to_letters(left)} {to_letters(right)}"
        for left, right in vocab.merges_as_bytes()
        if left.startswith(b"#version")
    ]
    if not hidden:
        return []
    return [
        f"`{MERGES_FILE_NAME}`: the merge `{hidden[0]}` starts like the header line, and "
        "Hugging Face's reader of this file skips it; tokenizer.json is not affected"
    ]


def read_vocab(data: bytes, file: str = VOCAB_FILE_NAME) -> dict[str, int]:
    """Key → id, special tokens among them."""
    place = parse_json(data, file)
    vocab = place.as_object()
    for key, token_id in vocab.items():
        if type(token_id) is not int:
            place.fail(f"the id of `{key}` is `{token_id}`, not a whole number")
    return vocab


def read_merges(data: bytes, file: str = MERGES_FILE_NAME) -> list[tuple[bytes, bytes]]:
    """The merges in rank order."""
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError as error:
        raise FormatError(f"`{file}` is not UTF-8: bad byte at {error.start}") from None
    merges: list[tuple[bytes, bytes]] = []
    first = 1 if lines[0].startswith("#version") else 0
    for number, line in enumerate(lines[first:], first + 1):
        if not line and number == len(lines):
            continue
        parts = line.split(" ")
        if len(parts) != 2:
            raise FormatError(f"`{file}` line {number} is `{line}`, not two tokens")
        try:
            merges.append((from_letters(parts[0]), from_letters(parts[1])))
        except ValueError as error:
            raise FormatError(f"`{file}` line {number} is not byte-level: {error}") from None
    return merges
