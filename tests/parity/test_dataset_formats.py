"""Every layout read by somebody else: numpy, datatrove's own writer, and readers written here from the
formats' descriptions, which know nothing of the package."""

import struct
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from datatrove.pipeline.tokens.tokenizer import TokenizedFile
from make_dataset import Document, encoded, make_dataset, masked, small_tokenizer

import tokenmill as tm

TOKENIZER = small_tokenizer()
DOCUMENTS = encoded(TOKENIZER, [f"document {i}: the cat {'sat ' * (i % 7)}" for i in range(40)])
ROWS = masked(TOKENIZER, [(f"question {i} ", f"the answer {i}") for i in range(10)])
IDS = [document.ids for document in DOCUMENTS]
SPLITS = {"train": DOCUMENTS, "validation": DOCUMENTS[:3]}


def made(tmp_path: Path, layout: str, dtype: str, shards: int | None = 15) -> Path:
    return make_dataset(
        tmp_path / "ids", TOKENIZER, SPLITS, layout=layout, dtype=dtype, shard_documents=shards
    )


def flat(documents: list[list[int]]) -> list[int]:
    return [token_id for ids in documents for token_id in ids]


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_numpy(tmp_path: Path, dtype: str) -> None:
    path = made(tmp_path, "npy", dtype)
    files = sorted((path / "train").glob("tokens-*.npy"))
    assert len(files) == 3
    found: list[list[int]] = []
    for file in files:
        ids = np.load(file, mmap_mode="r")
        ends = np.load(file.with_name(file.name.replace("tokens", "documents")))
        assert ids.dtype == dtype
        found += [part.tolist() for part in np.split(ids, ends[:-1].astype(int))]
    assert found == IDS


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_nanogpt(tmp_path: Path, dtype: str) -> None:
    path = made(tmp_path, "bin", dtype, shards=None)
    # As nanoGPT's train.py does.
    data = np.memmap(path / "train.bin", dtype=dtype, mode="r")
    assert data.tolist() == flat(IDS)
    assert np.memmap(path / "val.bin", dtype=dtype, mode="r").tolist() == flat(IDS[:3])


def read_llmc(file: Path) -> list[int]:
    """As llm.c's dataloader.h checks a shard."""
    with file.open("rb") as shard:
        header = struct.unpack("<256i", shard.read(1024))
        width = {20240520: "H", 20240801: "I"}[header[0]]
        assert header[1] == 1
        count = header[2]
        data = shard.read()
    assert len(data) == count * struct.calcsize(width)
    return list(struct.unpack(f"<{count}{width}", data))


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_llmc(tmp_path: Path, dtype: str) -> None:
    path = made(tmp_path, "llmc", dtype)
    files = sorted(path.glob("ids_train_*.bin"))
    assert [file.name for file in files] == [f"ids_train_{n:06d}.bin" for n in range(3)]
    assert flat([read_llmc(file) for file in files]) == flat(IDS)
    assert read_llmc(path / "ids_val_000000.bin") == flat(IDS[:3])


def read_megatron(prefix: Path) -> list[list[int]]:
    """As Megatron's IndexedDataset reads a pair of files: documents of sequences."""
    with open(f"{prefix}.idx", "rb") as index:
        assert index.read(9) == b"MMIDIDX\x00\x00"
        version, code, num_sequences, num_borders = struct.unpack("<QBQQ", index.read(25))
        assert version == 1
        width = {4: "i", 8: "H"}[code]
        lengths = struct.unpack(f"<{num_sequences}i", index.read(4 * num_sequences))
        pointers = struct.unpack(f"<{num_sequences}q", index.read(8 * num_sequences))
        borders = struct.unpack(f"<{num_borders}q", index.read(8 * num_borders))
        assert index.read() == b""
    data = Path(f"{prefix}.bin").read_bytes()
    sequences = [
        struct.unpack_from(f"<{length}{width}", data, pointer)
        for length, pointer in zip(lengths, pointers, strict=True)
    ]
    assert sum(lengths) * struct.calcsize(width) == len(data)
    return [
        [token_id for sequence in sequences[start:end] for token_id in sequence]
        for start, end in pairwise(borders)
    ]


@pytest.mark.parametrize("dtype", ["uint16", "int32"])
def test_megatron(tmp_path: Path, dtype: str) -> None:
    path = made(tmp_path, "megatron", dtype)
    prefixes = [path / f"ids_train_{n:05d}_text_document" for n in range(3)]
    assert [ids for prefix in prefixes for ids in read_megatron(prefix)] == IDS
    assert read_megatron(path / "ids_valid_text_document") == IDS[:3]


def datatrove_writes(folder: Path, documents: list[Document], token_size: int) -> None:
    """The same documents through datatrove 0.10.1 itself."""
    file = TokenizedFile(
        str(folder),
        "00000_tokens.ds",
        save_loss_metadata=documents[0].mask is not None,
        tokenizer_name_or_path="tokenizer/tokenizer.json",
        save_final_metadata=True,
        token_size=token_size,
    )
    for document in documents:
        mask = None if document.mask is None else np.array(document.mask, bool)
        file.write(document.ids, mask)
    file.close()


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
@pytest.mark.parametrize("mode", ["pretrain", "sft"])
def test_datatrove_writes_the_same_bytes(tmp_path: Path, dtype: str, mode: str) -> None:
    documents = DOCUMENTS if mode == "pretrain" else ROWS
    path = make_dataset(
        tmp_path / "ids",
        TOKENIZER,
        {"train": documents},
        layout="datatrove",
        dtype=dtype,
        mode=mode,
    )
    theirs = tmp_path / "theirs"
    datatrove_writes(theirs, documents, 2 if dtype == "uint16" else 4)
    names = sorted(file.name for file in theirs.iterdir())
    assert len(names) == (3 if mode == "pretrain" else 4)
    for name in names:
        assert (theirs / name).read_bytes() == (path / "train" / name).read_bytes(), name


def test_what_datatrove_wrote_can_be_opened(tmp_path: Path) -> None:
    datatrove_writes(tmp_path, ROWS, 4)
    dataset = tm.Dataset.open(tmp_path / "00000_tokens.ds")
    assert [document.tolist() for document in dataset] == [row.ids for row in ROWS]
    assert dataset.mask is not None
    assert dataset.mask.tolist() == [m for row in ROWS for m in row.mask or []]


@pytest.mark.parametrize("layout", ["npy", "bin", "llmc", "megatron", "datatrove"])
def test_our_own_reader(tmp_path: Path, layout: str) -> None:
    dtype = "int32" if layout == "megatron" else "uint32"
    path = made(tmp_path, layout, dtype, shards=None if layout == "bin" else 7)
    dataset = tm.Dataset.open(path)
    assert [document.tolist() for document in dataset] == IDS
    assert [document.tolist() for document in dataset["validation"]] == IDS[:3]
