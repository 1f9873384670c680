"""ranks.tiktoken and ranks.json, for `tiktoken.Encoding`: a Vocab in, two files out, and back.

tiktoken knows no merges. It joins two neighbours whenever their bytes together are a token, lowest
id first, and takes a whole pretoken that is a token at once. That equals our merges when each token
has one merge, ids rise with the merges, and each token is reachable (docs/formats.md has the
argument). Where that does not hold, no file is better than a file with other ids.
"""

import base64
import binascii

from tokenmill import _core
from tokenmill.errors import FormatError
from tokenmill.tokenizer.formats.checked_json import dump_json
from tokenmill.tokenizer.vocab import Vocab, show

RANKS_FILE_NAME = "ranks.tiktoken"
SETTINGS_FILE_NAME = "ranks.json"


def obstacle(vocab: Vocab, unreachable: list[int]) -> str | None:
    """Why tiktoken would give other ids than `vocab` does, or None if it gives the same."""
    if unreachable:
        token = show(vocab.tokens[unreachable[0]])
        return (
            f"no merges lead to token {unreachable[0]}, {token}, but tiktoken would make it anyway"
        )
    highest = -1
    made: set[int] = set()
    for rank, (_, _, joined) in enumerate(vocab.merges):
        token = show(vocab.tokens[joined])
        if joined in made:
            return f"merge {rank} makes {token} again, and tiktoken has one rank for each token"
        if joined < highest:
            return (
                f"merge {rank} makes id {joined} after {highest}, and tiktoken merges by lowest id"
            )
        made.add(joined)
        highest = joined
    return None


def notes(vocab: Vocab) -> list[str]:
    """What tiktoken does differently with text that these files cannot say."""
    found: list[str] = []
    if _core.Splitter(vocab.pattern).name is None:
        found.append(
            f"`{RANKS_FILE_NAME}`: tiktoken drops text that no match of the pattern covers, where "
            "tokenmill and Hugging Face make it a pretoken of its own"
        )
    tokens = list(vocab.special_tokens)
    for token in tokens:
        longer = next((t for t in tokens if t != token and t.startswith(token)), None)
        if longer is not None:
            found.append(
                f"`{RANKS_FILE_NAME}`: where special token `{longer}` stands in a text, tiktoken "
                f"may find `{token}`, which it starts with"
            )
    return found


def write(vocab: Vocab) -> dict[str, bytes]:
    """File name → bytes. Ask `obstacle` first; docs/formats.md shows how tiktoken opens them."""
    special_ids = set(vocab.special_tokens.values())
    lines = [
        f"{base64.b64encode(token).decode()} {token_id}\n"
        for token_id, token in enumerate(vocab.tokens)
        if token_id not in special_ids
    ]
    splitter = _core.Splitter(vocab.pattern)
    settings = {
        "name": f"{splitter.name or 'custom'}-{len(vocab.tokens)}",
        "pat_str": splitter.regex,
        "special_tokens": vocab.special_tokens,
        "explicit_n_vocab": len(vocab.tokens),
    }
    return {RANKS_FILE_NAME: "".join(lines).encode(), SETTINGS_FILE_NAME: dump_json(settings)}


def read_ranks(data: bytes, file: str = RANKS_FILE_NAME) -> dict[bytes, int]:
    """Token → rank."""
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(data.splitlines(), 1):
        try:
            encoded, rank = line.split()
            token = base64.b64decode(encoded, validate=True)
            if token in ranks:
                raise FormatError(f"`{file}` line {number} gives {show(token)} a second rank")
            ranks[token] = int(rank)
        except (binascii.Error, ValueError) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError(f"`{file}` line {number} is not a base64 token and a rank") from None
    return ranks
