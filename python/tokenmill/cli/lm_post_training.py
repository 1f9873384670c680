"""`tokenmill lm sft` and `tokenmill lm dpo`: teach a model to answer, and which answers are better."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tokenmill.cli.console import answering_errors
from tokenmill.cli.lm_train_options import Tables, TrainingFlags, given, takes_training_flags
from tokenmill.cli.lm_training import train_stage
from tokenmill.cli.options import help_text
from tokenmill.lm.post_training_settings import (
    DPO,
    DPO_LORA,
    LORA,
    LOSS_NAMES,
    SFT,
    TOO_LONG,
    DpoSettings,
    LoraSettings,
    SftSettings,
)

if TYPE_CHECKING:
    from tokenmill.lm.run import Run

EPOCHS_DECIDE = "as many as --epochs take"
Base = Annotated[
    str | None,
    typer.Option(
        "--base",
        metavar="MODEL",
        help="What to start from: a run, a checkpoint or a folder of transformers.",
    ),
]
Data = Annotated[
    str | None,
    typer.Option("--data", metavar="DS", help="A dataset, with its splits.", show_default=False),
]
Val = Annotated[
    str | None,
    typer.Option(
        "--val", metavar="DS", help=help_text("Validation data.", "the split of the dataset")
    ),
]
TooLong = Annotated[
    str | None,
    typer.Option(
        "--too-long",
        metavar="|".join(TOO_LONG),
        show_default=False,
        help=help_text("What is longer than the context.", SftSettings.too_long),
    ),
]
Lora = Annotated[
    bool, typer.Option("--lora", help="Train thin matrices beside the weights, not the weights.")
]
LoraRank = Annotated[
    int | None,
    typer.Option("--lora-rank", metavar="N", help=help_text("Their thickness.", LoraSettings.rank)),
]
LoraAlpha = Annotated[
    float | None,
    typer.Option(
        "--lora-alpha",
        metavar="X",
        help=help_text("They count alpha / rank times.", f"{LoraSettings.alpha:g}"),
    ),
]
LoraTargets = Annotated[
    str | None,
    typer.Option(
        "--lora-targets",
        metavar="NAMES",
        help=help_text("Matrices that get them, with commas.", "all of attention and MLP"),
    ),
]


SftEpochs = Annotated[
    float | None,
    typer.Option(
        "--epochs",
        metavar="X",
        help=help_text("How often each row is seen.", f"{SftSettings.epochs:g}"),
    ),
]
DpoEpochs = Annotated[
    float | None,
    typer.Option(
        "--epochs",
        metavar="X",
        help=help_text("How often each pair is seen.", f"{DpoSettings.epochs:g}"),
    ),
]


@answering_errors
@takes_training_flags(
    SFT,
    steps=EPOCHS_DECIDE,
    tables="`base` and tables `model`, `train`, `data`, `log`, `sft`, `sft.lora`",
    lora_lr=LORA.lr,
)
def sft(
    base: Base = None,
    data: Data = None,
    val: Val = None,
    epochs: SftEpochs = None,
    too_long: TooLong = None,
    lora: Lora = False,
    lora_rank: LoraRank = None,
    lora_alpha: LoraAlpha = None,
    lora_targets: LoraTargets = None,
    *,
    training: TrainingFlags,
) -> None:
    """Teach a model to answer.

    DS is a folder that `tokenmill encode --mode sft` wrote with the tokenizer of MODEL. Only what the assistant says is learned;
    conversations are packed whole, and none looks into another.
    """
    chosen = given(epochs=epochs, too_long=too_long)
    chosen |= _lora_table(lora, lora_rank, lora_alpha, lora_targets)
    _train("sft", training, chosen, base, data, val)


@answering_errors
@takes_training_flags(
    DPO,
    steps=EPOCHS_DECIDE,
    tables="`base` and tables `model`, `train`, `data`, `log`, `dpo`, `dpo.lora`",
    lora_lr=DPO_LORA.lr,
)
def dpo(
    base: Base = None,
    data: Data = None,
    val: Val = None,
    loss: Annotated[
        str | None,
        typer.Option(
            "--loss",
            metavar="|".join(LOSS_NAMES),
            show_default=False,
            help=help_text("What pairs are trained with.", DpoSettings.loss),
        ),
    ] = None,
    beta: Annotated[
        float | None,
        typer.Option(
            "--beta",
            metavar="X",
            help=help_text("How closely to stay to the reference.", DpoSettings.beta),
        ),
    ] = None,
    sft_weight: Annotated[
        float | None,
        typer.Option(
            "--sft-weight",
            metavar="X",
            help=help_text(
                "Of −log p of chosen tokens beside the loss.", f"{DpoSettings.sft_weight:g}"
            ),
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            "--reference",
            metavar="MODEL",
            help=help_text("The model to stay close to.", "the base"),
        ),
    ] = None,
    reference_cache: Annotated[
        Path | None,
        typer.Option(
            "--reference-cache",
            metavar="DIR",
            help=help_text("Where its log probabilities are kept, by content hash.", "--out"),
        ),
    ] = None,
    epochs: DpoEpochs = None,
    too_long: TooLong = None,
    lora: Lora = False,
    lora_rank: LoraRank = None,
    lora_alpha: LoraAlpha = None,
    lora_targets: LoraTargets = None,
    *,
    training: TrainingFlags,
) -> None:
    """Teach a model which of two answers is better.

    DS is a folder that `tokenmill encode --mode preference` wrote with the tokenizer of MODEL. What the reference thinks of each
    answer is computed once and kept: there is one model in memory.
    """
    chosen = given(loss=loss, beta=beta, sft_weight=sft_weight, epochs=epochs, too_long=too_long)
    chosen |= _lora_table(lora, lora_rank, lora_alpha, lora_targets)
    more = {"reference": reference, "cache": reference_cache}
    _train("dpo", training, chosen, base, data, val, **more)


def _lora_table(
    lora: bool, rank: int | None, alpha: float | None, targets: str | None
) -> dict[str, Any]:
    """Any of the flags asks for adapters."""
    names = None if targets is None else [name for name in targets.split(",") if name]
    table = given(rank=rank, alpha=alpha, targets=names)
    return {"lora": table} if lora or table else {}


def _train(
    name: str,
    training: TrainingFlags,
    chosen: dict[str, Any],
    base: str | None,
    data: str | None,
    val: str | None,
    **more: Any,
) -> None:
    def prepare() -> "Callable[..., Run]":
        from tokenmill.lm.dpo import prepare_dpo_from_tables
        from tokenmill.lm.sft import prepare_sft_from_tables

        return prepare_sft_from_tables if name == "sft" else prepare_dpo_from_tables

    tables: Tables = {name: chosen, "data": given(train=data, validation=val)}
    train_stage(prepare, training, tables, "tokenmill lm chat {}", base=base, **more)
