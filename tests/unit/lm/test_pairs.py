"""Pairs as batches: each document once, whole, and by itself."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenmill.dataset.windows import NOT_TRAINED
from tokenmill.lm.fitting import fit_documents
from tokenmill.lm.pairs import PairBatch, PairRows

WIDTH = 17


def stream(lengths: list[int], masks: list[int]) -> Any:
    """Documents of tokens that are all different, with a mask of these bits; every document has a target."""
    ends = np.cumsum(lengths)
    mask = np.resize(np.array(masks, dtype=np.uint8), ends[-1])
    mask[ends - 1] = 1
    tokens = np.arange(ends[-1])
    return SimpleNamespace(
        name="stream", tokens=tokens, mask=mask, ends=ends, num_tokens=len(tokens)
    )


@st.composite
def rows_and_places(draw: st.DrawFn) -> tuple[Any, list[int]]:
    count = draw(st.integers(1, 8))
    lengths = draw(st.lists(st.integers(2, WIDTH), min_size=2 * count, max_size=2 * count))
    masks = draw(st.lists(st.integers(0, 1), min_size=1, max_size=13))
    places = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=count, unique=True))
    return stream(lengths, masks), places


def trained_places(batch: PairBatch) -> list[tuple[int, list[int], int]]:
    """Of each target: its document, the tokens that can be looked at, and itself."""
    assert batch.segments_BT is not None
    found: list[tuple[int, list[int], int]] = []
    for row, at in (batch.targets_BT != NOT_TRAINED).nonzero().tolist():
        segments = batch.segments_BT[row, : at + 1]
        seen = batch.ids_BT[row, : at + 1][segments == segments[-1]]
        found.append(
            (
                int(batch.documents_BT[row, at]),
                seen.tolist(),
                int(batch.targets_BT[row, at]),
            )
        )
    return sorted(found)


def expected_places(data: Any, places: list[int]) -> list[tuple[int, list[int], int]]:
    """The same, document by document."""
    starts = np.concatenate(([0], data.ends[:-1]))
    wanted: list[tuple[int, list[int], int]] = []
    for place, pair in enumerate(places):
        for which in (0, 1):
            start, end = int(starts[2 * pair + which]), int(data.ends[2 * pair + which])
            for at in range(start + 1, end):
                if data.mask[at]:
                    seen = data.tokens[start:at].tolist()
                    wanted.append((2 * place + which, seen, int(data.tokens[at])))
    return sorted(wanted)


@settings(max_examples=150)
@given(rows_and_places())
def test_each_document_of_each_pair_is_there_once_and_by_itself(
    drawn: tuple[Any, list[int]],
) -> None:
    data, places = drawn
    rows = PairRows(data, fit_documents(data, WIDTH, "error"), WIDTH)
    assert len(rows) == len(data.ends) // 2
    batch = rows.load(places)
    wanted = expected_places(data, places)
    assert trained_places(batch) == wanted
    assert batch.ids_BT.shape[1] < WIDTH
    chosen = sum(document % 2 == 0 for document, _, _ in wanted)
    assert batch.num_answer_tokens == (chosen, len(wanted) - chosen)
    assert batch.num_targets == len(wanted)
    documents = [2 * pair + which for pair in places for which in (0, 1)]
    assert rows.num_tokens(places) == sum(rows.lengths[document] - 1 for document in documents)


@settings(max_examples=50)
@given(rows_and_places(), st.integers(1, 5))
def test_parts_are_the_whole(drawn: tuple[Any, list[int]], number: int) -> None:
    data, places = drawn
    rows = PairRows(data, fit_documents(data, WIDTH, "error"), WIDTH)
    rows.reference = np.arange(2.0 * len(rows)).reshape(-1, 2)
    parts = rows.load(places).shared_by(number)
    assert len(parts) <= number
    pairs: list[int] = []
    references: list[list[float]] = []
    for part in parts:
        assert isinstance(part, PairBatch)
        assert part.reference_P2 is not None
        pairs += part.pairs
        references += part.reference_P2.tolist()
    assert pairs == places
    tokens = rows.tokens_of(places)
    most = max(rows.num_tokens(part.pairs) for part in parts if isinstance(part, PairBatch))
    assert most <= tokens.sum() / number + tokens.max()
    assert references == [[2.0 * place, 2.0 * place + 1] for place in places]


@pytest.mark.parametrize("policy", ["drop", "keep-start", "keep-end"])
def test_pairs_of_which_one_answer_goes_go_whole(policy: str) -> None:
    # Of pair 1 the chosen answer is too long, of pair 3 the rejected one; nothing but the last token is a target.
    data = stream([5, 6, WIDTH + 3, 4, 3, 3, 4, WIDTH + 1], [0])
    rows = PairRows(data, fit_documents(data, WIDTH, policy), WIDTH)
    # What is cut at the end has lost its only target.
    kept = {"drop": [0, 2], "keep-start": [0, 2], "keep-end": [0, 1, 2, 3]}[policy]
    assert rows.pairs.tolist() == kept
    assert rows.as_json() == {
        "pairs": len(kept),
        "dropped_pairs": 4 - len(kept),
        "too_long": 2,
        "no_trained_tokens": 2 if policy == "keep-start" else 0,
    }
    found = [(seen, target) for _, seen, target in trained_places(rows.load(range(len(rows))))]
    if policy == "keep-end":
        end = data.ends[2]
        assert (list(range(end - WIDTH, end - 1)), end - 1) in found
    assert len(found) == 2 * len(kept)
