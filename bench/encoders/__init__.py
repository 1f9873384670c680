"""One adapter file per library that encodes. `ENCODERS` lists the peers without importing them.

To add one, write a file with a `LIBRARY` and `open_encoder(job) -> Encoder` (encoder.py), name it here and
in the cases of cases.toml that should run it.
"""

from bench.encoders import gigatoken, tiktoken, tokenizers
from bench.peers.peer import Library

ENCODERS: dict[str, Library] = {
    library.name: library for library in (tiktoken.LIBRARY, tokenizers.LIBRARY, gigatoken.LIBRARY)
}
