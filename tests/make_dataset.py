"""Datasets for tests: lists of ids in, a folder in the agreed layout out.

Written from the description in docs/formats.md and not by the writer of the package, so that readers
are tested against a second opinion.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tokenmill as tm
from tokenmill.dataset.layouts import array_path, layout_named
from tokenmill.dataset.manifest import (
    InputRecord,
    Manifest,
    Shard,
    Split,
    record_file,
    record_tokenizer,
)

EOS = "<|endoftext|>"
TEXTS = [
    "the cat sat on the mat",
    "",
    "naïve café ☕ 日本語",
    "def f(x):\n\treturn x  # done\n",
    "the the the",
    "x" * 300,
]


def small_tokenizer(vocab_size: int = 300, special_tokens: Sequence[str] = (EOS,)) -> tm.Tokenizer:
    documents = tm.documents(TEXTS[:1] * 4 + TEXTS[2:5])
    return tm.train(documents, vocab_size=vocab_size, special_tokens=list(special_tokens))


@dataclass(frozen=True)
class Document:
    """Ids with eos, the bytes of the raw text, and 1 for what is trained on."""

    ids: list[int]
    num_bytes: int
    mask: list[int] | None = None


def encoded(tokenizer: tm.Tokenizer, texts: Sequence[str]) -> list[Document]:
    eos = tokenizer.special_tokens[EOS]
    return [Document([*tokenizer.encode_ordinary(text), eos], len(text.encode())) for text in texts]


def masked(tokenizer: tm.Tokenizer, rows: Sequence[tuple[str, str]]) -> list[Document]:
    """Prompts and completions; completion and eos are trained on."""
    documents: list[Document] = []
    for prompt, completion in rows:
        before = tokenizer.encode_ordinary(prompt)
        after = [*tokenizer.encode_ordinary(completion), tokenizer.special_tokens[EOS]]
        num_bytes = len((prompt + completion).encode())
        mask = [0] * len(before) + [1] * len(after)
        documents.append(Document(before + after, num_bytes, mask))
    return documents


def make_dataset(
    folder: Path,
    tokenizer: tm.Tokenizer,
    splits: Mapping[str, Sequence[Document]],
    *,
    layout: str = "npy",
    mode: str = "pretrain",
    shard_documents: int | None = None,
    dtype: str | None = None,
    inputs: Sequence[InputRecord] = (),
) -> Path:
    """A dataset with `shard_documents` documents in each shard, all in one if left out."""
    folder.mkdir(parents=True)
    tokenizer.save(folder / "tokenizer")
    written: dict[str, Split] = {}
    dtype = layout_named(layout).dtype_for(tokenizer.vocab_size, dtype)
    for name, documents in splits.items():
        size = shard_documents or max(len(documents), 1)
        groups = [documents[start : start + size] for start in range(0, len(documents), size)]
        shards = [
            _write_shard(
                folder, name, (number, len(groups)), group, layout, dtype, tokenizer.sha256
            )
            for number, group in enumerate(groups)
        ]
        trained = None if mode == "pretrain" else sum(sum(d.mask or []) for d in documents)
        written[name] = Split(tuple(shards), trained)
    manifest = Manifest(
        mode=mode,
        layout=layout,
        dtype=dtype,
        tokenizer=record_tokenizer(tokenizer, folder),
        splits=written,
        eos=EOS,
        inputs=tuple(inputs),
    )
    (folder / "manifest.json").write_bytes(manifest.to_json())
    return folder


def _write_shard(
    folder: Path,
    split: str,
    number: tuple[int, int],
    documents: Sequence[Document],
    layout: str,
    dtype: str,
    tokenizer: str,
) -> Shard:
    form = layout_named(layout)
    shard, num_shards = number
    ids = [token_id for document in documents for token_id in document.ids]
    paths = {"tokens": form.token_path(folder.name, split, shard, num_shards)}
    (folder / paths["tokens"]).parent.mkdir(exist_ok=True)
    (folder / split).mkdir(exist_ok=True)
    header = form.header(len(ids), dtype)
    assert len(header) == form.header_bytes
    (folder / paths["tokens"]).write_bytes(header + np.array(ids, dtype).tobytes())
    arrays: dict[str, Any] = {
        "documents": np.cumsum([len(document.ids) for document in documents]).astype("uint64"),
        "bytes": np.array([document.num_bytes for document in documents], "uint64"),
    }
    if all(document.mask is not None for document in documents):
        arrays["mask"] = np.array([m for d in documents for m in d.mask or []], "uint8")
    for kind, array in arrays.items():
        paths[kind] = array_path(kind, split, shard)
        np.save(folder / paths[kind], array)
    mask = folder / paths["mask"] if "mask" in paths else None
    sidecars = form.sidecars(
        folder / paths["tokens"],
        folder / paths["documents"],
        mask,
        dtype=dtype,
        tokenizer=tokenizer,
    )
    paths |= {kind: path.relative_to(folder).as_posix() for kind, path in sidecars.items()}
    num_bytes = sum(document.num_bytes for document in documents)
    files = {kind: record_file(folder, path) for kind, path in paths.items()}
    return Shard(len(ids), len(documents), num_bytes, files)
