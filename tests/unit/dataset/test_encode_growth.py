"""A dataset made by many jobs, or in several goes, is the one that one job would have made."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plain_encoding import arrays, digests, encode, expected, write_jsonl

import tokenmill as tm
from tokenmill.dataset.encode import EncodeResult, prepare_encode
from tokenmill.dataset.layouts import LAYOUTS
from tokenmill.errors import ConfigError
from tokenmill.work.folder import work_folder_of


@pytest.fixture
def data(tmp_path: Path, documents: list[str]) -> Path:
    for number in range(4):
        write_jsonl(tmp_path / f"data/{number}.jsonl", documents[number * 60 : number * 60 + 60])
    write_jsonl(tmp_path / "data/test.jsonl", documents[240:])
    return tmp_path / "data"


def run(data: Path, tokenizer: tm.Tokenizer, out: Path, **keywords: Any) -> EncodeResult:
    return prepare_encode(
        data, tokenizer, out, progress=False, unit_bytes=2000, shard_tokens=1000, **keywords
    ).run()


@pytest.mark.parametrize("jobs", [1, 3, 7, 100])
@pytest.mark.parametrize("more", [{}, {"val_fraction": 0.3, "shuffle_documents": 4}])
def test_jobs_collected_are_one_job(
    tmp_path: Path, data: Path, tokenizer: tm.Tokenizer, jobs: int, more: dict[str, Any]
) -> None:
    whole = tmp_path / "whole/ids"
    run(data, tokenizer, whole, **more)
    out = tmp_path / "ids"
    for job in reversed(range(jobs)):  # in any order
        result = run(data, tokenizer, out, part=f"{job}/{jobs}", threads=1, **more)
        assert result.manifest is None
    assert not out.exists()
    collected = run(data, tokenizer, out, collect=True, **more)
    assert digests(out) == digests(whole)
    assert collected.manifest is not None
    assert collected.manifest.report["documents"] == 300
    assert not work_folder_of(out).exists()


def test_parts_that_are_missing_or_of_something_else_are_named(
    tmp_path: Path, data: Path, tokenizer: tm.Tokenizer
) -> None:
    out = tmp_path / "ids"
    with pytest.raises(ConfigError, match="no parts to collect"):
        run(data, tokenizer, out, collect=True)
    for job in (0, 2):
        run(data, tokenizer, out, part=f"{job}/3")
    with pytest.raises(ConfigError, match=r"1 part of 3 not done yet: 1/3"):
        run(data, tokenizer, out, collect=True)
    run(data, tokenizer, out, part="1/3")
    with pytest.raises(ConfigError, match="other settings or inputs"):
        run(data, tokenizer, out, collect=True, eos=None)
    run(data, tokenizer, out, part="0/2")
    with pytest.raises(ConfigError, match="parts of 2 and of 3 jobs"):
        run(data, tokenizer, out, collect=True)
    for bad in ("3/3", "x", "1/0", "-1/2", "1/2/3"):
        with pytest.raises(ConfigError, match="does not name a job"):
            run(data, tokenizer, tmp_path / "other", part=bad)
    with pytest.raises(ConfigError, match="max-chars"):
        run(data, tokenizer, tmp_path / "other", part="0/2", max_chars=100)
    with pytest.raises(ConfigError, match=r"`--shard` and `--collect`"):
        run(data, tokenizer, tmp_path / "other", part="0/2", collect=True)


def test_appending_adds_shards(
    tmp_path: Path, data: Path, tokenizer: tm.Tokenizer, documents: list[str]
) -> None:
    out = tmp_path / "ids"
    last = shutil.move(data / "3.jsonl", tmp_path / "3.jsonl")
    test = shutil.move(data / "test.jsonl", tmp_path / "test.jsonl")
    first = encode(data, tokenizer, out)
    before = digests(out)
    grown = encode([last, test], tokenizer, out, append=True)
    assert [len(split.shards) for split in grown.splits.values()] == [2, 1]
    assert arrays(out, "train", 0) == expected(tokenizer, documents[:180])
    assert arrays(out, "train", 1) == expected(tokenizer, documents[180:240])
    assert arrays(out, "test", 0) == expected(tokenizer, documents[240:])
    assert grown.report["documents"] == first.report["documents"] + 120
    assert {**digests(out), **before} | {"manifest.json": ""} == digests(out) | {
        "manifest.json": ""
    }
    whole = tm.Dataset.open(out)
    assert np.asarray(whole["train"].tokens[:]).tolist() == expected(tokenizer, documents[:240])[0]
    # The same again is done already; half of it again is a mistake.
    again = prepare_encode([last, test], tokenizer, out, append=True, progress=False).run()
    assert again.report is None
    more = write_jsonl(tmp_path / "more.jsonl", ["more"])
    with pytest.raises(ConfigError, match=r"3\.jsonl` is in"):
        encode([last, more], tokenizer, out, append=True)
    with pytest.raises(ConfigError, match=tokenizer.sha256[:16]):
        encode(more, tokenizer.with_special_tokens(["<|x|>"]), out, append=True)
    with pytest.raises(ConfigError, match="with eos"):
        encode(more, tokenizer, out, append=True, eos=None)
    with pytest.raises(ConfigError, match="one file"):
        encode(more, tokenizer, tmp_path / "b", layout="bin", append=True)


def test_appending_to_nothing_begins(tmp_path: Path, data: Path, tokenizer: tm.Tokenizer) -> None:
    encode(data, tokenizer, tmp_path / "a/ids", append=True)
    encode(data, tokenizer, tmp_path / "b/ids")
    assert digests(tmp_path / "a/ids") == digests(tmp_path / "b/ids")


@pytest.mark.parametrize("layout", list(LAYOUTS))
@pytest.mark.parametrize("dtype", [None, "wide"])
def test_every_layout_is_read_back(
    tmp_path: Path, tokenizer: tm.Tokenizer, documents: list[str], layout: str, dtype: str | None
) -> None:
    file = write_jsonl(tmp_path / "a.jsonl", documents)
    wide = "int32" if layout == "megatron" else "uint32"
    out = tmp_path / "ids"
    encode(file, tokenizer, out, layout=layout, dtype=wide if dtype else None)
    dataset = tm.Dataset.open(out)
    ids, ends, sizes = expected(tokenizer, documents)
    assert dataset.tokens.dtype == (wide if dtype else "uint16")
    assert np.asarray(dataset.tokens[:]).tolist() == ids
    assert dataset.num_documents == len(documents)
    for number in (0, 17, 31, 299):
        start = ends[number - 1] if number else 0
        assert dataset.document(number).tolist() == ids[start : ends[number]]
        assert dataset.bytes_of(number) == sizes[number]


def test_the_plan_says_what_will_happen(
    tmp_path: Path, data: Path, tokenizer: tm.Tokenizer
) -> None:
    plan = prepare_encode(data, tokenizer, tmp_path / "out", unit_bytes=2000).plan()
    assert plan.inputs == {"train": 4, "test": 1}
    assert plan.input_bytes == sum(file.stat().st_size for file in data.iterdir())
    assert plan.dtype == "uint16"
    assert plan.units > 5
    assert plan.units_done == 0
    assert json.dumps(plan.inputs)
