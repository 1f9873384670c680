"""Hugging Face tokenizers: byte-level BPE through `train_from_iterator`."""

import json
from typing import Any

from bench.documents import stream_documents
from bench.job import Answer, Job
from bench.peers.peer import Peer

PEER = Peer(
    name="tokenizers",
    distribution="tokenizers",
    version="0.23.3",
    program=__name__,
    ties="huggingface",
)


def load(job: Job) -> Any:
    import tokenizers

    return tokenizers


def run(tokenizers: Any, job: Job) -> Any:
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    byte_level = tokenizers.pre_tokenizers.ByteLevel
    if job.pattern == "gpt2":  # the one pattern it has built in
        tokenizer.pre_tokenizer = byte_level(add_prefix_space=False, use_regex=True)
    else:
        split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(job.regex), behavior="isolated")
        as_bytes = byte_level(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([split, as_bytes])
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=job.vocab_size,
        min_frequency=0,
        initial_alphabet=byte_level.alphabet(),
        special_tokens=[],
        show_progress=False,
    )
    tokenizer.train_from_iterator(stream_documents(job.path, job.separator), trainer)
    return tokenizer


def answer(tokenizer: Any) -> Answer:
    byte_of = {letter: byte for byte, letter in enumerate(byte_letters())}
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    return [tuple(bytes(byte_of[letter] for letter in part) for part in merge) for merge in merges]


def byte_letters() -> list[str]:
    """The letter GPT-2 files write for each byte: printable Latin-1 as it is, the others from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]
