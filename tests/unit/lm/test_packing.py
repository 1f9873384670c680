"""Rows and their order: every token once, by the plain definition, at any step without a state."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenmill.dataset.windows import NOT_TRAINED
from tokenmill.errors import ConfigError
from tokenmill.lm.batches import Batches
from tokenmill.lm.packing import BestFitPlan, WrappedPlan, best_fit, make_plan, narrowest
from tokenmill.lm.permutation import permute


@given(st.integers(1, 3000), st.integers(0, 1 << 63), st.integers(0, 100))
def test_an_order_has_every_row_once(size: int, seed: int, epoch: int) -> None:
    order = permute(np.arange(size), size, seed, epoch)
    assert sorted(order.tolist()) == list(range(size))
    some = np.array([size - 1, 0, size // 2])
    assert permute(some, size, seed, epoch).tolist() == order[some].tolist()


def test_orders_differ_by_seed_and_epoch() -> None:
    orders = {
        tuple(permute(np.arange(50), 50, seed, epoch).tolist())
        for seed in range(5)
        for epoch in range(5)
    }
    assert len(orders) == 25


def plain_best_fit(lengths: list[int], width: int) -> list[int]:
    """By the definition: a list of bins, each with its room and when it came to it."""
    bins: list[tuple[int, int]] = []
    found = [0] * len(lengths)
    for time, index in enumerate(sorted(range(len(lengths)), key=lambda i: -lengths[i])):
        fitting = [
            (room, since, b) for b, (room, since) in enumerate(bins) if room >= lengths[index]
        ]
        if fitting:
            room, _, chosen = min(fitting)
        else:
            room, chosen = width, len(bins)
            bins.append((width, time))
        bins[chosen] = (room - lengths[index], time)
        found[index] = chosen
    return found


@given(st.integers(2, 40).flatmap(lambda w: st.tuples(st.just(w), st.lists(st.integers(1, w)))))
def test_best_fit(case: tuple[int, list[int]]) -> None:
    width, lengths = case
    assert best_fit(np.array(lengths, dtype=np.int64), width).tolist() == plain_best_fit(
        lengths, width
    )


def documents(seed: int) -> tuple[np.ndarray, np.ndarray]:
    chance = random.Random(seed)
    lengths = [chance.choice([1, 2, 5, 30, 31, 32, 33, 100]) for _ in range(40)]
    ends = np.cumsum(lengths)
    return np.arange(1, ends[-1] + 1, dtype=np.uint16), ends.astype(np.uint64)


@pytest.mark.parametrize("seed", range(30))
def test_rows_as_narrow_as_they_can_be(seed: int) -> None:
    chance = np.random.default_rng(seed)
    lengths = chance.integers(1, 60, size=chance.integers(1, 20))
    found = narrowest(lengths, 64)
    assert lengths.max() <= found <= 64
    assert best_fit(lengths, found).max() <= best_fit(lengths, 64).max()
    if found > max(lengths.max(), -(-lengths.sum() // (best_fit(lengths, 64).max() + 1))):
        assert best_fit(lengths, found - 1).max() > best_fit(lengths, 64).max()


def test_a_few_documents_leave_little_padding() -> None:
    assert narrowest(np.array([50, 50, 50, 50]), 128) == 100
    assert narrowest(np.array([7]), 128) == 7


@pytest.mark.parametrize("seed", range(5))
def test_best_fit_rows_hold_every_token_but_those_alone(seed: int) -> None:
    tokens, ends = documents(seed)
    plan = BestFitPlan.of_documents(ends, 33)
    seen = [
        at
        for row in range(len(plan))
        for start, size in plan.pieces(row)
        for at in range(start, start + size)
    ]
    assert len(seen) == len(set(seen)) == plan.waste.tokens
    assert plan.waste.tokens + plan.waste.dropped == len(tokens)
    assert plan.waste.tokens + plan.waste.padding == 33 * len(plan)
    assert all(sum(size for _, size in plan.pieces(row)) <= 33 for row in range(len(plan)))


def test_each_target_is_the_next_token_of_its_document() -> None:
    tokens, ends = documents(9)
    batches = Batches(tokens, BestFitPlan.of_documents(ends, 33), document_mask=True)
    batch = batches.load(range(len(batches.plan)))
    assert batch.segments_BT is not None
    trained = batch.targets_BT != NOT_TRAINED
    assert batch.num_targets == int(trained.sum())
    # Tokens are 1, 2, 3, … so the next of t is t + 1, and nothing is learned across an end.
    assert ((batch.targets_BT - batch.ids_BT)[trained] == 1).all()
    last = set(ends.tolist())
    assert not any(int(token) in last for token in batch.ids_BT[trained])
    assert batch.segments_BT.max() > 1


def test_wrapped_rows_lose_only_the_rest() -> None:
    tokens = np.arange(1000, dtype=np.uint32)
    plan = WrappedPlan(len(tokens), 33)
    batch = Batches(tokens, plan).load(range(len(plan)))
    assert batch.ids_BT.flatten().tolist() == list(range(31 * 32))
    assert batch.targets_BT.flatten().tolist() == list(range(1, 31 * 32 + 1))
    assert plan.waste.dropped == 1000 - (31 * 32 + 1)


def test_a_mask_takes_targets_out() -> None:
    tokens = np.arange(100, dtype=np.uint16)
    mask = (np.arange(100) % 3 == 0).astype(np.uint8)
    batch = Batches(tokens, WrappedPlan(100, 11), mask).load([0])
    assert batch.targets_BT[0].tolist() == [t if t % 3 == 0 else NOT_TRAINED for t in range(1, 11)]


def test_steps_go_through_epochs_without_a_state() -> None:
    batches = Batches(np.arange(1000, dtype=np.uint16), WrappedPlan(1000, 11))
    assert len(batches.plan) == 99
    rows = np.concatenate([batches.rows_of(step, 8, seed=3) for step in range(100)])
    for epoch in range(8):
        assert sorted(rows[99 * epoch : 99 * (epoch + 1)].tolist()) == list(range(99))
    assert rows[:99].tolist() != rows[99:198].tolist()
    assert batches.rows_of(57, 8, seed=3).tolist() == rows[57 * 8 : 58 * 8].tolist()


@pytest.mark.parametrize("tokens", [0, 1, 32])
def test_too_few_tokens_are_said_so(tokens: int) -> None:
    with pytest.raises(ConfigError, match=rf"has {tokens} token"):
        make_plan("wrapped", tokens, None, 33, "x")
    with pytest.raises(ConfigError, match="where documents end"):
        make_plan("best-fit", tokens, None, 33, "x")
