"""The vocabularies that are measured and compared: trained here, or real ones from rank files.

A real vocabulary is found in an installed wheel that carries its file, or given as `NAME=FILE`. Nothing is
downloaded. A rank file says neither pattern nor special tokens, so `REAL` does.
"""

import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.corpora import Corpus
from bench.encoders.tiktoken import read_ranks
from bench.job import BenchError

TRAINED = "trained"


@dataclass(frozen=True)
class Vocabulary:
    name: str
    """`trained`, or the name of a real one."""
    folder: Path
    """The tokenizer folder that every library opens."""
    pattern: str
    size: int
    tokenizer: Any
    """The tokenmill.Tokenizer of it."""


@dataclass(frozen=True)
class RankFile:
    """`package` is a wheel that carries the file, at `path` inside it.

    litellm names files as tiktoken's cache does, by the SHA-1 of the address they came from."""

    pattern: str
    special_tokens: dict[str, int]
    package: str
    path: str


def _numbered(names: Iterable[str], first: int) -> dict[str, int]:
    return {name: first + index for index, name in enumerate(names)}


_LLAMA3_SPECIAL = [
    *("<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>"),
    *("<|reserved_special_token_1|>", "<|finetune_right_pad_id|>", "<|step_id|>"),
    *("<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>"),
    "<|image|>",
    *(f"<|reserved_special_token_{number}|>" for number in range(2, 246)),
]
_QWEN_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]

REAL = {
    # Nearest to GPT-2's own among those that wheels carry: its pattern and its merges, and runs of spaces on top.
    "p50k": RankFile(
        pattern="gpt2",
        special_tokens={"<|endoftext|>": 50256},
        package="litellm",
        path="litellm_core_utils/tokenizers/ec7223a39ce59f226a68acc30dc1af2788490e15",
    ),
    "cl100k": RankFile(
        pattern="cl100k",
        special_tokens={
            "<|endoftext|>": 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            "<|endofprompt|>": 100276,
        },
        package="litellm",
        path="litellm_core_utils/tokenizers/9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
    ),
    "o200k": RankFile(
        pattern="gpt4o",
        special_tokens={"<|endoftext|>": 199999, "<|endofprompt|>": 200018},
        package="litellm",
        path="litellm_core_utils/tokenizers/fb374d419588a4632f3f557e76b4b70aebbca790",
    ),
    "llama3": RankFile(
        pattern="llama3",
        special_tokens=_numbered(_LLAMA3_SPECIAL, 128000),
        package="llama_models",
        path="llama3/tokenizer.model",
    ),
    "qwen": RankFile(
        pattern="qwen2",
        special_tokens=_numbered(_QWEN_SPECIAL, 151643),
        package="dashscope",
        path="resources/qwen.tiktoken",
    ),
}


def installed_rank_files() -> dict[str, Path]:
    """Name → file of every real vocabulary whose wheel is installed. The wheels are not imported."""
    found: dict[str, Path] = {}
    for name, ranks in REAL.items():
        spec = importlib.util.find_spec(ranks.package)
        for folder in (spec.submodule_search_locations or []) if spec is not None else []:
            file = Path(folder) / ranks.path
            if file.is_file():
                found[name] = file
    return found


def given_rank_files(options: Iterable[str]) -> dict[str, Path]:
    """From `NAME=FILE` as the command line has it."""
    found: dict[str, Path] = {}
    for option in options:
        name, equals, file = option.partition("=")
        if not equals or name not in REAL:
            raise BenchError(f"`{option}` is not NAME=FILE with a name of {', '.join(REAL)}")
        if not Path(file).is_file():
            raise BenchError(f"`{file}` is not a file")
        found[name] = Path(file)
    return found


def train_vocabulary(
    text: Corpus, folder: Path, *, vocab_size: int, pattern: str, special_tokens: Iterable[str]
) -> Vocabulary:
    """Trained on `text`, which the caller keeps apart from what is measured."""
    import tokenmill as tm

    tokenizer = tm.train(
        str(text.path),
        vocab_size=vocab_size,
        pattern=pattern,
        special_tokens=list(special_tokens),
    )
    return _saved(TRAINED, tokenizer, folder)


def read_vocabulary(name: str, file: Path, folder: Path) -> Vocabulary:
    """A real one, saved as a folder, so that every library opens the same files."""
    import tokenmill as tm

    about = REAL[name]
    tokenizer = tm.Tokenizer.from_ranks(read_ranks(file), about.special_tokens, about.pattern)
    return _saved(name, tokenizer, folder)


def _saved(name: str, tokenizer: Any, folder: Path) -> Vocabulary:
    tokenizer.save(folder)
    return Vocabulary(name, folder, tokenizer.pattern, tokenizer.vocab_size, tokenizer)
