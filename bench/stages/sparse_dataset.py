"""Make a dataset of any size in a moment: token files that are holes, with a manifest that is true but for their hashes.

Opening compares sizes and headers and hashes nothing, so a dataset of zeros stands for one of text. Some documents
begin with a token of their own, to see that the right ones are read.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NOT_HASHED = "0" * 64


@dataclass(frozen=True)
class Chosen:
    """A document to read: where it is, how long, and how it begins."""

    index: int
    length: int
    first: int


def write_sparse(
    folder: Path,
    tokenizer: Any,
    *,
    num_tokens: int,
    tokens_each: int,
    num_shards: int,
    num_chosen: int,
    seed: int,
) -> list[Chosen]:
    """About `num_tokens` of two bytes in `num_shards` shards, documents of one to twice `tokens_each` tokens."""
    import numpy as np

    from tokenmill.dataset.manifest import Manifest, Split, record_tokenizer

    random = np.random.default_rng(seed)
    (folder / "train").mkdir(parents=True)
    tokenizer.save(folder / "tokenizer")
    documents = max(1, num_tokens // num_shards // tokens_each)
    shards: list[Any] = []
    chosen: list[Chosen] = []
    for number in range(num_shards):
        lengths = random.integers(1, 2 * tokens_each, documents, dtype=np.uint64)
        shards.append(_write_shard(folder, number, lengths))
        wanted = num_chosen * (number + 1) // num_shards - len(chosen)
        for place in random.integers(0, documents, wanted).tolist():
            first = 1 + len(chosen)
            _write_token(folder, number, int(lengths[:place].sum()), first)
            chosen.append(Chosen(number * documents + place, int(lengths[place]), first))
    manifest = Manifest(
        mode="pretrain",
        layout="npy",
        dtype="uint16",
        tokenizer=record_tokenizer(tokenizer, folder),
        splits={"train": Split(tuple(shards))},
        eos="<|endoftext|>",
    )
    (folder / "manifest.json").write_bytes(manifest.to_json())
    return list({each.index: each for each in chosen}.values())


def _write_shard(folder: Path, number: int, lengths: Any) -> Any:
    import numpy as np

    from tokenmill.dataset.arrays import NPY_HEADER_BYTES, npy_header
    from tokenmill.dataset.manifest import FileRecord, Shard, record_file

    num_tokens = int(lengths.sum())
    paths = {kind: f"train/{kind}-{number:05}.npy" for kind in ("tokens", "documents", "bytes")}
    np.save(folder / paths["documents"], np.cumsum(lengths, dtype=np.uint64))
    np.save(folder / paths["bytes"], 4 * lengths)
    size = NPY_HEADER_BYTES + 2 * num_tokens
    with (folder / paths["tokens"]).open("wb") as file:
        file.write(npy_header("uint16", num_tokens))
        file.truncate(size)
    files = {kind: record_file(folder, paths[kind]) for kind in ("documents", "bytes")}
    files = {"tokens": FileRecord(paths["tokens"], size, NOT_HASHED), **files}
    return Shard(num_tokens, len(lengths), 4 * num_tokens, files)


def _write_token(folder: Path, number: int, at: int, token: int) -> None:
    from tokenmill.dataset.arrays import NPY_HEADER_BYTES

    with (folder / "train" / f"tokens-{number:05}.npy").open("r+b") as file:
        file.seek(NPY_HEADER_BYTES + 2 * at)
        file.write(token.to_bytes(2, "little"))


def write_chosen(path: Path, chosen: list[Chosen]) -> None:
    path.write_text(json.dumps([vars(each) for each in chosen]), encoding="utf-8")


def read_chosen(path: Path) -> list[Chosen]:
    return [Chosen(**each) for each in json.loads(path.read_text(encoding="utf-8"))]
