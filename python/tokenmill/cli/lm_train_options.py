"""Flags of training, each with the default of the dataclass that holds it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tokenmill.cli.options import help_text
from tokenmill.lm.model_config import PRESETS
from tokenmill.lm.schedule import SCHEDULES
from tokenmill.lm.settings import COMPILES, OPTIMIZERS, PACKINGS, PRECISIONS, TrainSettings


def _option(*names: str, metavar: str, text: str, default: object) -> Any:
    return typer.Option(*names, metavar=metavar, help=help_text(text, default), show_default=False)


def _number(text: str, default: object, *names: str) -> Any:
    return _option(*names, metavar="N", text=text, default=default)


def _rate(text: str, default: object, *names: str) -> Any:
    return _option(*names, metavar="X", text=text, default=default)


def _name(text: str, known: tuple[str, ...], default: object, *names: str) -> Any:
    return _option(*names, metavar="|".join(known), text=text, default=default)


S = TrainSettings
Preset = Annotated[
    str | None,
    _option(
        "--preset", metavar="NAME", text=f"Shape of the model: {', '.join(PRESETS)}.", default="1m"
    ),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="MODEL",
        help="Start with the weights, and the shape, of a run, a checkpoint or a folder of transformers.",
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="TOML with tables `model`, `train`, `data`, `log`."
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="A.B=C", help="Change one setting, such as `model.qk_norm=true`."
    ),
]
Context = Annotated[
    int | None, _number("Tokens the model sees at once.", "the preset's", "--context")
]
BatchSize = Annotated[
    int | None, _number("Rows of one step, on all ranks together.", S.batch_size, "--batch-size")
]
MicroBatchSize = Annotated[
    int | None,
    _number("Rows that are computed at once; the step is the same.", "all", "--micro-batch-size"),
]
MaxSteps = Annotated[
    int | None, _number("Steps in all.", S.max_steps, "--max-steps", "--max-iters")
]
Lr = Annotated[float | None, _rate("Peak of the learning rate.", S.lr, "--lr", "--learning-rate")]
MinLr = Annotated[float | None, _rate("What it falls to.", "a tenth of the peak", "--min-lr")]
WarmupSteps = Annotated[
    int | None, _number("Steps until the peak.", "a twentieth", "--warmup-steps")
]
CooldownSteps = Annotated[
    int | None, _number("Steps of falling, with `wsd`.", "a fifth", "--cooldown-steps")
]
ScheduleName = Annotated[
    str | None, _name("Course of the learning rate.", SCHEDULES, S.schedule, "--schedule")
]
Optimizer = Annotated[
    str | None, _name("How gradients change weights.", OPTIMIZERS, S.optimizer, "--optimizer")
]
WeightDecay = Annotated[float | None, _rate("Of matrices.", S.weight_decay, "--weight-decay")]
Clip = Annotated[float | None, _rate("Longest gradient.", S.clip, "--clip", "--grad-clip")]
Packing = Annotated[
    str | None, _name("How documents become rows.", PACKINGS, S.packing, "--packing")
]
Precision = Annotated[str | None, _name("Of products.", PRECISIONS, S.precision, "--precision")]
Compile = Annotated[
    str | None,
    _name("torch.compile; `auto` on a GPU for a long run.", COMPILES, S.compile, "--compile"),
]
Device = Annotated[
    str | None,
    _option(
        "--device",
        metavar="DEVICE",
        text="cpu, cuda, cuda:1, mps.",
        default="a GPU if there is one",
    ),
]
Seed = Annotated[int | None, _number("Of weights, order and dropout.", S.seed, "--seed")]
Threads = Annotated[int | None, _number("Of torch, on a CPU.", "all cores", "--threads")]
EvalEvery = Annotated[
    int | None,
    _number(
        "Steps between validation losses, 0 for never.",
        "a twentieth",
        "--eval-every",
        "--eval-interval",
    ),
]
EvalRows = Annotated[int | None, _number("Validation rows for each.", S.eval_rows, "--eval-rows")]
SaveEvery = Annotated[int | None, _number("Steps between checkpoints.", "a tenth", "--save-every")]
KeepLast = Annotated[
    int | None, _number("Checkpoints to keep beside the best.", S.keep_last, "--keep-last")
]
LogEvery = Annotated[
    int | None,
    _number("Steps between lines of metrics.jsonl.", S.log_every, "--log-every", "--log-interval"),
]
SampleEvery = Annotated[
    int | None, _number("Steps between samples, 0 for none.", S.sample_every, "--sample-every")
]
SamplePrompt = Annotated[
    list[str] | None,
    typer.Option(
        "--sample-prompt",
        metavar="TEXT",
        help="What samples begin with; several times for several.",
    ),
]
Log = Annotated[
    str | None,
    _option(
        "--log",
        metavar="NAMES",
        text="tensorboard, wandb, both with a comma, or none.",
        default="tensorboard",
    ),
]


def given(**values: Any) -> dict[str, Any]:
    """Those that were given on the command line."""
    return {name: value for name, value in values.items() if value not in (None, [])}
