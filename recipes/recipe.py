"""What all recipes share: steps with a name and a price, done in order, or only told.

A recipe is a function from a folder and `tiny` to its steps. Every step is one call of tokenmill's, which goes on where it was stopped and does
nothing twice; so a recipe that was stopped is run again.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenmill as tm
from tokenmill.lm.small_world import stories
from tokenmill.lm.small_world_questions import as_line
from tokenmill.progress import duration

L4_FLOPS, MFU = 121e12, 0.4
"""The dense peak of an L4 in bf16, and how much of it runs of this size reach: an assumption, not a measurement."""


@dataclass(frozen=True)
class Step:
    """One thing to do."""

    name: str
    price: str
    """What it makes, and what that takes."""
    do: Callable[[], Any]


def main(description: str, recipe: Callable[[Path, bool], Sequence[Step]]) -> None:
    """The command line of a recipe."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, required=True, help="folder for all that is made")
    parser.add_argument("--tiny", action="store_true", help="a minute, offline, on the small world")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    asked = parser.parse_args()
    for number, step in enumerate(recipe(asked.out, asked.tiny), 1):
        print(f"{number}. {step.name}: {step.price}", flush=True)
        if asked.dry_run:
            continue
        started = time.perf_counter()
        found = step.do()
        shown = "" if found is None else f" {found}"
        print(f"   done in {duration(time.perf_counter() - started)}{shown}", flush=True)


def training_price(config: tm.lm.ModelConfig, tokens: float) -> str:
    """What it costs to train a model on so many tokens."""
    cost = tm.lm.account(config)
    flops = cost.training_flops_per_token * tokens
    hours = flops / (L4_FLOPS * MFU) / 3600
    on_l4 = f"{hours:.1f} h" if hours >= 0.1 else duration(hours * 3600)
    return (
        f"{cost.parameters.total:,} parameters on {tokens:,.0f} tokens, {flops:.2e} FLOPs: about {on_l4} on one L4 at {MFU:.0%} of its "
        "dense peak"
    )


def write_stories(folder: Path, count: int, seed: int = 0) -> str:
    """Stories of the small world where a recipe pulls text: a split for training and one for validation."""
    for split, start, number in (("train", 0, count), ("validation", count, count // 20)):
        (folder / split).mkdir(parents=True, exist_ok=True)
        text = "<|endoftext|>".join(stories(seed, number, start))
        (folder / split / "stories.txt").write_text(text, encoding="utf-8")
    return f"{count:,} stories"


def write_rows(file: Path, rows: Sequence[dict[str, Any]]) -> str:
    """Rows where a recipe pulls conversations or preferences."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(map(as_line, rows)), encoding="utf-8")
    return f"{len(rows):,} rows"
