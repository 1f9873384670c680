"""Every recipe says what it would do, and its tiny form does it, offline."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

RECIPES = Path(__file__).parents[2] / "recipes"
NAMES = sorted(path.stem for path in RECIPES.glob("*.py") if path.stem != "recipe")


def run(name: str, *args: object) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(RECIPES / f"{name}.py"), *map(str, args)],
        capture_output=True,
        encoding="utf-8",
        check=False,
        # Nothing is behind this address: what asks the network fails.
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_ENDPOINT": "http://127.0.0.1:9"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_there_are_recipes() -> None:
    assert NAMES == ["nanochat_tokenizer", "stories_to_assistant", "tinystories_17m"]


@pytest.mark.parametrize("name", NAMES)
def test_a_dry_run_tells_steps_and_costs_and_makes_nothing(name: str, tmp_path: Path) -> None:
    lines = run(name, "--out", tmp_path / "out", "--dry-run")
    assert all(re.match(rf"{number}\. \w+: .", line) for number, line in enumerate(lines, 1))
    assert len(lines) >= 4
    priced = [line for line in lines if "pretrain:" in line]
    assert all("FLOPs" in line and "on one L4" in line for line in priced)
    assert bool(priced) == (name != "nanochat_tokenizer")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", NAMES)
def test_the_tiny_form_runs_offline_and_again_does_nothing_twice(name: str, tmp_path: Path) -> None:
    lines = run(name, "--out", tmp_path / "out", "--tiny")
    told = run(name, "--out", tmp_path / "out", "--tiny", "--dry-run")
    assert [line for line in lines if re.match(r"\d\.", line)] == told
    done = [line for line in lines if line.startswith("   done in ")]
    assert len(done) == len(told)
    again = run(name, "--out", tmp_path / "out", "--tiny")
    timeless = re.compile(r"done in [\d.]+ \w+( [\d.]+ \w+)?")
    assert [timeless.sub("", line) for line in again] == [timeless.sub("", line) for line in lines]
