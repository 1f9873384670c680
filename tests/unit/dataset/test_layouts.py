"""Layouts: names, headers, types of ids, and the further files, byte by byte."""

import io
import struct
from pathlib import Path

import numpy as np
import pytest

from tokenmill.dataset.arrays import map_items, map_npy, npy_header, read_npy_header
from tokenmill.dataset.layouts import LAYOUTS, layout_named, open_tokens
from tokenmill.dataset.layouts.datatrove import _rounded
from tokenmill.errors import ConfigError, FormatError, SourceError


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64", "int32"])
@pytest.mark.parametrize("length", [0, 1, 9, 10, 123_456])
def test_header_is_numpys(tmp_path: Path, dtype: str, length: int) -> None:
    saved = io.BytesIO()
    np.save(saved, np.zeros(length, dtype))
    assert npy_header(dtype, length) == saved.getvalue()[:128]
    (tmp_path / "x.npy").write_bytes(saved.getvalue())
    assert read_npy_header(tmp_path / "x.npy") == (dtype, length)
    assert len(map_npy(tmp_path / "x.npy", dtype, length)) == length


def test_header_of_a_length_beyond_any_disk() -> None:
    assert len(npy_header("uint16", 2**63)) == 128


def test_a_file_of_another_size_is_never_mapped(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    for size in (0, 9, 11, 12):
        path.write_bytes(bytes(size))
        with pytest.raises(FormatError, match=rf"x\.bin` is .*take 10 bytes.*found {size}"):
            map_items(path, "uint16", 5)
    with pytest.raises(SourceError, match="does not exist"):
        map_items(tmp_path / "y.bin", "uint16", 5)


@pytest.mark.parametrize("name", LAYOUTS)
def test_tokens_of_every_layout(tmp_path: Path, name: str) -> None:
    layout = layout_named(name)
    ids = np.array([1, 2, 65535], "<u2")
    path = tmp_path / "tokens"
    header = layout.header(3, "uint16")
    assert len(header) == layout.header_bytes
    path.write_bytes(header + ids.tobytes())
    assert open_tokens(layout, path, 3, "uint16").tolist() == [1, 2, 65535]
    if header:
        path.write_bytes(bytes(len(header)) + ids.tobytes())
        with pytest.raises(FormatError, match="does not start with the header"):
            open_tokens(layout, path, 3, "uint16")


@pytest.mark.parametrize("name", LAYOUTS)
def test_types_of_ids(name: str) -> None:
    layout = layout_named(name)
    wide = "int32" if name == "megatron" else "uint32"
    assert layout.dtype_for(256) == layout.dtype_for(65_536) == "uint16"
    assert layout.dtype_for(65_537) == layout.dtype_for(2**31) == wide
    assert layout.dtype_for(256, wide) == wide
    with pytest.raises(ConfigError, match=f"65,537 ids does not fit into `uint16`[^@]*`{wide}`"):
        layout.dtype_for(65_537, "uint16")
    with pytest.raises(ConfigError, match=f"hold `uint16` or `{wide}`, not `uint64`"):
        layout.dtype_for(256, "uint64")
    with pytest.raises(ConfigError, match="does not fit"):
        layout.dtype_for(2**32 + 1)


def test_megatron_has_no_uint32() -> None:
    with pytest.raises(ConfigError, match="not `uint32`"):
        layout_named("megatron").dtype_for(100_000, "uint32")
    with pytest.raises(ConfigError, match="does not fit into `int32`"):
        layout_named("megatron").dtype_for(2**31 + 1)


def test_names_of_files() -> None:
    def paths(name: str, num_shards: int = 2) -> list[str]:
        layout = layout_named(name)
        return [
            layout.token_path("ids", split, shard, num_shards)
            for split, shard in (("train", 0), ("train", 1), ("validation", 0), ("test", 0))
        ]

    assert paths("npy")[:3] == [
        "train/tokens-00000.npy",
        "train/tokens-00001.npy",
        "validation/tokens-00000.npy",
    ]
    assert [paths("bin", 1)[i] for i in (0, 2, 3)] == ["train.bin", "val.bin", "test.bin"]
    assert paths("llmc")[1:3] == ["ids_train_000001.bin", "ids_val_000000.bin"]
    assert paths("megatron")[1:3] == [
        "ids_train_00001_text_document.bin",
        "ids_valid_00000_text_document.bin",
    ]
    assert paths("megatron", 1)[0] == "ids_train_text_document.bin"
    assert paths("datatrove")[1] == "train/00001_tokens.ds"


def test_llmc_header() -> None:
    layout = layout_named("llmc")
    header = struct.unpack("<256i", layout.header(7, "uint32"))
    assert header == (20240801, 1, 7, *[0] * 253)
    assert struct.unpack("<i", layout.header(7, "uint16")[:4]) == (20240520,)
    with pytest.raises(ConfigError, match="2,147,483,647 tokens at most"):
        layout.header(2**31, "uint16")


def test_megatron_index(tmp_path: Path) -> None:
    np.save(tmp_path / "documents.npy", np.array([3, 3, 8], "uint64"))
    tokens = tmp_path / "x_train_text_document.bin"
    made = layout_named("megatron").sidecars(
        tokens, tmp_path / "documents.npy", None, dtype="int32", tokenizer="t"
    )
    assert made["index"].name == "x_train_text_document.idx"
    data = made["index"].read_bytes()
    assert data[:34] == b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 4, 3, 4)
    assert struct.unpack("<3i", data[34:46]) == (3, 0, 5)
    assert struct.unpack("<3q", data[46:70]) == (0, 12, 12)
    assert struct.unpack("<4q", data[70:]) == (0, 1, 2, 3)


def test_megatron_cannot_count_a_document_of_2_31_tokens(tmp_path: Path) -> None:
    np.save(tmp_path / "documents.npy", np.array([2**31], "uint64"))
    with pytest.raises(ConfigError, match="2,147,483,648 tokens does not fit"):
        layout_named("megatron").sidecars(
            tmp_path / "x.bin", tmp_path / "documents.npy", None, dtype="int32", tokenizer="t"
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["documents.npy"]


def test_many_documents_take_several_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = np.cumsum(np.arange(1, 1000)).astype("uint64")
    np.save(tmp_path / "documents.npy", ends)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()

    def index(folder: Path) -> bytes:
        made = layout_named("megatron").sidecars(
            folder / "x.bin", tmp_path / "documents.npy", None, dtype="uint16", tokenizer="t"
        )
        return made["index"].read_bytes()

    whole = index(tmp_path / "a")
    monkeypatch.setattr("tokenmill.dataset.arrays.BLOCK_ITEMS", 7)
    assert index(tmp_path / "b") == whole
    assert np.frombuffer(whole[34 : 34 + 4 * 999], "<i4").tolist() == list(range(1, 1000))


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0.00 T"),
        (7, "7.00 T"),
        (12, "12.0 T"),
        (999, "999 T"),
        (1234, "1.23 kT"),
        (1_500_000, "1.50 MT"),
        (10**10, "10.0 GT"),
        (123_456_789_012, "123 GT"),
    ],
)
def test_datatroves_rounding(number: int, text: str) -> None:
    assert _rounded(number) == text


def test_unknown_layout() -> None:
    with pytest.raises(ConfigError, match="`parquet` is no layout"):
        layout_named("parquet")
