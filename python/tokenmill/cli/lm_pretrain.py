"""`tokenmill lm pretrain`: train a model on a dataset."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from tokenmill.cli.console import answering_errors
from tokenmill.cli.lm_train_options import TrainingFlags, given, takes_training_flags
from tokenmill.cli.lm_training import train_stage
from tokenmill.cli.options import help_text
from tokenmill.lm.model_config import PRESETS
from tokenmill.lm.settings import PACKINGS, TrainSettings

if TYPE_CHECKING:
    from tokenmill.lm.run import Run


@answering_errors
@takes_training_flags(
    TrainSettings(),
    steps=f"{TrainSettings.max_steps}",
    tables="tables `model`, `train`, `data`, `log`",
)
def pretrain(
    data: Annotated[
        str | None,
        typer.Option(
            "--data", metavar="DS", help="A dataset, with its splits.", show_default=False
        ),
    ] = None,
    train: Annotated[
        str | None,
        typer.Option(
            "--train", "--train-data", metavar="DS", help="A dataset or a plain file of ids."
        ),
    ] = None,
    val: Annotated[
        str | None,
        typer.Option("--val", "--val-data", metavar="DS", help="The same, for validation."),
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="MODEL",
            help="Start with the weights, and the shape, of a run, a checkpoint or a folder of transformers.",
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            "--preset",
            metavar="NAME",
            show_default=False,
            help=help_text(f"Shape of the model: {', '.join(PRESETS)}.", "1m"),
        ),
    ] = None,
    vocab_size: Annotated[
        int | None,
        typer.Option("--vocab-size", metavar="N", help="For ids that nothing describes."),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option("--dtype", metavar="TYPE", help="Of a .bin that nothing describes."),
    ] = None,
    packing: Annotated[
        str | None,
        typer.Option(
            "--packing",
            metavar="|".join(PACKINGS),
            show_default=False,
            help=help_text("How documents become rows.", TrainSettings.packing),
        ),
    ] = None,
    document_mask: Annotated[
        bool,
        typer.Option("--document-mask", help="Keep documents of a row from looking at each other."),
    ] = False,
    *,
    training: TrainingFlags,
) -> None:
    """Train a model on a dataset.

    DS is a folder that `tokenmill encode` wrote, whose splits `train` and `validation` are used, or a
    .npy or .bin of ids. Under `torchrun` ranks share the work.
    """
    if (data is None) == (train is None):
        raise typer.BadParameter("either `--data` or `--train` is needed")
    rows = given(packing=packing, document_mask=document_mask or None)
    tables = {
        "train": {**training.tables["train"], **rows},
        "data": given(train=train or data, validation=val, vocab_size=vocab_size, dtype=dtype),
    }
    train_stage(
        _prepare,
        training,
        tables,
        "tokenmill lm generate {} --prompt 'Once'",
        start_from=from_,
        preset_name=preset,
    )


def _prepare() -> "Callable[..., Run]":
    from tokenmill.lm.pretrain import prepare_from_tables

    return prepare_from_tables
