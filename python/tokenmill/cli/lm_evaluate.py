"""`tokenmill lm evaluate`: a model and a dataset in, bits per byte out."""

from dataclasses import asdict
from typing import Annotated

import typer

from tokenmill.cli import lm_options as own
from tokenmill.cli import options as flags
from tokenmill.cli.console import answering_errors, line, print_json, set_up_logging
from tokenmill.lm.evaluate_settings import EvaluateSettings


@answering_errors
def evaluate(
    model: own.ModelPath,
    data: Annotated[str, typer.Option("--data", metavar="DATASET", help="What to score.")],
    split: Annotated[
        str,
        typer.Option(
            "--split",
            metavar="NAME",
            show_default=False,
            help=flags.help_text("Of the dataset.", "validation"),
        ),
    ] = "validation",
    stride: Annotated[
        int | None,
        typer.Option(
            "--stride",
            metavar="N",
            help=flags.help_text(
                "How far windows move over documents longer than the context.", "half the context"
            ),
        ),
    ] = None,
    batch_tokens: Annotated[
        int,
        typer.Option(
            "--batch-tokens",
            metavar="N",
            show_default=False,
            help=flags.help_text("Tokens read at once.", EvaluateSettings.batch_tokens),
        ),
    ] = EvaluateSettings.batch_tokens,
    max_documents: Annotated[
        int | None,
        typer.Option(
            "--max-documents", metavar="N", help=flags.help_text("Only the first N.", "all")
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option("--dtype", metavar="TYPE", help="Of the ids in a .bin of other tools."),
    ] = None,
    step: own.Step = "last",
    device: own.Device = None,
    tokenizer: own.ModelTokenizer = None,
    json: flags.Json = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = 0,
) -> None:
    """Score whole documents: loss, perplexity and bits per byte.

    MODEL is a run, a checkpoint or a folder of transformers; DATASET a folder of `tokenmill encode` or a token file, which has the
    split `train` alone. Bits per byte count the bytes of the raw text, so they compare across tokenizers.
    """
    from tokenmill.dataset.dataset import Dataset
    from tokenmill.lm.evaluate import evaluate as score
    from tokenmill.lm.open_model import open_model
    from tokenmill.progress import Meter

    set_up_logging(verbose)
    settings = EvaluateSettings(stride, batch_tokens, max_documents)
    dataset = Dataset.open(data, dtype=dtype)
    part = dataset[split] if dataset.manifest is not None else dataset.main_split
    loaded = open_model(model, step=step, device=device, tokenizer=tokenizer)
    found = score(
        loaded.model,
        part,
        tokenizer_sha256=loaded.tokenizer_sha256,
        meter=Meter(False if quiet else None),
        **asdict(settings),
    )
    if json:
        place = {"model": model, "step": loaded.step, "data": data, "split": part.name}
        print_json({**place, **found.as_json()})
        return
    if quiet:
        return
    line("scored", f"{found.num_tokens:,} tokens of {found.num_documents:,} documents")
    line("loss", f"{found.loss:.4f} nats a token, perplexity {found.perplexity:.2f}")
    if found.bits_per_byte is not None:
        line("bits", f"{found.bits_per_byte:.4f} for each of {found.num_bytes:,} bytes")
    if found.eos_loss is not None:
        line("eos", f"{found.eos_loss:.4f} nats")
    if found.note is not None:
        line("note", found.note)
