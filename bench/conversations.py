"""Make conversations out of the paragraphs of a corpus: JSON lines of `messages`, the same for the same seed.

Nobody would want to train on them; what matters is that turns are as long as those of real data, a question of a
paragraph and an answer of a few, in the languages of the corpus.
"""

import json
import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.corpora import Corpus
from bench.documents import BLOCK_BYTES, read_through, stream_documents
from bench.job import BenchError

SYSTEM = "You are a helpful assistant. Answer briefly, and say so when you do not know."
MARKUP = "<|"
"""Nothing that looks like a special token: in transformers it would become one, with us it stays text."""
LONGEST_ANSWER = 4
MOST_QUESTIONS = 4

Message = dict[str, str]


def write_conversations(
    corpus: Corpus, path: Path, *, separator: str, num_bytes: int, seed: int
) -> Corpus:
    """About `num_bytes` of contents at `path`; the size of what is given back is that of the contents."""
    written = 0
    with path.open("w", encoding="utf-8", buffering=BLOCK_BYTES) as file:
        for messages in _conversations(corpus, separator, random.Random(seed)):
            file.write(json.dumps({"messages": messages}, ensure_ascii=False) + "\n")
            written += sum(len(message["content"].encode()) for message in messages)
            if written >= num_bytes:
                break
        file.flush()
        os.fsync(file.fileno())
    read_through(path)
    return Corpus(corpus.name, path, written)


def _conversations(
    corpus: Corpus, separator: str, chance: random.Random
) -> Iterator[list[Message]]:
    """Without end: when all documents are used up they are taken in another order and cut in another way."""
    paragraphs = [
        [part for part in document.split("\n\n") if part.strip() and MARKUP not in part]
        for document in stream_documents(corpus.path, separator)
    ]
    useful = [each for each in paragraphs if len(each) >= 2]
    if not useful:
        raise BenchError(f"`{corpus.name}` has no two paragraphs to make a conversation from")
    while True:
        chance.shuffle(useful)
        for document in useful:
            yield from _of_document(document, chance)


def _of_document(paragraphs: Sequence[str], chance: random.Random) -> Iterator[list[Message]]:
    left = list(paragraphs)
    while len(left) >= 2:
        messages = [{"role": "system", "content": SYSTEM}] if chance.random() < 0.25 else []
        for _ in range(chance.randint(1, MOST_QUESTIONS)):
            if len(left) < 2:
                break
            length = chance.randint(1, LONGEST_ANSWER)
            question, *answer = left[: 1 + length]
            del left[: 1 + length]
            messages.append({"role": "user", "content": question})
            messages.append({"role": "assistant", "content": "\n\n".join(answer)})
        yield messages


def read_contents(path: str | Path) -> list[str]:
    """Every content of every row, in order."""
    with open(path, encoding="utf-8") as file:
        return [message["content"] for line in file for message in json.loads(line)["messages"]]
