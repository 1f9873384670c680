"""What a dataset must hold, by the plain definition; and how tests make and read one."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

import tokenmill as tm
from tokenmill.dataset.encode import prepare_encode
from tokenmill.dataset.manifest import Manifest

EOT = "<|endoftext|>"


def write_jsonl(path: Path, documents: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
    return path


def encode(inputs: object, tokenizer: tm.Tokenizer, out: Path, **keywords: Any) -> Manifest:
    run = prepare_encode(inputs, tokenizer, out, progress=False, **keywords)  # pyright: ignore[reportArgumentType]
    manifest = run.run().manifest
    assert manifest is not None
    return manifest


def arrays(
    out: Path, split: str = "train", shard: int = 0
) -> tuple[list[int], list[int], list[int]]:
    """(ids, document ends, bytes) of a shard, as numpy reads them."""
    kinds = ("tokens", "documents", "bytes")
    found = [np.load(out / split / f"{kind}-{shard:05}.npy") for kind in kinds]
    assert [each.dtype.name for each in found] == ["uint16", "uint64", "uint64"]
    return tuple(each.tolist() for each in found)  # pyright: ignore[reportReturnType]


def expected(
    tokenizer: tm.Tokenizer, documents: list[str], bos: str | None = None, eos: str | None = EOT
) -> tuple[list[int], list[int], list[int]]:
    """The same by the plain definition."""
    ids: list[int] = []
    ends: list[int] = []
    for document in documents:
        ids += [tokenizer.special_tokens[bos]] if bos else []
        ids += tokenizer.encode_ordinary(document)
        ids += [tokenizer.special_tokens[eos]] if eos else []
        ends.append(len(ids))
    return ids, ends, [len(document.encode()) for document in documents]


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
