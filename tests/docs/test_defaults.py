"""docs/defaults.md says what the code does: every setting is there once, with its default and a known source."""

import ast
import re
from dataclasses import fields
from typing import Any

import pytest
from pages import REPOSITORY

from tokenmill.lm.accounting import account
from tokenmill.lm.model_config import PRESETS, ModelConfig
from tokenmill.lm.post_training_settings import (
    DPO,
    DPO_LORA,
    LORA,
    SFT,
    DpoSettings,
    LoraSettings,
    SftSettings,
)
from tokenmill.lm.settings import TrainSettings
from tokenmill.lm.sinks import LogSettings

PAGE = REPOSITORY / "docs" / "defaults.md"
TABLES = {
    "`[train]`": TrainSettings,
    "`[model]`": ModelConfig,
    "`[sft]`": SftSettings,
    "`[dpo]`": DpoSettings,
    "`[sft.lora]` and `[dpo.lora]`": LoraSettings,
    "`[log]`": LogSettings,
}
POST_TRAINING = "`[train]` of `sft` and `dpo`"
FRACTIONS = {"a fifth": 5, "a tenth": 10, "a twentieth": 20}


def rows_of(heading: str) -> list[list[str]]:
    """The cells of the table under `heading`, without its head."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def value_of(cell: str) -> Any:
    """What stands in the first code span: a Python literal, or a plain name."""
    found = re.match(r"`([^`]+)`", cell)
    assert found is not None, cell
    try:
        return ast.literal_eval(found[1])
    except (SyntaxError, ValueError):
        return found[1]


@pytest.mark.parametrize("heading", TABLES)
def test_every_setting_has_its_default(heading: str) -> None:
    stated = {value_of(name): value_of(default) for name, default, *_ in rows_of(heading)}
    kind = TABLES[heading]
    assert stated == {field.name: field.default for field in fields(kind)}
    assert [type(value) for value in stated.values()] == [
        type(field.default) for field in fields(kind)
    ]


def test_what_none_stands_for() -> None:
    """A default of None says behind its colon what happens then; fractions are held against the code."""
    settings = TrainSettings(max_steps=1000)
    rates = settings.learning_rates()
    happens = {
        "min_lr": (settings.lr, rates.floor),
        "warmup_steps": (1000, rates.warmup_steps),
        "cooldown_steps": (1000, rates.cooldown_steps),
        "eval_every": (1000, settings.steps_between_evals),
        "save_every": (1000, settings.steps_between_saves),
    }
    found = set[str]()
    for heading in TABLES:
        for name, default, *_ in rows_of(heading):
            meaning = re.match(r"`None`: (a \w+) of", default)
            if meaning is not None and meaning[1] in FRACTIONS:
                whole, part = happens[value_of(name)]
                assert whole / FRACTIONS[meaning[1]] == pytest.approx(part), name
                found.add(value_of(name))
    assert found == set(happens)


def test_what_post_training_changes() -> None:
    """Columns are settings of training; those that are not there are as in pretraining."""
    stated = {value_of(name): cells[:4] for name, *cells in rows_of(POST_TRAINING)}
    for column, settings in enumerate((SFT, LORA, DPO, DPO_LORA)):
        differing = {
            field.name: getattr(settings, field.name)
            for field in fields(TrainSettings)
            if getattr(settings, field.name) != field.default
        }
        assert {name: value_of(cells[column]) for name, cells in stated.items()} == differing


def test_sources_are_listed() -> None:
    known = set(re.split(r", ", ", ".join(row[0] for row in rows_of("Sources"))))
    for heading in (*TABLES, POST_TRAINING):
        for name, *_, source in rows_of(heading):
            unknown = set(filter(None, source.split("; "))) - known - {"judgement"}
            assert not unknown, f"{name}: {unknown}"


def test_presets_are_what_they_are() -> None:
    stated = {value_of(name): cells for name, *cells, _ in rows_of("Presets")}
    assert list(stated) == list(PRESETS)
    for name, config in PRESETS.items():
        shape = (config.vocab_size, config.context, config.num_layers, config.d_model)
        widths = (*shape, config.num_heads, config.ff_width)
        head = "tied" if config.tied_head else "own"
        total = account(config).parameters.total
        assert stated[name] == [*(f"{n:,}" for n in widths), head, f"{total:,}"], name
