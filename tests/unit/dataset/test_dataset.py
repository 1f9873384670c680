"""Dataset: what was written is what is read, in every layout, over shards, without copies."""

import gc
import pickle
import struct
import subprocess
import sys
import weakref
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from make_dataset import EOS, TEXTS, Document, encoded, make_dataset, masked, small_tokenizer

import tokenmill as tm
from tokenmill.dataset.layouts import LAYOUTS
from tokenmill.dataset.manifest import (
    Manifest,
    Shard,
    Split,
    record_file,
    record_tokenizer,
)
from tokenmill.dataset.shards import ShardedArray

TOKENIZER = small_tokenizer()
DOCUMENTS = encoded(TOKENIZER, TEXTS)


def flat(documents: list[Document]) -> list[int]:
    return [token_id for document in documents for token_id in document.ids]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shard_documents", [None, 1, 4])
def test_documents_of_every_layout(
    tmp_path: Path, layout: str, shard_documents: int | None
) -> None:
    if layout == "bin" and shard_documents is not None:
        shard_documents = None
    splits = {"train": DOCUMENTS, "validation": DOCUMENTS[:2]}
    path = make_dataset(
        tmp_path / "ids", TOKENIZER, splits, layout=layout, shard_documents=shard_documents
    )
    dataset = tm.Dataset.open(path)
    assert list(dataset.splits) == ["train", "validation"]
    assert dataset.num_documents == len(dataset) == 6
    assert dataset.num_tokens == len(dataset.tokens) == len(flat(DOCUMENTS))
    assert np.asarray(dataset.tokens).tolist() == flat(DOCUMENTS)
    assert [document.tolist() for document in dataset] == [each.ids for each in DOCUMENTS]
    for index, document in enumerate(DOCUMENTS):
        assert dataset.document(index).tolist() == document.ids
        assert dataset.document(index - 6).tolist() == document.ids
        assert dataset.bytes_of(index) == document.num_bytes
    assert dataset["train"].num_bytes == sum(len(text.encode()) for text in TEXTS)
    assert dataset["val"] is dataset["validation"]
    assert len(dataset["validation"]) == 2
    assert dataset.mask is None
    assert dataset.tokenizer == TOKENIZER
    assert dataset.tokenizer.decode(dataset.document(2)) == TEXTS[2] + EOS


def test_one_shard_is_a_memory_map_and_documents_are_views(tmp_path: Path) -> None:
    dataset = tm.Dataset.open(make_dataset(tmp_path / "ids", TOKENIZER, {"train": DOCUMENTS}))
    assert isinstance(dataset.tokens, np.memmap)
    assert np.shares_memory(dataset.document(3), dataset.tokens)
    assert not dataset.tokens.flags.writeable


def test_shards_read_like_one_array(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "ids", TOKENIZER, {"train": DOCUMENTS}, shard_documents=2)
    tokens = tm.Dataset.open(path).tokens
    assert isinstance(tokens, ShardedArray)
    whole = np.array(flat(DOCUMENTS), "uint16")
    size = len(whole)
    assert (tokens.shape, tokens.ndim, tokens.size) == ((size,), 1, size)
    assert tokens.dtype == np.uint16
    borders = sorted({0, 1, 5, size // 2, size - 1, size, len(DOCUMENTS[0].ids)})
    for start in borders:
        for stop in borders:
            assert tokens[start:stop].tolist() == whole[start:stop].tolist()
            assert tokens[start : stop : 3 if start < stop else -2].tolist() == (
                whole[start : stop : 3 if start < stop else -2].tolist()
            )
    assert [int(tokens[i]) for i in range(-size, size)] == [*whole.tolist(), *whole.tolist()]
    assert list(tokens) == whole.tolist()
    assert tokens[[3, -1, 0]].tolist() == whole[[3, -1, 0]].tolist()
    assert tokens[whole > 200].tolist() == whole[whole > 200].tolist()
    assert np.shares_memory(tokens[0:3], tokens.shards[0])
    for wrong in (size, -size - 1, [0, size]):
        with pytest.raises(IndexError, match="out of bounds"):
            tokens[wrong]


def test_an_empty_split(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "ids", TOKENIZER, {"train": DOCUMENTS, "test": []})
    test = tm.Dataset.open(path)["test"]
    assert (len(test), test.num_tokens, len(test.tokens), list(test)) == (0, 0, 0, [])
    assert test.num_bytes == 0


@pytest.mark.parametrize("layout", ["npy", "datatrove"])
def test_masks(tmp_path: Path, layout: str) -> None:
    rows = masked(TOKENIZER, [("say hi: ", "hi"), ("the ", "cat sat"), ("", "on the mat")])
    splits = {"train": rows}
    path = make_dataset(
        tmp_path / "ids", TOKENIZER, splits, layout=layout, mode="sft", shard_documents=2
    )
    dataset = tm.Dataset.open(path)
    assert dataset.mode == "sft"
    train = dataset["train"]
    assert train.mask is not None
    assert np.asarray(train.mask).tolist() == [m for row in rows for m in row.mask or []]
    for index, row in enumerate(rows):
        mask = train.document_mask(index)
        assert mask is not None
        assert mask.tolist() == row.mask


def test_preference_pairs(tmp_path: Path) -> None:
    rows = masked(TOKENIZER, [("q ", "good"), ("q ", "bad"), ("the ", "cat"), ("the ", "x")])
    path = make_dataset(tmp_path / "ids", TOKENIZER, {"train": rows}, mode="preference")
    pairs = tm.Dataset.open(path).pairs
    assert len(pairs) == 2
    assert pairs[1].chosen.tolist() == rows[2].ids
    assert pairs[-1].rejected.tolist() == rows[3].ids
    assert pairs[0].rejected_mask.tolist() == rows[1].mask
    assert [pair.chosen.tolist() for pair in pairs] == [rows[0].ids, rows[2].ids]
    with pytest.raises(IndexError, match="pair 2 of split `train`: it has 2"):
        pairs[2]
    plain = make_dataset(tmp_path / "plain", TOKENIZER, {"train": DOCUMENTS})
    with pytest.raises(tm.ConfigError, match="pairs come with `preference`"):
        _ = tm.Dataset.open(plain).pairs


def test_what_is_not_there(tmp_path: Path) -> None:
    dataset = tm.Dataset.open(make_dataset(tmp_path / "ids", TOKENIZER, {"train": DOCUMENTS}))
    with pytest.raises(IndexError, match="document 6 of split `train`: it has 6"):
        dataset.document(6)
    with pytest.raises(tm.ConfigError, match="has no split `test`, it has `train`"):
        dataset["test"]
    with pytest.raises(tm.SourceError, match="does not exist"):
        tm.Dataset.open(tmp_path / "idz.npy")
    with pytest.raises(tm.FormatError, match=r"no `manifest\.json`"):
        tm.Dataset.open(tmp_path)
    with pytest.raises(tm.ConfigError, match="says `uint16`, not `uint32`"):
        tm.Dataset.open(tmp_path / "ids", dtype="uint32")


def test_another_tokenizer_is_refused_by_both_hashes(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "ids", TOKENIZER, {"train": DOCUMENTS})
    other = small_tokenizer(280)
    dataset = tm.Dataset.open(path, tokenizer=other)
    with pytest.raises(tm.ConfigError, match=f"{TOKENIZER.sha256}.*{other.sha256}"):
        _ = dataset.tokenizer
    assert tm.Dataset.open(path, tokenizer=TOKENIZER).tokenizer is TOKENIZER
    other.save(path / "tokenizer", force=True)
    with pytest.raises(tm.ConfigError, match=f"{TOKENIZER.sha256}.*{other.sha256}"):
        _ = tm.Dataset.open(path).tokenizer


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["tokens", "documents", "bytes"])
def test_a_cut_file_is_an_error_when_opened(tmp_path: Path, layout: str, kind: str) -> None:
    path = make_dataset(tmp_path / "ids", TOKENIZER, {"train": DOCUMENTS}, layout=layout)
    manifest = tm.Dataset.open(path).manifest
    assert manifest is not None
    file = path / manifest.splits["train"].shards[0].files[kind].path
    data = file.read_bytes()
    for changed in (data[:-1], data[: len(data) // 2], b"", data + b"\0"):
        file.write_bytes(changed)
        with pytest.raises(tm.FormatError, match=rf"{file.name}.*found {len(changed):,}$"):
            tm.Dataset.open(path)
    file.unlink()
    with pytest.raises(tm.SourceError, match="does not exist"):
        tm.Dataset.open(path)


def test_a_file_cut_after_opening_is_an_error_when_mapped(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "ids", TOKENIZER, {"train": DOCUMENTS})
    dataset = tm.Dataset.open(path)
    (path / "train/tokens-00000.npy").write_bytes(b"")
    with pytest.raises(tm.FormatError, match="is cut"):
        dataset.document(0)


def test_ends_that_go_back_are_an_error(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "ids", TOKENIZER, {"train": DOCUMENTS})
    file = path / "train/documents-00000.npy"
    ends = np.load(file)
    for wrong in (0, 2**63, 2**64 - 1):
        ends[2] = wrong
        np.save(file, ends)
        dataset = tm.Dataset.open(path)
        for index in (2, 3):
            if (wrong, index) != (0, 3):
                with pytest.raises(tm.FormatError, match="which cannot be"):
                    dataset.document(index)
        with pytest.raises(tm.FormatError, match="which cannot be"):
            list(dataset)


def test_a_changed_manifest_is_an_error(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "ids", TOKENIZER, {"train": DOCUMENTS})
    manifest = path / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"uint16"', b'"uint32"'))
    with pytest.raises(tm.FormatError, match="was changed since it was written"):
        tm.Dataset.open(path)


def plain_file(path: Path, documents: list[Document], eos: str | None = EOS) -> Path:
    """One .npy with its manifest beside it, as `--out x.npy` gives."""
    np.save(path, np.array(flat(documents), "uint16"))
    num_bytes = sum(document.num_bytes for document in documents)
    record = record_file(path.parent, path.name)
    shard = Shard(len(flat(documents)), len(documents), num_bytes, {"tokens": record})
    manifest = Manifest(
        mode="pretrain",
        layout="npy",
        dtype="uint16",
        tokenizer=record_tokenizer(TOKENIZER),
        splits={"train": Split((shard,))},
        eos=eos,
    )
    path.with_name(path.name + ".manifest.json").write_bytes(manifest.to_json())
    return path


def test_a_plain_file_with_its_manifest(tmp_path: Path) -> None:
    path = plain_file(tmp_path / "x.npy", DOCUMENTS)
    dataset = tm.Dataset.open(path, tokenizer=TOKENIZER)
    assert isinstance(dataset.tokens, np.memmap)
    assert [document.tolist() for document in dataset] == [each.ids for each in DOCUMENTS]
    assert dataset.bytes_of(0) is None
    assert dataset["train"].num_bytes == sum(each.num_bytes for each in DOCUMENTS)
    with pytest.raises(tm.ConfigError, match="comes without its tokenizer"):
        _ = tm.Dataset.open(path).tokenizer


def test_a_plain_file_that_does_not_say_where_documents_end(tmp_path: Path) -> None:
    dataset = tm.Dataset.open(plain_file(tmp_path / "x.npy", DOCUMENTS, eos=None))
    with pytest.raises(tm.FormatError, match="nothing says where the documents"):
        dataset.document(0)
    twice = [Document([*DOCUMENTS[0].ids, *DOCUMENTS[1].ids], 22)]
    dataset = tm.Dataset.open(plain_file(tmp_path / "y.npy", twice))
    with pytest.raises(tm.FormatError, match="2 times the end-of-document token for 1 documents"):
        dataset.document(0)


def test_windows(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "ids", TOKENIZER, {"train": DOCUMENTS}, shard_documents=2)
    train = tm.Dataset.open(path)["train"]
    whole = flat(DOCUMENTS)
    windows = train.windows(10)
    assert len(windows) == (len(whole) - 1) // 10
    assert [list(w) for w in windows] == [whole[10 * i : 10 * i + 11] for i in range(len(windows))]
    close = train.windows(10, stride=1)
    assert len(close) == len(whole) - 10
    assert list(close[-1]) == whole[-11:]
    assert all(list(a[1:]) == list(b[:-1]) for a, b in pairwise(close))
    assert len(train.windows(len(whole))) == 0
    assert len(train.windows(len(whole) - 1)) == 1
    with pytest.raises(IndexError, match="window"):
        windows[len(windows)]
    with pytest.raises(tm.ConfigError, match="length of windows is `0`"):
        train.windows(0)


def test_view_for_loaders(tmp_path: Path) -> None:
    rows = masked(TOKENIZER, [("say hi: ", "hi"), ("the ", "cat sat"), ("", "on the mat")])
    path = make_dataset(tmp_path / "ids", TOKENIZER, {"train": rows}, mode="sft")
    dataset = tm.Dataset.open(path)
    view = dataset.as_torch("train", length=4)
    ids, mask = flat(rows), [m for row in rows for m in row.mask or []]
    assert len(view) == (len(ids) - 1) // 4
    for index in range(len(view)):
        inputs, targets = (np.asarray(part) for part in view[index])
        assert inputs.dtype == targets.dtype == np.int64
        span = range(4 * index, 4 * index + 5)
        assert inputs.tolist() == [ids[i] for i in span][:-1]
        assert targets.tolist() == [ids[i] if mask[i] else -100 for i in span][1:]


def test_pickles_as_a_path(tmp_path: Path) -> None:
    path = make_dataset(tmp_path / "ids", TOKENIZER, {"train": DOCUMENTS})
    dataset = tm.Dataset.open(path)
    for thing in (dataset, dataset["train"], dataset["train"].windows(5), dataset.as_torch()):
        data = pickle.dumps(thing)
        assert len(data) < 1000
        assert type(pickle.loads(data)) is type(thing)  # noqa: S301
    again = pickle.loads(pickle.dumps(dataset["train"]))  # noqa: S301
    assert again.document(3).tolist() == DOCUMENTS[3].ids


def test_maps_are_let_go_of_without_a_collector(tmp_path: Path) -> None:
    """Nothing is in a circle, so that whoever opens many datasets does not pile up maps."""
    path = make_dataset(
        tmp_path / "ids", TOKENIZER, {"train": DOCUMENTS}, mode="preference", shard_documents=2
    )
    gc.collect()
    gc.disable()
    try:
        dataset = tm.Dataset.open(path)
        split = dataset["train"]
        kept = [dataset.tokenizer, split.tokens[:3], split.windows(5)[0], dataset.pairs]
        alive = [weakref.ref(each) for each in (dataset, split, split.shards[0].tokens)]
        del dataset, split, kept
        assert [each() for each in alive] == [None, None, None]
    finally:
        gc.enable()


def test_reading_a_document_does_not_read_the_file(tmp_path: Path) -> None:
    """A sparse file of 4 GB opens, and a document in it costs pages, not gigabytes."""
    count = 1 << 31
    folder = tmp_path / "ids"
    (folder / "train").mkdir(parents=True)
    from tokenmill.dataset.arrays import npy_header
    from tokenmill.dataset.manifest import FileRecord

    sparse = folder / "train/tokens-00000.npy"
    with sparse.open("wb") as file:
        file.write(npy_header("uint16", count))
        file.truncate(128 + 2 * count)
    np.save(folder / "train/documents-00000.npy", np.array([count // 2, count], "uint64"))
    np.save(folder / "train/bytes-00000.npy", np.array([1, 2], "uint64"))
    files = {"tokens": FileRecord("train/tokens-00000.npy", 128 + 2 * count, "0" * 64)} | {
        kind: record_file(folder, f"train/{kind}-00000.npy") for kind in ("documents", "bytes")
    }
    manifest = Manifest(
        mode="pretrain",
        layout="npy",
        dtype="uint16",
        tokenizer=record_tokenizer(TOKENIZER),
        splits={"train": Split((Shard(count, 2, 3, files),))},
    )
    (folder / "manifest.json").write_bytes(manifest.to_json())
    program = (
        "import resource, sys, tokenmill as tm\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "d = tm.Dataset.open(sys.argv[1])\n"
        "assert d.document(1)[:10].tolist() == [0] * 10 and len(d.document(0)) == 1 << 30\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 100_000, "kilobytes"


# Files of other tools, written here from their descriptions.


def test_foreign_npy(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(10, dtype="int64"))
    dataset = tm.Dataset.open(tmp_path / "x.npy", tokenizer=TOKENIZER)
    assert dataset.manifest is None
    assert dataset.tokens.tolist() == list(range(10))
    assert dataset.num_documents == 0
    np.save(tmp_path / "y.npy", np.zeros((2, 3)))
    with pytest.raises(tm.FormatError, match="2 dimensions of `float64`"):
        tm.Dataset.open(tmp_path / "y.npy")
    data = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(data[:-1])
    with pytest.raises(tm.FormatError, match=r"cannot be read as \.npy"):
        tm.Dataset.open(tmp_path / "x.npy")


def test_foreign_bin(tmp_path: Path) -> None:
    path = tmp_path / "train.bin"
    path.write_bytes(np.arange(10, dtype="<u2").tobytes())
    assert tm.Dataset.open(path, dtype="uint16").tokens.tolist() == list(range(10))
    with pytest.raises(tm.ConfigError, match="nothing says what type"):
        tm.Dataset.open(path)
    with pytest.raises(tm.FormatError, match="no multiple of the 8"):
        tm.Dataset.open(path, dtype="uint64")
    with pytest.raises(tm.ConfigError, match="`float32` is no type of ids"):
        tm.Dataset.open(path, dtype="float32")


def test_foreign_llmc(tmp_path: Path) -> None:
    path = tmp_path / "x_train_000000.bin"
    head = struct.pack("<3i", 20240520, 1, 10).ljust(1024, b"\0")
    path.write_bytes(head + np.arange(10, dtype="<u2").tobytes())
    assert tm.Dataset.open(path).tokens.tolist() == list(range(10))
    path.write_bytes(head + np.arange(9, dtype="<u2").tobytes())
    with pytest.raises(tm.FormatError, match="is cut"):
        tm.Dataset.open(path)


def megatron_index(lengths: list[int], borders: list[int], code: int = 8, width: int = 2) -> bytes:
    starts = [width * sum(lengths[:i]) for i in range(len(lengths))]
    return (
        b"MMIDIDX\0\0"
        + struct.pack("<QBQQ", 1, code, len(lengths), len(borders))
        + np.array(lengths, "<i4").tobytes()
        + np.array(starts, "<i8").tobytes()
        + np.array(borders, "<i8").tobytes()
    )


def test_foreign_megatron(tmp_path: Path) -> None:
    prefix = tmp_path / "x_text_document"
    (tmp_path / "x_text_document.bin").write_bytes(np.arange(10, dtype="<u2").tobytes())
    index = tmp_path / "x_text_document.idx"
    # Two documents: of two sequences, and of one.
    index.write_bytes(megatron_index([3, 2, 5], [0, 2, 3]))
    for path in (prefix, index, prefix.with_name("x_text_document.bin")):
        dataset = tm.Dataset.open(path)
        assert [each.tolist() for each in dataset] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    for broken, message in (
        (megatron_index([3, 2, 6], [0, 2, 3]), "is cut"),
        (megatron_index([3, 2, 5], [0, 2, 2]), "documents that do not follow"),
        (megatron_index([3, 2, 5], [0, 2, 3], width=4), "sequences that do not follow"),
        (megatron_index([3, 2, 5], [0, 2, 3], code=9), "type code 9"),
        (megatron_index([3, 2, 5], [0, 2, 3])[:-3], "is cut"),
        (b"MMIDIDX", "does not start"),
    ):
        index.write_bytes(broken)
        with pytest.raises(tm.FormatError, match=message):
            tm.Dataset.open(prefix)


def test_foreign_datatrove(tmp_path: Path) -> None:
    path = tmp_path / "00000_x.ds"
    path.write_bytes(np.arange(10, dtype="<u4").tobytes())
    (tmp_path / "00000_x.ds.index").write_bytes(np.array([4, 10], "<u8").tobytes())
    (tmp_path / "00000_x.ds.metadata").write_text("gpt2|4\n10\n10.0 T")
    (tmp_path / "00000_x.ds.loss").write_bytes(bytes([0] * 5 + [1] * 5))
    dataset = tm.Dataset.open(path)
    assert [each.tolist() for each in dataset] == [[0, 1, 2, 3], [4, 5, 6, 7, 8, 9]]
    assert dataset.mask is not None
    assert dataset.mask[4:6].tolist() == [0, 1]
    (tmp_path / "00000_x.ds.index").write_bytes(np.array([4, 11], "<u8").tobytes())
    with pytest.raises(tm.FormatError, match="ends at token 11"):
        tm.Dataset.open(path)
