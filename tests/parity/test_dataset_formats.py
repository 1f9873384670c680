"""Every layout read by somebody else: numpy, datatrove's own writer, and readers written here from the
formats' descriptions, which know nothing of the package."""

import json
import struct
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from datatrove.pipeline.tokens.tokenizer import TokenizedFile
from make_dataset import Document, encoded, make_dataset, masked, small_tokenizer

import tokenmill as tm

TOKENIZER = small_tokenizer()
TEXTS = [f"document {i}: the cat {'sat ' * (i % 7)}" for i in range(40)]
DOCUMENTS = encoded(TOKENIZER, TEXTS)
ROWS = masked(TOKENIZER, [(f"question {i} ", f"the answer {i}") for i in range(10)])
IDS = [document.ids for document in DOCUMENTS]
SPLITS = {"train": DOCUMENTS, "validation": DOCUMENTS[:3]}


@pytest.fixture(params=["encode_dataset", "by hand"])
def writer(request: pytest.FixtureRequest) -> str:
    """The package's writer, and the one of the tests: both give what everybody else reads."""
    return request.param


def made(tmp_path: Path, writer: str, layout: str, dtype: str, *, one_shard: bool = False) -> Path:
    """The dataset `ids`, in three shards or more where the layout has them."""
    out = tmp_path / "ids"
    if writer == "by hand":
        shards = None if one_shard else 15
        return make_dataset(
            out, TOKENIZER, SPLITS, layout=layout, dtype=dtype, shard_documents=shards
        )
    for name, texts in (("train", TEXTS), ("valid", TEXTS[:3])):
        lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
        (tmp_path / f"{name}.jsonl").write_text(lines)
    inputs = [tmp_path / "train.jsonl", tmp_path / "valid.jsonl"]
    shard_tokens = None if one_shard else len(flat(IDS)) // 3
    tm.encode_dataset(inputs, TOKENIZER, out, layout=layout, dtype=dtype, shard_tokens=shard_tokens)
    return out


def flat(documents: list[list[int]]) -> list[int]:
    return [token_id for ids in documents for token_id in ids]


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_numpy(tmp_path: Path, writer: str, dtype: str) -> None:
    path = made(tmp_path, writer, "npy", dtype)
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
def test_nanogpt(tmp_path: Path, writer: str, dtype: str) -> None:
    path = made(tmp_path, writer, "bin", dtype, one_shard=True)
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
def test_llmc(tmp_path: Path, writer: str, dtype: str) -> None:
    path = made(tmp_path, writer, "llmc", dtype)
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
def test_megatron(tmp_path: Path, writer: str, dtype: str) -> None:
    path = made(tmp_path, writer, "megatron", dtype)
    prefixes = [path / f"ids_train_{n:05d}_text_document" for n in range(3)]
    assert [ids for prefix in prefixes for ids in read_megatron(prefix)] == IDS
    assert read_megatron(path / "ids_valid_text_document") == IDS[:3]


def datatrove_writes(
    folder: Path, documents: list[Document], token_size: int, name: str = "gpt2"
) -> None:
    """The same documents through datatrove 0.10.1 itself."""
    file = TokenizedFile(
        str(folder),
        "00000_tokens.ds",
        save_loss_metadata=documents[0].mask is not None,
        tokenizer_name_or_path=name,
        save_final_metadata=True,
        token_size=token_size,
    )
    for document in documents:
        mask = None if document.mask is None else np.array(document.mask, bool)
        file.write(document.ids, mask)
    file.close()


def compare_with_datatrove(
    path: Path, tmp_path: Path, documents: list[Document], dtype: str
) -> int:
    """Every file that datatrove writes is there with the same bytes; gives how many."""
    theirs = tmp_path / "theirs"
    metadata = (path / "train/00000_tokens.ds.metadata").read_text()
    tokenizer = metadata.partition("|")[0]
    assert tokenizer == TOKENIZER.sha256
    datatrove_writes(theirs, documents, 2 if dtype == "uint16" else 4, tokenizer)
    names = sorted(file.name for file in theirs.iterdir())
    for name in names:
        assert (theirs / name).read_bytes() == (path / "train" / name).read_bytes(), name
    return len(names)


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_datatrove_writes_the_same_bytes(tmp_path: Path, writer: str, dtype: str) -> None:
    path = made(tmp_path, writer, "datatrove", dtype, one_shard=True)
    assert compare_with_datatrove(path, tmp_path, DOCUMENTS, dtype) == 3


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_datatrove_writes_the_same_masks(tmp_path: Path, dtype: str) -> None:
    path = make_dataset(
        tmp_path / "ids", TOKENIZER, {"train": ROWS}, layout="datatrove", dtype=dtype, mode="sft"
    )
    assert compare_with_datatrove(path, tmp_path, ROWS, dtype) == 4


def test_what_datatrove_wrote_can_be_opened(tmp_path: Path) -> None:
    datatrove_writes(tmp_path, ROWS, 4)
    dataset = tm.Dataset.open(tmp_path / "00000_tokens.ds")
    assert [document.tolist() for document in dataset] == [row.ids for row in ROWS]
    assert dataset.mask is not None
    assert dataset.mask.tolist() == [m for row in ROWS for m in row.mask or []]


@pytest.mark.parametrize("layout", ["npy", "bin", "llmc", "megatron", "datatrove"])
def test_our_own_reader(tmp_path: Path, writer: str, layout: str) -> None:
    dtype = "int32" if layout == "megatron" else "uint32"
    path = made(tmp_path, writer, layout, dtype, one_shard=layout == "bin")
    dataset = tm.Dataset.open(path)
    assert len(dataset["train"].shards) == (1 if layout == "bin" else 3)
    assert [document.tolist() for document in dataset] == IDS
    assert [document.tolist() for document in dataset["validation"]] == IDS[:3]
