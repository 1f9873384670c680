"""Token counts: sums, percentiles and ids against the obvious way to get them."""

from pathlib import Path

import numpy as np
import pytest
from make_dataset import TEXTS, encoded, make_dataset, masked, small_tokenizer

import tokenmill as tm
from tokenmill.report import token_counts
from tokenmill.report.render.token_counts import bar_of, spelled, token_count_lines
from tokenmill.report.token_counts import PERCENTILES, add_up, count_tokens

TOKENIZER = small_tokenizer()
DOCUMENTS = encoded(TOKENIZER, TEXTS * 3)


@pytest.fixture
def dataset(tmp_path: Path) -> tm.Dataset:
    splits = {"train": DOCUMENTS, "validation": DOCUMENTS[:2]}
    return tm.Dataset.open(make_dataset(tmp_path / "ids", TOKENIZER, splits, shard_documents=4))


def test_sums(dataset: tm.Dataset) -> None:
    report = count_tokens(dataset)
    train, validation = report.splits
    assert train.tokens == sum(len(each.ids) for each in DOCUMENTS)
    assert train.documents == 18
    assert train.bytes == 3 * sum(len(text.encode()) for text in TEXTS)
    assert train.bytes is not None
    assert train.bytes_per_token == train.bytes / train.tokens
    assert (train.dtype, train.trained_tokens) == ("uint16", None)
    assert report.total.tokens == train.tokens + validation.tokens
    assert report.total.documents == 20


def test_lengths(dataset: tm.Dataset) -> None:
    lengths = [len(each.ids) for each in DOCUMENTS]
    found = count_tokens(dataset).splits[0].lengths
    assert found is not None
    assert found.mean == pytest.approx(np.mean(lengths))
    expected = {p: int(np.percentile(lengths, p, method="inverted_cdf")) for p in PERCENTILES}
    assert found.percentiles == expected
    assert sum(bar.documents for bar in found.bars) == 18
    for bar in found.bars:
        assert bar.documents == sum(bar.low <= length <= bar.high for length in lengths)


@pytest.mark.parametrize("seed", range(20))
def test_bars_cover_any_lengths(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, [3, 40, 10_000, 3_000_000][seed % 4], rng.integers(1, 200))
    counts = token_counts._LengthCounts()
    for part in np.array_split(lengths, 3):
        counts.add(part)
    found = counts.summary()
    assert found is not None
    assert sum(bar.documents for bar in found.bars) == len(lengths)
    assert found.bars[0].low == lengths.min()
    assert found.bars[-1].high == lengths.max()
    assert len(found.bars) <= token_counts.NUM_BARS + 1
    assert found.percentiles[50] == np.percentile(lengths, 50, method="inverted_cdf")


def test_which_ids_occur(dataset: tm.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_counts, "_BLOCK_TOKENS", 7)
    ids = [i for each in (*DOCUMENTS, *DOCUMENTS[:2]) for i in each.ids]
    usage = count_tokens(dataset, top=3).usage
    assert usage is not None
    assert [use.count for use in usage.top] == sorted(map(ids.count, set(ids)))[::-1][:3]
    for use in usage.top:
        assert use.count == ids.count(use.id)
        assert use.token == TOKENIZER.token_bytes(use.id)
    assert usage.num_unused == 300 - len(set(ids))
    assert len(usage.unused) == 3
    assert all(use.id not in ids for use in usage.unused)


def test_splits_that_are_not_there_are_named(dataset: tm.Dataset) -> None:
    report = count_tokens(dataset, splits=["val", "test"], read_tokens=False)
    assert [split.name for split in report.splits] == ["validation"]
    assert report.missing == ("test",)
    assert report.usage is None


def test_share_of_trained_tokens(tmp_path: Path) -> None:
    rows = masked(TOKENIZER, [("say hi: ", "hi"), ("the ", "cat sat")])
    path = make_dataset(tmp_path / "ids", TOKENIZER, {"train": rows}, mode="sft")
    report = count_tokens(tm.Dataset.open(path))
    trained = sum(sum(row.mask or []) for row in rows)
    assert report.total.trained_tokens == trained
    assert report.total.trained_share == trained / sum(len(row.ids) for row in rows)
    text = "\n".join(token_count_lines([report], report.total))
    assert f"{report.total.trained_share:.1%}" in text


def test_files_of_others(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([5, 5, 7], "int64"))
    report = count_tokens(tm.Dataset.open(tmp_path / "x.npy"))
    assert (report.total.tokens, report.total.documents, report.total.bytes) == (3, None, None)
    assert report.usage is not None
    assert [(use.id, use.token, use.count) for use in report.usage.top] == [
        (5, None, 2),
        (7, None, 1),
    ]
    assert report.usage.num_unused is None
    np.save(tmp_path / "y.npy", np.array([5, -1], "int64"))
    with pytest.raises(tm.FormatError, match="has id -1"):
        count_tokens(tm.Dataset.open(tmp_path / "y.npy"))
    np.save(tmp_path / "z.npy", np.array([5, 2**60], "int64"))
    with pytest.raises(tm.FormatError, match="has id 1152921504606846976"):
        count_tokens(tm.Dataset.open(tmp_path / "z.npy"))


def test_several_datasets_add_up(dataset: tm.Dataset, tmp_path: Path) -> None:
    other = tm.Dataset.open(make_dataset(tmp_path / "b", TOKENIZER, {"train": DOCUMENTS[:1]}))
    reports = [count_tokens(dataset), count_tokens(other)]
    total = add_up([split for report in reports for split in report.splits])
    assert total.documents == 21
    lines = list(token_count_lines(reports, total))
    assert f"{total.tokens:,}" in lines[4]


def test_drawing() -> None:
    assert bar_of(0) == ""
    assert bar_of(1e-9) == "▏"
    assert bar_of(1) == "█" * 40
    assert spelled(b' a\n"\xff\x1b') == '" a\\n\\"\\xff\\x1b"'
