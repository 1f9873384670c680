# pyright: basic
"""What a run folder says about itself: `run.json`, written before the first step, held against what is asked when a run goes on."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenmill.errors import ConfigError, FormatError
from tokenmill.lm.model_config import ModelConfig
from tokenmill.lm.settings import (
    FREE_TO_CHANGE,
    OF_SCHEDULE,
    TrainSettings,
    differing_setting,
    differing_shape,
)
from tokenmill.storage.files import write_atomically

RUN_FILE = "run.json"
FORMAT = "tokenmill run"


def write_run(folder: Path, state: Mapping[str, Any]) -> None:
    text = json.dumps({"format": FORMAT, "format_version": 1, **state}, indent=1)
    write_atomically(folder / RUN_FILE, text.encode() + b"\n")


def read_run(folder: Path) -> dict[str, Any] | None:
    """What `folder` says about its run, `None` if there is none in it. ConfigError if it holds something else."""
    if not folder.exists() or not any(folder.iterdir()):
        return None
    try:
        found = json.loads((folder / RUN_FILE).read_bytes())
    except FileNotFoundError:
        raise ConfigError(
            f"`{folder}` exists and is no run of ours", "choose a place that does not exist yet"
        ) from None
    except ValueError as error:
        raise FormatError(f"`{folder / RUN_FILE}` is not valid JSON: {error}") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise FormatError(f"`{folder / RUN_FILE}` is not ours")
    return found


def require_same_run(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """ConfigError naming both sides if the run that `before` describes is another one, whatever its schedule."""
    hint = "choose another folder, or pass `--force` to start anew"
    stage = before.get("stage", "pretrain")
    if stage != now["stage"]:
        raise ConfigError(f"`{folder}` is a run of `lm {stage}`, not `lm {now['stage']}`", hint)
    if before["data"]["sha256"] != now["data"]["sha256"]:
        raise ConfigError(
            f"`{folder}` was trained on ids of sha256 `{before['data']['sha256'][:16]}…`, "
            f"not `{now['data']['sha256'][:16]}…`",
            hint,
        )
    if before["tokenizer_sha256"] != now["tokenizer_sha256"]:
        raise ConfigError(
            f"`{folder}` is of the tokenizer `{before['tokenizer_sha256']}`, not `{now['tokenizer_sha256']}`",
            hint,
        )
    difference = (
        differing_shape(ModelConfig.from_json(before["model"]), ModelConfig.from_json(now["model"]))
        or differing_setting(before.get("stage_settings", {}), now["stage_settings"])
        or differing_setting(before["settings"], now["settings"], {*FREE_TO_CHANGE, *OF_SCHEDULE})
    )
    if difference is not None:
        raise ConfigError(f"`{folder}` was begun with {difference}", hint)


def require_same_rates(
    folder: Path, before: TrainSettings, now: TrainSettings, steps_done: int
) -> None:
    """ConfigError if a step that is done would have had another learning rate: then the run is not the one asked for."""
    if steps_done > now.max_steps:
        raise ConfigError(
            f"`{folder}` has done {steps_done:,} steps, more than the {now.max_steps:,} asked for"
        )
    old, new = before.learning_rates(), now.learning_rates()
    step = next((s for s in range(steps_done) if old.rate(s) != new.rate(s)), None)
    if step is None:
        return
    difference = differing_setting(
        {name: getattr(before, name) for name in OF_SCHEDULE},
        {name: getattr(now, name) for name in OF_SCHEDULE},
    )
    raise ConfigError(
        f"`{folder}` was begun with {difference}: its step {step + 1:,}, which is done, had the learning rate "
        f"{old.rate(step):.4g} and would have {new.rate(step):.4g}",
        f"the schedule `{now.schedule}` spreads over all its steps; to go on, start another run with these weights: "
        f"`--from {folder}`"
        if now.schedule == "cosine"
        else f"go on with the schedule as it was, or start another run with these weights: `--from {folder}`",
    )
