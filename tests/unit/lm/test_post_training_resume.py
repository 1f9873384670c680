"""Fine-tuning and preference training that are stopped or killed end with the bits of runs that were not; two ranks are one."""

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import post_training_child
import pytest
import torch

from tokenmill.lm import preference_watch
from tokenmill.lm.checkpoint import latest_checkpoint
from tokenmill.lm.dpo import dpo
from tokenmill.lm.loop import StepResult
from tokenmill.lm.metrics import read_metrics
from tokenmill.lm.post_training_settings import DpoSettings, LoraSettings, SftSettings
from tokenmill.lm.run_folder import read_run
from tokenmill.lm.sft import sft
from tokenmill.lm.sinks import LogSettings

CHILD = Path(post_training_child.__file__)
OPTIONS: dict[str, Any] = {
    "max_steps": 12,
    "batch_size": 6,
    "micro_batch_size": 2,
    "save_every": 4,
    "eval_every": 3,
    "eval_rows": 6,
    "log_every": 1,
    "sample_every": 5,
    "sample_tokens": 4,
    "lr": 1e-3,
}
STAGES: dict[str, tuple[Callable[..., object], Callable[..., object]]] = {
    "sft": (sft, SftSettings),
    "dpo": (dpo, DpoSettings),
}
TIMES = ("time", "tokens_per_second", "mfu")


def train(stage: str, data: Path, out: Path, base: Path, lora: bool, **changes: Any) -> None:
    call, kind = STAGES[stage]
    call(
        data,
        out,
        base=base,
        options=kind(lora=LoraSettings(rank=4) if lora else None),
        logs=LogSettings(()),
        progress=False,
        device="cpu",
        **{**OPTIONS, **changes},
    )


def require_same(one: Path, other: Path) -> None:
    """Weights, moments and all records but for times."""
    ours, theirs = (latest_checkpoint(folder / "checkpoints") for folder in (one, other))
    assert ours is not None
    assert theirs is not None
    assert ours.step == theirs.step == OPTIONS["max_steps"]
    for found, wanted in (
        (ours.weights(), theirs.weights()),
        (ours.optimizer(), theirs.optimizer()),
    ):
        assert found.keys() == wanted.keys()
        assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    timeless = [
        [{k: v for k, v in record.items() if k not in TIMES} for record in read_metrics(folder)]
        for folder in (one, other)
    ]
    assert timeless[0] == timeless[1]
    kinds = {record["kind"] for record in timeless[0]}
    assert kinds >= {"train", "validation", "sample"}


def stopped_at(step: int) -> Callable[[StepResult], None]:
    def stop(result: StepResult) -> None:
        if result.step == step:
            raise KeyboardInterrupt

    return stop


@pytest.fixture(scope="module")
def data_of(chats: Path, pairs: Path) -> dict[str, Path]:
    return {"sft": chats, "dpo": pairs}


@pytest.fixture(scope="module")
def whole(
    tmp_path_factory: pytest.TempPathFactory, talker: Path, data_of: dict[str, Path]
) -> Callable[[str, bool], Path]:
    """A run of a stage, with adapters or without, that nothing stops; made when it is first asked for."""
    folder = tmp_path_factory.mktemp("whole")

    @functools.cache
    def made(stage: str, lora: bool) -> Path:
        out = folder / f"{stage}-{lora}"
        train(stage, data_of[stage], out, talker, lora)
        return out

    return made


@pytest.mark.parametrize("lora", [False, True], ids=["full", "lora"])
@pytest.mark.parametrize("stage", ["sft", "dpo"])
@pytest.mark.parametrize("step", [2, 7])
def test_stopped_runs_end_with_the_same_bits(
    tmp_path: Path,
    talker: Path,
    data_of: dict[str, Path],
    whole: Callable[[str, bool], Path],
    stage: str,
    lora: bool,
    step: int,
) -> None:
    """With and without a checkpoint to go on from."""
    data = data_of[stage]
    with pytest.raises(KeyboardInterrupt):
        train(stage, data, tmp_path / "parts", talker, lora, on_step=stopped_at(step))
    train(stage, data, tmp_path / "parts", talker, lora)
    require_same(whole(stage, lora), tmp_path / "parts")


def test_what_was_said_is_not_said_again(
    tmp_path: Path, talker: Path, pairs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of means over 20 steps that are done, or partly."""
    monkeypatch.setattr(preference_watch, "HIGH_MARGIN", 0.1)
    changes = {"lr": 3e-3, "max_steps": 32, "save_every": 10, "eval_every": 0, "sample_every": 0}

    def said(folder: str) -> list[tuple[int, str]]:
        records = read_metrics(tmp_path / folder)
        return [(r["step"], r["text"]) for r in records if r["kind"] == "warning"]

    train("dpo", pairs, tmp_path / "whole", talker, False, **changes)
    first = next(step for step, _ in said("whole"))
    assert 20 <= first < 30
    for number, step in enumerate((16, 31)):
        out = tmp_path / f"parts-{number}"
        with pytest.raises(KeyboardInterrupt):
            train("dpo", pairs, out, talker, False, **changes, on_step=stopped_at(step))
        train("dpo", pairs, out, talker, False, **changes)
        assert said(out.name) == said("whole")


def test_neither_base_nor_reference_is_asked_again(
    tmp_path: Path, pairs: Path, talker: Path, whole: Callable[[str, bool], Path]
) -> None:
    """Once there is a checkpoint, the model it came from may go."""
    base = shutil.copytree(talker, tmp_path / "base")
    with pytest.raises(KeyboardInterrupt):
        train("dpo", pairs, tmp_path / "run", base, False, on_step=stopped_at(6))
    shutil.rmtree(base)
    train("dpo", pairs, tmp_path / "run", base, False)
    require_same(tmp_path / "run", whole("dpo", False))


def start(
    stage: str, paths: list[Path], bytecode: Path, ranks: int = 1, **options: Any
) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONWARNINGS": "ignore",
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(bytecode),
    }
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    return subprocess.Popen(
        [
            sys.executable,
            *([] if ranks == 1 else launcher),
            *map(str, (CHILD, stage, *paths)),
            json.dumps({**OPTIONS, **options}),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )


def finish(process: subprocess.Popen[str]) -> None:
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors


def kill_at(process: subprocess.Popen[str], beginning: str, number: int) -> None:
    """SIGKILL behind the line `number` that begins so."""
    assert process.stdout is not None
    for line in process.stdout:
        number -= line.startswith(beginning)
        if not number:
            break
    assert process.poll() is None
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("stage", "lora", "beginning", "number"),
    [
        ("sft", True, "StepResult", 7),
        ("dpo", False, "reference", 2),
        ("dpo", False, "StepResult", 7),
    ],
    ids=["sft", "dpo while the reference is asked", "dpo"],
)
def test_killed_runs_end_with_the_same_bits(
    tmp_path: Path,
    talker: Path,
    data_of: dict[str, Path],
    whole: Callable[[str, bool], Path],
    bytecode: Path,
    stage: str,
    lora: bool,
    beginning: str,
    number: int,
) -> None:
    out = tmp_path / "parts"
    kill_at(start(stage, [data_of[stage], talker, out], bytecode, lora=lora), beginning, number)
    assert read_run(out) is not None
    if beginning == "reference":
        assert not list(out.glob("*.npy*"))
        assert not (out / "checkpoints").exists()
    # What was killed goes on here, which is the same: one thread.
    train(stage, data_of[stage], out, talker, lora)
    require_same(whole(stage, lora), out)
    assert not [path.name for path in out.iterdir() if "partial" in path.name]


@pytest.mark.parametrize(
    ("stage", "lora"), [pytest.param("sft", False, marks=pytest.mark.slow), ("dpo", True)]
)
def test_two_ranks_train_as_one(
    tmp_path: Path, talker: Path, data_of: dict[str, Path], bytecode: Path, stage: str, lora: bool
) -> None:
    options: dict[str, Any] = {"float64": True, "lora": lora, "micro_batch_size": 3}
    # What the first rank writes before the reference is asked must not be there yet for the second, however late it looks.
    late = {"fall_behind": stage == "dpo"}
    paths = [data_of[stage], talker]
    process = start(stage, [*paths, tmp_path / "2"], bytecode, 2, **options, **late)
    try:
        data, base, out = (str(path) for path in (*paths, tmp_path / "1"))
        post_training_child.main(stage, data, base, out, json.dumps({**OPTIONS, **options}))
    finally:
        torch.set_default_dtype(torch.float32)
    finish(process)
    one, two = (latest_checkpoint(tmp_path / name / "checkpoints") for name in "12")
    assert one is not None
    assert two is not None
    assert one.step == two.step == OPTIONS["max_steps"]
    for name, weight in one.weights().items():
        assert weight.dtype == torch.float64
        torch.testing.assert_close(weight, two.weights()[name], atol=1e-6, rtol=0)
    kept = [sorted(path.name for path in (tmp_path / name).glob("*.npy")) for name in "12"]
    assert kept[0] == kept[1]
    assert len(kept[0]) == (2 if stage == "dpo" else 0)
    records = [
        [r for r in read_metrics(tmp_path / name) if r["kind"] in ("train", "validation")]
        for name in "12"
    ]
    for ours, theirs in zip(*records, strict=True):
        for key in ours.keys() - set(TIMES):
            wanted = pytest.approx(theirs[key], abs=1e-6) if key != "kind" else theirs[key]
            assert ours[key] == wanted, key
