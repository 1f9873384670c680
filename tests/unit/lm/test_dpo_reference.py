"""What a reference thinks is computed once: kept by all that decides it, and anew where that has changed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from make_conversations import CONTEXT, encode_rows, pair_rows, preferences, talking_model

from tokenmill.lm import reference as reference_module
from tokenmill.lm.distributed import Ranks
from tokenmill.lm.dpo import dpo
from tokenmill.lm.open_model import open_model
from tokenmill.lm.pair_objective import score_answers
from tokenmill.lm.post_training_settings import DpoSettings
from tokenmill.lm.reference import (
    compute_log_probs,
    kept_log_probs,
    reference_file,
    reference_key,
)
from tokenmill.lm.sinks import LogSettings
from tokenmill.progress import Meter


def run(data: Path, out: Path, base: Path, **changes: Any) -> None:
    settings = {"max_steps": 1, "batch_size": 6, "sample_every": 0, "device": "cpu"}
    dpo(data, out, base=base, logs=LogSettings(()), progress=False, **{**settings, **changes})


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many pairs were computed, call by call."""
    calls: list[int] = []
    compute = reference_module.compute_log_probs

    def counting(model: Any, rows: Any, **how: Any) -> Any:
        calls.append(len(rows))
        return compute(model, rows, **how)

    monkeypatch.setattr(reference_module, "compute_log_probs", counting)
    return calls


@pytest.mark.parametrize("pairs_at_once", [1, 5, 100])
def test_they_are_those_of_each_pair_alone(pairs: Path, talker: Path, pairs_at_once: int) -> None:
    rows, model = pair_rows(pairs), open_model(talker).model
    found = compute_log_probs(
        model,
        rows,
        pairs_at_once=pairs_at_once,
        precision="fp32",
        ranks=Ranks(),
        meter=Meter(False),
    )
    alone = [score_answers(model, rows.load([at])).log_probs_P2 for at in range(len(rows))]
    assert found.dtype == np.float64
    wanted = np.concatenate([each.detach().numpy() for each in alone])
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert len(np.unique(wanted.round(3))) > 10


def test_computed_once_for_all_runs_that_share_a_folder(
    tmp_path: Path, pairs: Path, talker: Path, computed: list[int]
) -> None:
    kept = tmp_path / "kept"
    run(pairs, tmp_path / "1", talker, cache=kept)
    assert len(computed) == 2
    times = {file: file.stat().st_mtime_ns for file in kept.iterdir()}
    # Beta, loss and learning rate do not decide what the reference thinks.
    run(
        pairs,
        tmp_path / "2",
        talker,
        cache=kept,
        options=DpoSettings(beta=0.5, loss="ipo"),
        lr=1e-4,
    )
    run(
        pairs,
        tmp_path / "2",
        talker,
        cache=kept,
        options=DpoSettings(beta=0.5, loss="ipo"),
        lr=1e-4,
    )
    assert len(computed) == 2
    assert {file: file.stat().st_mtime_ns for file in kept.iterdir()} == times
    # Without a folder for them they are in that of the run.
    run(pairs, tmp_path / "3", talker)
    assert len(computed) == 4
    assert sorted(file.name for file in (tmp_path / "3").glob("*.npy")) == sorted(
        file.name for file in kept.iterdir()
    )


def cut_in_half(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def of_fewer_pairs(file: Path) -> None:
    np.save(file, np.load(file)[:-1])


def not_numbers(file: Path) -> None:
    np.save(file, np.full_like(np.load(file), np.nan))


def of_another_type(file: Path) -> None:
    np.save(file, np.load(file).astype(np.float32))


def a_pickle(file: Path) -> None:
    np.save(file, np.array([{"a": 1}], dtype=object), allow_pickle=True)


def something_else(file: Path) -> None:
    file.write_text("hello")


def nothing(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize(
    "spoil",
    [
        cut_in_half,
        of_fewer_pairs,
        not_numbers,
        of_another_type,
        a_pickle,
        something_else,
        nothing,
        Path.unlink,
    ],
)
def test_a_file_that_is_not_ours_is_computed_anew(
    tmp_path: Path,
    pairs: Path,
    talker: Path,
    computed: list[int],
    spoil: Callable[[Path], None],
) -> None:
    kept = tmp_path / "kept"
    run(pairs, tmp_path / "1", talker, cache=kept)
    before = {file: file.read_bytes() for file in kept.iterdir()}
    spoiled = min(before, key=lambda file: len(before[file]))
    spoil(spoiled)
    run(pairs, tmp_path / "2", talker, cache=kept)
    assert len(computed) == 3
    assert {file: file.read_bytes() for file in kept.iterdir()} == before


def test_all_that_decides_them_is_in_the_name(
    tmp_path: Path, pairs: Path, talker: Path, computed: list[int]
) -> None:
    kept = tmp_path / "kept"
    run(pairs, tmp_path / "0", talker, cache=kept)
    names = {file.name for file in kept.iterdir()}
    other = talking_model(tmp_path / "other", seed=8)
    more = encode_rows(tmp_path / "more", preferences(20), "preference")
    changes: dict[str, Callable[[Path], None]] = {
        "weights": lambda out: run(pairs, out, other, cache=kept),
        "reference": lambda out: run(pairs, out, talker, reference=other, cache=kept),
        "data": lambda out: run(more, out, talker, cache=kept),
        "precision": lambda out: run(pairs, out, talker, precision="bf16", cache=kept),
    }
    for name, change in changes.items():
        change(tmp_path / name)
        found = {file.name for file in kept.iterdir()}
        # The same weights on the same pairs, whatever they are called.
        assert (found > names) == (name != "reference"), name
        names = found
    assert sorted(computed) == sorted([*computed[:2] * 3, 20])


def test_keys(tmp_path: Path, pairs: Path, talker: Path) -> None:
    config = open_model(talker).model.config
    long = preferences(6)
    long.append({"prompt": "say " * 30, "chosen": "cat", "rejected": "mat"})
    data = encode_rows(tmp_path / "long", long, "preference")
    keys = [
        reference_key("a", config, "fp32", pair_rows(pairs)),
        reference_key("b", config, "fp32", pair_rows(pairs)),
        reference_key("a", config, "bf16", pair_rows(pairs)),
        reference_key("a", config, "fp32", pair_rows(data, CONTEXT, "drop")),
        reference_key("a", config, "fp32", pair_rows(data, CONTEXT, "keep-end")),
        reference_key("a", config, "fp32", pair_rows(data, CONTEXT // 2, "keep-end")),
    ]
    assert len(set(keys)) == len(keys)
    assert keys[0] == reference_key("a", config, "fp32", pair_rows(pairs))
    rows = pair_rows(pairs)
    assert rows.data.mask is not None
    assert kept_log_probs(tmp_path / "nowhere", keys[0], rows) is None
    file = reference_file(tmp_path, keys[0])
    np.save(file, np.zeros((len(rows), 2)))
    assert kept_log_probs(tmp_path, keys[0], rows) is not None
