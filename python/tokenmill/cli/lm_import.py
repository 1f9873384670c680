"""`tokenmill lm import`: a model of others in, a folder of ours out."""

from typing import Annotated

import typer

from tokenmill.cli import options as flags
from tokenmill.cli.console import answering_errors, line, print_json, set_up_logging


@answering_errors
def import_(
    path: Annotated[str, typer.Argument(metavar="FOLDER", hidden=True)],
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="The folder to write.")],
    tokenizer: Annotated[
        str | None,
        typer.Option(
            "--tokenizer",
            metavar="DIR",
            help=flags.help_text("The tokenizer of the model.", "the one beside it"),
        ),
    ] = None,
    num_heads: Annotated[
        int | None,
        typer.Option("--num-heads", metavar="N", help="Of a course checkpoint: query heads."),
    ] = None,
    context: Annotated[
        int | None,
        typer.Option("--context", metavar="N", help="Of a course checkpoint: its context length."),
    ] = None,
    rope_theta: Annotated[
        float | None,
        typer.Option(
            "--rope-theta",
            metavar="X",
            help=flags.help_text("Of a course checkpoint: the base of RoPE.", "10000"),
        ),
    ] = None,
    rope_layout: Annotated[
        str | None,
        typer.Option(
            "--rope-layout",
            metavar="interleaved|half-split",
            help=flags.help_text("Of a course checkpoint: which pairs RoPE turns.", "interleaved"),
        ),
    ] = None,
    force: flags.Force = False,
    json: flags.Json = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = 0,
) -> None:
    """Read a model of others, to generate with it or to evaluate it.

    FOLDER is a Llama or Qwen3 of transformers (safetensors), or a checkpoint of the CS336 course: a .pt or .safetensors
    file, or a folder with one and model_config.json. No code in it is run.
    """
    from tokenmill.lm.import_model import import_model
    from tokenmill.lm.save_imported import save_imported
    from tokenmill.tokenizer.tokenizer import Tokenizer

    set_up_logging(verbose)
    imported = import_model(
        path, num_heads=num_heads, context=context, rope_theta=rope_theta, rope_layout=rope_layout
    )
    own = imported.tokenizer if tokenizer is None else Tokenizer.load(tokenizer)
    folder = save_imported(imported, out, tokenizer=own, force=force)
    parameters = sum(weight.numel() for weight in imported.weights.values())
    if json:
        print_json(
            {
                "out": str(folder),
                "kind": imported.kind,
                "parameters": parameters,
                "model": imported.config.as_json(),
                "tokenizer_sha256": None if own is None else own.sha256,
            }
        )
    elif not quiet:
        line("imported", f"{imported.kind} of {parameters:,} parameters")
        line("wrote", str(folder))
