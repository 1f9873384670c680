"""Training that is killed for real, with one rank and with two, ends with the bits of one that was not."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pretrain_child
import pytest
import torch

from tokenmill.lm.checkpoint import latest_checkpoint
from tokenmill.lm.metrics import read_metrics

CHILD = Path(pretrain_child.__file__)
MODEL = {"vocab_size": 300, "context": 24, "num_layers": 2, "d_model": 32, "num_heads": 4}
OPTIONS = {
    "model": {**MODEL, "dropout": 0.1},
    "max_steps": 60,
    "batch_size": 8,
    "save_every": 7,
    "eval_rows": 8,
    "micro_batch_size": 2,
}


def command(ranks: int) -> list[str]:
    if ranks == 1:
        return [sys.executable, str(CHILD)]
    return [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
        *("--nproc-per-node", str(ranks), str(CHILD)),
    ]


def start(data: Path, out: Path, ranks: int, **options: Any) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
        # torch takes ten seconds to import where its bytecode may not be kept.
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(data.parent / "bytecode"),
    }
    return subprocess.Popen(
        [*command(ranks), str(data), str(out), json.dumps({**OPTIONS, **options})],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> None:
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors


def kill_after(process: subprocess.Popen[str], steps: int, seconds: float) -> bool:
    """Kill all of it behind `steps` steps and some time; whether it was still there."""
    assert process.stdout is not None
    for _ in range(steps):
        if not process.stdout.readline():
            break
    time.sleep(seconds)
    alive = process.poll() is None
    if alive:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    return alive


def require_same(one: Path, other: Path) -> None:
    ours, theirs = (latest_checkpoint(folder / "checkpoints") for folder in (one, other))
    assert ours is not None
    assert theirs is not None
    assert ours.step == theirs.step == 60
    for found, wanted in (
        (ours.weights(), theirs.weights()),
        (ours.optimizer(), theirs.optimizer()),
    ):
        assert found.keys() == wanted.keys()
        assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    timeless = [
        [(r["kind"], r["step"], r["loss"]) for r in read_metrics(folder)] for folder in (one, other)
    ]
    assert timeless[0] == timeless[1]


def killed_and_whole(tmp_path: Path, dataset: Path, ranks: int, kills: int, seed: int) -> int:
    finish(start(dataset, tmp_path / "whole", ranks))
    chance = random.Random(seed)
    killed = 0
    for _ in range(kills):
        process = start(dataset, tmp_path / "parts", ranks)
        killed += kill_after(process, chance.randrange(1, 25), chance.random() * 0.05)
    finish(start(dataset, tmp_path / "parts", ranks))
    require_same(tmp_path / "whole", tmp_path / "parts")
    return killed


@pytest.mark.parametrize("ranks", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_killed_runs_end_with_the_same_bits(tmp_path: Path, dataset: Path, ranks: int) -> None:
    assert killed_and_whole(tmp_path, dataset, ranks, kills=3 - ranks, seed=ranks) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_runs_killed_many_times(tmp_path: Path, dataset: Path, ranks: int, seed: int) -> None:
    assert killed_and_whole(tmp_path, dataset, ranks, kills=5, seed=100 + seed) >= 1


def test_a_signal_saves_and_says_how_to_go_on(tmp_path: Path, dataset: Path) -> None:
    finish(start(dataset, tmp_path / "whole", 1))
    for number in (signal.SIGTERM, signal.SIGINT):
        process = start(dataset, tmp_path / "parts", 1)
        assert process.stdout is not None
        for _ in range(3):
            process.stdout.readline()
        os.kill(process.pid, number)
        _, errors = process.communicate(timeout=60)
        assert process.returncode != 0
        assert f"stopped by {number.name} after step" in errors
        assert "all is saved" in errors
    finish(start(dataset, tmp_path / "parts", 1))
    require_same(tmp_path / "whole", tmp_path / "parts")


def test_two_ranks_train_as_one(tmp_path: Path, dataset: Path) -> None:
    options = {
        "float64": True,
        "max_steps": 100,
        "save_every": 100,
        "model": MODEL,
        "resume": False,
    }
    try:
        pretrain_child.main(str(dataset), str(tmp_path / "1"), json.dumps({**OPTIONS, **options}))
    finally:
        torch.set_default_dtype(torch.float32)
    # A folder that is new to one rank must be new to both, however late the second looks at it.
    finish(start(dataset, tmp_path / "2", 2, fall_behind=True, **options))
    one, two = (latest_checkpoint(tmp_path / name / "checkpoints") for name in "12")
    assert one is not None
    assert two is not None
    assert one.step == two.step == 100
    for name, weight in one.weights().items():
        assert weight.dtype == torch.float64
        torch.testing.assert_close(weight, two.weights()[name], atol=1e-6, rtol=0)
