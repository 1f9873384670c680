# pyright: basic
"""What fine-tuning and preference training begin with: a base model and rows of conversations in, parts that fit each other out."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from tokenmill.errors import ConfigError
from tokenmill.lm.batches import Rows
from tokenmill.lm.chat_format import chat_format
from tokenmill.lm.config_file import merged_tables, settings_from
from tokenmill.lm.distributed import Ranks, join_ranks
from tokenmill.lm.generate import generate
from tokenmill.lm.hardware import find_device
from tokenmill.lm.lora import add_lora
from tokenmill.lm.model import Model
from tokenmill.lm.model_config import ModelConfig
from tokenmill.lm.packing import spans_of
from tokenmill.lm.post_training_settings import DpoSettings, LoraSettings, SftSettings
from tokenmill.lm.run import Run, Stage
from tokenmill.lm.run_folder import read_run
from tokenmill.lm.settings import TrainSettings
from tokenmill.lm.sinks import LogSettings, require_sinks
from tokenmill.lm.start_from import Start, find_start, require_same_vocab, shape_from
from tokenmill.lm.token_data import DataSettings, TokenData, open_data
from tokenmill.lm.vocab_growth import GROWING, new_ids_of, require_extension
from tokenmill.progress import ProgressChoice
from tokenmill.storage.files import local_path
from tokenmill.tokenizer.tokenizer import Tokenizer

SAMPLES, SAMPLE_PROMPTS = 4, 3
"""How often a run writes samples, and how many at once, where nobody says otherwise."""
T = TypeVar("T", SftSettings, DpoSettings)


@dataclass(frozen=True)
class Beginning:
    """A base model and data that belong together, and where to train."""

    start: Start
    train: TokenData
    validation: TokenData | None
    out: Path
    before: Mapping[str, Any] | None
    """What `out` says about the run it holds."""
    device: torch.device
    ranks: Ranks
    logs: LogSettings
    resume: bool
    force: bool

    def config(self, changes: Mapping[str, Any]) -> ModelConfig:
        """The shape of the base with `changes`, and room for all tokens of the data."""
        found = self.start.config
        asked = settings_from(ModelConfig, changes, "model", found)
        shape = shape_from(self.start, asked, changes)
        return replace(shape, vocab_size=max(found.vocab_size, self.train.vocab_size))

    def settings(
        self, given: Mapping[str, Any], defaults: TrainSettings, num_rows: int, epochs: float
    ) -> TrainSettings:
        """What was `given`, `defaults` for the rest, and as many steps as `epochs` take; the rate falls over the second half of them."""
        chosen = settings_from(TrainSettings, given, "train", defaults)
        if "max_steps" not in given:
            steps = max(1, math.ceil(epochs * num_rows / chosen.batch_size))
            chosen = replace(chosen, max_steps=steps)
        if "sample_every" not in given:
            chosen = replace(chosen, sample_every=max(1, chosen.max_steps // SAMPLES))
        if "sample_prompts" not in given:
            chosen = replace(chosen, sample_prompts=())
        if chosen.schedule == "wsd" and "cooldown_steps" not in given:
            chosen = replace(chosen, cooldown_steps=chosen.max_steps // 2)
        if self.before is None:
            return chosen
        return chosen.with_warmup_of(TrainSettings.from_json(self.before["settings"]))

    def run(
        self,
        stage: Stage,
        config: ModelConfig,
        settings: TrainSettings,
        rows: Rows,
        validation_rows: Rows | None,
    ) -> Run:
        """A run of `stage` from here."""
        told = {"profile": self.profile}
        return Run(
            replace(stage, settings={**stage.settings, **told}, sample=self._sampler()),
            self.train,
            self.validation,
            config,
            self.start,
            settings,
            self.logs,
            self.out,
            self.resume,
            self.force,
            self.device,
            self.ranks,
            rows,
            validation_rows,
        )

    def _sampler(self) -> Callable[[Model, Tokenizer, TrainSettings], list[str]]:
        data = self.train if self.validation is None else self.validation
        prompts = first_prompts(data, SAMPLE_PROMPTS)
        return partial(answer_prompts, prompts=prompts, profile=self.profile)

    def adapters(self, lora: LoraSettings | None, seed: int) -> Callable[[Model], None] | None:
        """What gives a model adapters, if it is to have them. ConfigError if it has none of the matrices they are for."""
        if lora is None:
            return None
        lora.require_some_in(self.start.config)
        # An embedding that nobody has learned yet needs more than an adapter.
        trained = GROWING if self.start.new_ids else ()
        return partial(add_lora, settings=lora, seed=seed, trained=trained)

    @property
    def profile(self) -> Any:
        """How conversations were rendered, as JSON; `None` for a template of others."""
        manifest = self.train.split.origin.manifest
        return None if manifest is None else manifest.settings.get("profile")


def begin(
    data: DataSettings,
    out: str | os.PathLike[str],
    *,
    base: str | os.PathLike[str] | None,
    mode: str,
    train: Mapping[str, Any],
    logs: LogSettings | None = None,
    resume: bool = True,
    force: bool = False,
    progress: ProgressChoice = None,
) -> Beginning:
    """The base and the data of a run at `out`, for datasets of `mode`; `train` are settings of training that were given.

    ConfigError naming both hashes if they are of different tokenizers.
    """
    require_sinks(logs or LogSettings())
    _require_own_packing(train)
    if train.get("threads") is not None:
        torch.set_num_threads(train["threads"])
    wanted = train.get("device", TrainSettings.device)
    ranks = join_ranks("cuda" if wanted.startswith("cuda") else "cpu")
    device = find_device(wanted, ranks.local_rank)
    train_data, validation = open_data(data, progress)
    for each in (train_data, validation):
        if each is not None:
            _require_mode(each, mode)
    before = None if force else read_run(local_path(out))
    start = find_start(base, local_path(out), before)
    if start is None:
        raise ConfigError("there is no model to start from", "name one with `--base`")
    if before is None:  # a run's own file is held against the data
        start = with_tokens_of(start, train_data)
    return Beginning(
        start,
        train_data,
        validation,
        local_path(out),
        before,
        device,
        ranks,
        logs or LogSettings(),
        resume,
        force,
    )


def arguments_from(
    tables: Mapping[str, Mapping[str, Any]],
    stage: str,
    kind: type[T],
    *,
    config: Path | None,
    overrides: Sequence[str],
    base: str | None,
) -> dict[str, Any]:
    """What the tables of a TOML file, `a.b=c` and the command line say, as arguments of what prepares a run of `stage`."""
    values = merged_tables(tables, config, overrides, ("base",))
    if "train" not in values["data"]:
        raise ConfigError("there is no data to train on", "name a dataset with `--data`")
    return {
        "data": settings_from(DataSettings, values["data"], "data"),
        "base": base or values.get("base"),
        "options": settings_from(kind, values[stage], stage),
        "train": values["train"],
        "model": values["model"],
        "logs": settings_from(LogSettings, values["log"], "log"),
    }


def _require_own_packing(train: Mapping[str, Any]) -> None:
    """ConfigError for rows of another kind: conversations stay whole, and do not look into each other."""
    if train.get("packing", "best-fit") != "best-fit" or not train.get("document_mask", True):
        raise ConfigError(
            "conversations are packed whole, best-fit, with a document mask: there is no other way here",
            "leave `packing` and `document_mask` out",
        )


def _require_mode(data: TokenData, mode: str) -> None:
    found = data.split.origin.mode
    if found != mode or data.split.origin.manifest is None:
        raise ConfigError(
            f"`{data.name}` holds documents of mode `{found}`, this stage needs `{mode}`",
            f"encode the rows with `tokenmill encode --mode {mode}`",
        )


def with_tokens_of(start: Start, train: TokenData) -> Start:
    """`start` with the tokens that the ids of `train` have more. ConfigError naming both hashes if they mean something else to it."""
    if start.tokenizer is None or train.tokenizer is None:
        require_same_vocab(start, train)
        return start
    require_extension(start.path, start.tokenizer, train.name, train.tokenizer)
    return replace(start, new_ids=new_ids_of(start.tokenizer, train.tokenizer))


def first_prompts(data: TokenData, most: int) -> list[list[int]]:
    """What stands before the first answer in the first documents of `data`, as ids; at most `most`, none twice."""
    starts, lengths = spans_of(data.ends)
    found: dict[tuple[int, ...], None] = {}
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        if len(found) == most:
            break
        mask = np.asarray(data.mask[start : start + length]) if data.mask is not None else []
        before = int(np.argmax(mask)) if len(mask) else 0
        if before:
            found[tuple(np.asarray(data.tokens[start : start + before]).tolist())] = None
    return [list(ids) for ids in found]


def answer_prompts(
    model: Model,
    tokenizer: Tokenizer,
    settings: TrainSettings,
    prompts: list[list[int]],
    profile: Mapping[str, Any] | None = None,
) -> list[str]:
    """What `model` answers to the prompts of `settings`, if there are some, else to `prompts`: whole conversations as they are read."""
    form = chat_format(tokenizer, profile)
    asked = [
        form.prompt_ids([{"role": "user", "content": text}]) for text in settings.sample_prompts
    ]
    asked = asked or [ids for ids in prompts if len(ids) < model.config.context]
    found = generate(
        model,
        tokenizer,
        asked,
        max_tokens=settings.sample_tokens,
        temperature=0.0,
        stop_tokens=form.stop_tokens,
    )
    return [tokenizer.decode(ids) + each.text for ids, each in zip(asked, found, strict=True)]
