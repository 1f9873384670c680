"""A dataset holds exactly the ids of its documents, whatever cut, threaded or interrupted the work."""

import json
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from plain_encoding import EOT, arrays, digests, encode, expected, write_jsonl

import tokenmill as tm
from tokenmill.dataset.encode import prepare_encode
from tokenmill.dataset.manifest import read_manifest
from tokenmill.errors import ConfigError, SourceError, VocabError


@pytest.mark.parametrize(("bos", "eos"), [(None, EOT), ("<|bos|>", EOT), ("<|bos|>", None)])
def test_ids_ends_and_bytes_are_those_of_the_documents(
    tmp_path: Path, tokenizer: tm.Tokenizer, documents: list[str], bos: str | None, eos: str | None
) -> None:
    file = write_jsonl(tmp_path / "a.jsonl", documents)
    encode(file, tokenizer, tmp_path / "out", bos=bos, eos=eos)
    assert arrays(tmp_path / "out") == expected(tokenizer, documents, bos, eos)


@pytest.mark.parametrize("kind", ["txt", "parquet", "jsonl.gz", "arrow", "objects"])
def test_every_kind_of_source_gives_the_same(
    tmp_path: Path, tokenizer: tm.Tokenizer, documents: list[str], kind: str
) -> None:
    separator = "\x01"
    source: object = tmp_path / f"a.{kind}"
    table = pa.table({"text": documents})
    if kind == "txt":
        (tmp_path / "a.txt").write_text(separator.join(documents))
    elif kind == "parquet":
        pq.write_table(table, tmp_path / "a.parquet", row_group_size=50)
    elif kind == "jsonl.gz":
        import gzip

        text = write_jsonl(tmp_path / "b.json", documents).read_bytes()
        (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(text))
    elif kind == "arrow":
        with pa.ipc.new_file(tmp_path / "a.arrow", table.schema) as file:
            file.write_table(table)
    else:
        source = tm.documents(documents)
    encode(source, tokenizer, tmp_path / "out", separator=separator)
    assert arrays(tmp_path / "out") == expected(tokenizer, documents)


def test_threads_blocks_and_units_leave_no_trace(
    tmp_path: Path, tokenizer: tm.Tokenizer, documents: list[str]
) -> None:
    text = tmp_path / "a.txt"
    text.write_text("\x01".join(documents))
    rng = random.Random(1)
    found = set[str]()
    for index in range(12):
        out = tmp_path / str(index) / "ids"
        threads, block = rng.choice([1, 2, 3, 8]), rng.choice([16, 100, 999, 1 << 20])
        unit = rng.choice([1000, 7000, 1 << 28])
        keywords = {"threads": threads, "block_bytes": block, "unit_bytes": unit}
        encode(text, tokenizer, out, separator="\x01", shard_tokens=3000, **keywords)
        found.add(json.dumps(digests(out)))
    assert len(found) == 1


def test_shards_hold_whole_documents(
    tmp_path: Path, tokenizer: tm.Tokenizer, documents: list[str]
) -> None:
    file = write_jsonl(tmp_path / "a.jsonl", documents)
    manifest = encode(file, tokenizer, tmp_path / "out", shard_tokens=1000)
    shards = manifest.splits["train"].shards
    ids: list[int] = []
    num_bytes: list[int] = []
    for number, shard in enumerate(shards):
        tokens, ends, sizes = arrays(tmp_path / "out", shard=number)
        assert (len(tokens), len(ends), sum(sizes)) == (shard.tokens, shard.documents, shard.bytes)
        assert ends[-1] == len(tokens)
        assert len(ends) == 1 or ends[-2] < 1000, "closed at the first end at or after 1,000"
        assert len(tokens) >= 1000 or number == len(shards) - 1
        ids += tokens
        num_bytes += sizes
    whole, _, sizes = expected(tokenizer, documents)
    assert (ids, num_bytes) == (whole, sizes)


def test_names_make_splits(tmp_path: Path, tokenizer: tm.Tokenizer) -> None:
    folder = tmp_path / "test" / "data"  # what the caller named does not count
    for name in ("train/a", "train/b", "valid/c", "x-test", "test-00000-of-00001", "validation"):
        write_jsonl(folder / f"{name}.jsonl", [name])
    manifest = encode(folder, tokenizer, tmp_path / "out")
    texts = {
        split: tokenizer.decode([i for i in arrays(tmp_path / "out", split)[0] if i < 298])
        for split in manifest.splits
    }
    assert texts == {
        "train": "train/atrain/b",
        "validation": "valid/cvalidation",
        "test": "test-00000-of-00001x-test",
    }
    assert [(each.name, each.split) for each in manifest.inputs][:2] == [
        ("a.jsonl", "train"),
        ("b.jsonl", "train"),
    ]


def test_held_out_documents_depend_on_their_text_alone(
    tmp_path: Path, tokenizer: tm.Tokenizer, documents: list[str]
) -> None:
    def splits(texts: list[str], name: str, seed: int) -> tuple[list[str], list[str]]:
        file = write_jsonl(tmp_path / name / "a.jsonl", texts)
        out = tmp_path / name / "out"
        encode(file, tokenizer, out, eos=None, val_fraction=0.2, seed=seed, block_bytes=200)
        found: list[list[str]] = []
        for split in ("train", "validation"):
            ids, ends, _ = arrays(out, split)
            starts = [0, *ends[:-1]]
            found.append([tokenizer.decode(ids[a:b]) for a, b in zip(starts, ends, strict=True)])
        return found[0], found[1]

    train, validation = splits(documents, "a", 1)
    assert 0.1 < len(validation) / len(documents) < 0.3
    assert sorted(train + validation) == sorted(documents)
    assert not set(train) & set(validation), "equal documents go the same way"
    backwards = splits(documents[::-1], "b", 1)
    assert backwards == (train[::-1], validation[::-1])
    assert splits(documents, "c", 2)[1] != validation


def test_shuffled_documents_are_the_same_documents(
    tmp_path: Path, tokenizer: tm.Tokenizer, documents: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_jsonl(tmp_path / "a.jsonl", documents)

    def shuffled(name: str, seed: int) -> list[tuple[tuple[int, ...], int]]:
        encode(file, tokenizer, tmp_path / name, shuffle_documents=seed, unit_bytes=5000)
        ids, ends, sizes = arrays(tmp_path / name)
        starts = [0, *ends[:-1]]
        texts = [tuple(ids[a:b]) for a, b in zip(starts, ends, strict=True)]
        return list(zip(texts, sizes, strict=True))

    plain_ids, plain_ends, plain_sizes = expected(tokenizer, documents)
    starts = [0, *plain_ends[:-1]]
    plain = [
        (tuple(plain_ids[a:b]), size)
        for a, b, size in zip(starts, plain_ends, plain_sizes, strict=True)
    ]
    first = shuffled("one", 1)
    assert first != plain
    assert sorted(first) == sorted(plain)
    assert shuffled("two", 2) != first
    monkeypatch.setattr("tokenmill.dataset.encode_job.SHUFFLE_BYTES", 2000)
    assert shuffled("small", 1) == first, "memory leaves no trace"
    assert not list(tmp_path.rglob("*bucket*"))


def test_special_tokens_in_the_text_are_text_and_counted(
    tmp_path: Path, tokenizer: tm.Tokenizer
) -> None:
    texts = [f"a{EOT}b{EOT}", "<|bos|>", "plain"]
    file = write_jsonl(tmp_path / "a.jsonl", texts)
    manifest = encode(file, tokenizer, tmp_path / "out")
    assert manifest.report["special_lookalikes"] == {EOT: 2, "<|bos|>": 1}
    ids = arrays(tmp_path / "out")[0]
    assert ids.count(tokenizer.special_tokens[EOT]) == len(texts)
    assert ids == expected(tokenizer, texts)[0]
    allowed = encode(file, tokenizer, tmp_path / "allowed", allow_special=[EOT])
    assert allowed.report["special_lookalikes"] == {"<|bos|>": 1}
    assert arrays(tmp_path / "allowed")[0].count(tokenizer.special_tokens[EOT]) == len(texts) + 2


def test_one_plain_file(tmp_path: Path, tokenizer: tm.Tokenizer, documents: list[str]) -> None:
    file = write_jsonl(tmp_path / "a.jsonl", documents)
    encode(file, tokenizer, tmp_path / "ids.npy")
    ids = np.load(tmp_path / "ids.npy", mmap_mode="r")
    assert ids.dtype == np.uint16
    assert ids.tolist() == expected(tokenizer, documents)[0]
    encode(file, tokenizer, tmp_path / "ids.bin")
    assert np.fromfile(tmp_path / "ids.bin", np.uint16).tolist() == ids.tolist()
    manifest = read_manifest(tmp_path / "ids.npy")
    assert manifest is not None
    (shard,) = manifest.splits["train"].shards
    assert shard.files["tokens"].path == "ids.npy"
    names = sorted(path.name for path in tmp_path.iterdir())
    beside = ["ids.bin", "ids.bin.manifest.json", "ids.npy", "ids.npy.manifest.json"]
    assert names == ["a.jsonl", *beside]


def test_the_same_again_is_done_already(tmp_path: Path, tokenizer: tm.Tokenizer) -> None:
    file = write_jsonl(tmp_path / "a.jsonl", ["low", "lower"])
    out = tmp_path / "out"
    first = prepare_encode(file, tokenizer, out, progress=False).run()
    again = prepare_encode(file, tokenizer, out, progress=False).run()
    assert first.report is not None
    assert again.report is None
    assert again.manifest == first.manifest
    with pytest.raises(ConfigError, match=r"with eos `<\|endoftext\|>`, not `None`"):
        encode(file, tokenizer, out, eos=None)
    other = tokenizer.with_special_tokens(["<|x|>"])
    with pytest.raises(ConfigError, match=f"{tokenizer.sha256[:16]}.*{other.sha256[:16]}"):
        encode(file, other, out)
    write_jsonl(file, ["low", "lowest"])
    with pytest.raises(ConfigError, match="from other text"):
        encode(file, tokenizer, out)
    encode(file, tokenizer, out, force=True)
    assert arrays(out)[0] == expected(tokenizer, ["low", "lowest"])[0]
    (out / "mine.txt").write_text("precious")
    with pytest.raises(ConfigError, match=r"mine.txt.*would be deleted"):
        encode(file, tokenizer, out, force=True, eos=None)


def test_what_cannot_work_is_refused_before_it_starts(
    tmp_path: Path, tokenizer: tm.Tokenizer
) -> None:
    file = write_jsonl(tmp_path / "a.jsonl", ["low"])
    out = tmp_path / "out"
    bare = tm.train(tm.documents(["low lower"]), vocab_size=260, special_tokens=[])
    with pytest.raises(VocabError, match=r"no special token `<\|endoftext\|>`"):
        encode(file, bare, out)
    for keywords, message in (
        ({"layout": "nump"}, "npy"),
        ({"val_fraction": 1.0}, "val fraction 1.0"),
        ({"val_fraction": 0.0}, "val fraction 0.0"),
        ({"shard_tokens": 0}, "shard tokens"),
        ({"layout": "bin", "shard_tokens": 5}, "one file"),
        ({"dtype": "int8"}, "uint16"),
        ({"threads": 0}, "threads is 0"),
        ({"seed": -1}, "seed"),
    ):
        with pytest.raises(ConfigError, match=message):
            encode(file, tokenizer, out, **keywords)
    with pytest.raises(SourceError, match="does not exist"):
        encode(tmp_path / "b.jsonl", tokenizer, out)
    with pytest.raises(ConfigError, match="no document"):
        encode(write_jsonl(tmp_path / "empty.jsonl", []), tokenizer, out)
    assert not out.exists()


def test_a_broken_document_leaves_finished_units(
    tmp_path: Path, tokenizer: tm.Tokenizer, documents: list[str]
) -> None:
    files = [write_jsonl(tmp_path / f"d/{n}.jsonl", documents[n::3]) for n in range(3)]
    good = files[2].read_bytes()
    files[2].write_bytes(good + b'{"text": 7}\n')
    out = tmp_path / "out"
    with pytest.raises(SourceError, match=r"2\.jsonl:\d+"):
        encode(tmp_path / "d", tokenizer, out, unit_bytes=55_000)
    assert not out.exists()
    # The file that changed was not among the finished units, so the work goes on.
    files[2].write_bytes(good)
    encode(tmp_path / "d", tokenizer, out, unit_bytes=55_000)
    order = [text for n in range(3) for text in documents[n::3]]
    assert arrays(out) == expected(tokenizer, order)


def test_a_finished_input_that_changed_is_an_error(
    tmp_path: Path, tokenizer: tm.Tokenizer, documents: list[str]
) -> None:
    first = write_jsonl(tmp_path / "d/0.jsonl", documents)
    second = write_jsonl(tmp_path / "d/1.jsonl", documents)
    second.write_bytes(b"{\n")
    out = tmp_path / "out"
    with pytest.raises(SourceError):
        encode(tmp_path / "d", tokenizer, out, unit_bytes=10_000)
    write_jsonl(first, ["another"])
    with pytest.raises(ConfigError, match=r"0\.jsonl` changed since"):
        encode(tmp_path / "d", tokenizer, out, unit_bytes=10_000)
    write_jsonl(second, ["text"])
    encode(tmp_path / "d", tokenizer, out, unit_bytes=10_000, force=True)
    assert arrays(out) == expected(tokenizer, ["another", "text"])
