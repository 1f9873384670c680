# pyright: basic
"""Lanes: the same loss and gradients as one pass over all rows, with the same bits each time."""

import os
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from tokenmill.lm.batches import Batch
from tokenmill.lm.lanes import Lanes, lanes_of
from tokenmill.lm.model import Model
from tokenmill.lm.model_config import ModelConfig
from tokenmill.lm.objective import NextToken

SHAPE = ModelConfig(vocab_size=40, context=8, d_model=16, num_heads=2, num_layers=2)


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def some_rows(count: int) -> Batch:
    ids = torch.randint(0, 40, (count, 9), generator=torch.Generator().manual_seed(count))
    segments = torch.arange(8).expand(count, 8) // 5
    return Batch(ids[:, :-1], ids[:, 1:], segments, count * 8)


def gradients(lanes: Lanes, model: Model, batch: Batch) -> tuple[Tensor, list[Tensor]]:
    objective = NextToken(model)

    def sums_of(part: Batch) -> tuple[Tensor, Tensor]:
        sums = objective(part)
        return sums, sums[0] / batch.num_targets

    model.zero_grad()
    loss = lanes.backward(model, sums_of, batch)
    return loss, [weight.grad for weight in model.parameters() if weight.grad is not None]


@pytest.mark.parametrize("rows", [1, 2, 5, 8])
@pytest.mark.parametrize("number", [2, 3, 4])
def test_lanes_make_the_gradients_of_one_pass(number: int, rows: int) -> None:
    model, batch = Model(SHAPE).double(), some_rows(rows)
    loss, grads = gradients(Lanes(number, 1), model, batch)
    wanted = NextToken(model)(batch)
    torch.testing.assert_close(loss, wanted.detach(), rtol=1e-12, atol=1e-12)
    by_hand = torch.autograd.grad(wanted / batch.num_targets, list(model.parameters()))
    for ours, theirs in zip(grads, by_hand, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_the_same_bits_each_time() -> None:
    model, batch, lanes = Model(SHAPE), some_rows(8), Lanes(4, 1)
    loss, grads = gradients(lanes, model, batch)
    for _ in range(10):
        again, others = gradients(lanes, model, batch)
        assert torch.equal(loss, again)
        assert all(torch.equal(*both) for both in zip(grads, others, strict=True))


def test_each_lane_has_its_cores_and_the_caller_keeps_its_own() -> None:
    lanes = Lanes(2, 1)
    assert lanes.map(lambda _: torch.get_num_threads(), some_rows(4)) == [1, 1]
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(
    ("threads", "number", "each"),
    [(1, 1, 1), (2, 2, 1), (3, 3, 1), (6, 3, 2), (7, 1, 7), (64, 4, 16)],
)
def test_no_core_is_left_over(threads: int, number: int, each: int) -> None:
    lanes = lanes_of(threads)
    assert (lanes.number, lanes.threads) == (number, each)


def test_what_fails_in_a_lane_fails() -> None:
    def work(part: Batch) -> None:
        if part.ids_BT[0, 0] == batch.ids_BT[-1, 0]:
            raise MemoryError("too much")

    batch = some_rows(4)
    with pytest.raises(MemoryError, match="too much"):
        Lanes(4, 1).map(work, batch)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of a fork beside threads
def test_a_child_of_a_process_with_lanes_has_its_own() -> None:
    lanes_of(2).map(lambda part: part.num_targets, some_rows(2))
    child = os.fork()
    if child == 0:
        found = lanes_of(2).map(lambda part: part.num_targets, some_rows(2))
        os._exit(0 if found == [8, 8] else 1)
    assert os.waitpid(child, 0)[1] == 0
