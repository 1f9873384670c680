"""TokenBatch: ids of several texts in one array, looked at text by text without a copy."""

import copy
import pickle
from dataclasses import FrozenInstanceError
from typing import cast

import numpy as np
import pyarrow as pa
import pytest

import tokenmill as tm
from tokenmill.errors import VocabError
from tokenmill.tokenizer.token_batch import TokenBatch

IDS = np.array([5, 6, 7, 8, 9], np.uint16)
OFFSETS = np.array([0, 2, 2, 5])


@pytest.fixture
def batch() -> TokenBatch:
    return TokenBatch(IDS, OFFSETS)


def test_it_is_public() -> None:
    assert tm.TokenBatch is TokenBatch


def test_texts_one_by_one(batch: TokenBatch) -> None:
    assert len(batch) == 3
    assert batch.num_tokens == 5
    assert batch.lengths.tolist() == [2, 0, 3]
    assert [ids.tolist() for ids in batch] == [[5, 6], [], [7, 8, 9]]
    assert batch.to_lists() == [[5, 6], [], [7, 8, 9]]
    assert batch[0].tolist() == [5, 6]
    assert batch[cast(int, np.int64(1))].tolist() == []
    assert batch[-1].tolist() == [7, 8, 9]
    assert repr(batch) == "TokenBatch(3 texts, 5 tokens, uint16)"


@pytest.mark.parametrize("index", [3, -4])
def test_no_such_text(batch: TokenBatch, index: int) -> None:
    with pytest.raises(IndexError, match=f"text {index} of a batch of 3"):
        batch[index]


def test_nothing_is_copied(batch: TokenBatch) -> None:
    assert batch.ids is IDS
    assert all(np.shares_memory(ids, IDS) for ids in (batch[0], batch[-1], *batch) if len(ids))
    assert np.shares_memory(batch[1:].ids, IDS)
    address = batch.to_arrow().values.buffers()[1].address
    assert address == IDS.__array_interface__["data"][0]


@pytest.mark.parametrize(
    "part",
    [slice(1, 3), slice(None), slice(2, 1), slice(5, 9), slice(None, None, -1), slice(0, 3, 2)],
)
def test_a_slice_is_a_batch_of_those_texts(batch: TokenBatch, part: slice) -> None:
    some = batch[part]
    assert isinstance(some, TokenBatch)
    assert some.to_lists() == batch.to_lists()[part]
    assert some.ids.dtype == np.uint16
    assert some.offsets.dtype == np.int64


@pytest.mark.parametrize("kind", [np.uint16, np.uint32])
def test_to_arrow(kind: type) -> None:
    array = TokenBatch(IDS.astype(kind), OFFSETS).to_arrow()
    array.validate(full=True)
    assert array.type == pa.large_list(pa.from_numpy_dtype(kind))
    assert array.to_pylist() == [[5, 6], [], [7, 8, 9]]


def test_an_empty_batch() -> None:
    batch = TokenBatch(np.empty(0, np.uint32), np.zeros(1, np.int64))
    assert (len(batch), batch.num_tokens, batch.to_lists(), list(batch)) == (0, 0, [], [])
    assert batch[:].to_lists() == batch[::2].to_lists() == []
    assert batch.to_arrow().to_pylist() == []
    assert batch.lengths.tolist() == []


def test_equality(batch: TokenBatch) -> None:
    assert batch == TokenBatch(IDS.astype(np.uint32), OFFSETS)
    assert batch != TokenBatch(IDS, np.array([0, 1, 2, 5]))
    assert batch != TokenBatch(IDS, np.array([0, 5]))
    assert batch != TokenBatch(IDS[::-1], OFFSETS)
    assert batch != batch.to_lists()
    with pytest.raises(TypeError, match="unhashable"):
        hash(batch)


def test_frozen_and_copied(batch: TokenBatch) -> None:
    with pytest.raises(FrozenInstanceError):
        batch.ids = IDS  # type: ignore[misc]
    with pytest.raises((AttributeError, TypeError)):
        batch.other = 1  # type: ignore[attr-defined]
    assert pickle.loads(pickle.dumps(batch)) == batch  # noqa: S301  our own bytes
    assert copy.deepcopy(batch) == batch


@pytest.mark.parametrize(
    ("ids", "offsets", "message"),
    [
        (IDS, [0, 2], "to the number of ids, 5, found from 0 to 2"),
        (IDS, [1, 5], "found from 1 to 5"),
        (IDS, [], "found none"),
        (IDS, [0, 4, 2, 5], "offsets fall"),
        (IDS.reshape(1, 5), [0, 5], "one dimension each, found ids of 2"),
        (IDS.astype(float), [0, 5], "float64"),
    ],
)
def test_what_is_no_batch(ids: np.ndarray, offsets: list[int], message: str) -> None:
    with pytest.raises(VocabError, match=message):
        TokenBatch(ids, np.array(offsets, np.int64))
