"""Train on documents from Python: a generator, so that nothing is ever held in memory.

Prints:
    266 tokens, 3.20 bytes each on this text
    lo|wer| lo|west
"""

from collections.abc import Iterator

import tokenmill as tm


def documents() -> Iterator[str]:
    """Stands for rows of a database, pages of a crawl, lines of a log."""
    for number in range(100):
        yield "low lower lowest" if number % 2 else "new newer newest"


tokenizer = tm.train(documents(), vocab_size=266, pattern="gpt2", special_tokens=[])
report = tokenizer.training
print(f"{report.vocab_size} tokens, {report.bytes_per_token:.2f} bytes each on this text")

ids = tokenizer.encode("lower lowest")
print("|".join(tokenizer.token_bytes(token_id).decode() for token_id in ids))
assert tokenizer.decode(ids) == "lower lowest"
