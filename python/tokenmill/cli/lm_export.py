"""`tokenmill lm export`: a model in, a folder that transformers opens out."""

from typing import Annotated

import typer

from tokenmill.cli import lm_options as own
from tokenmill.cli import options as flags
from tokenmill.cli.console import answering_errors, line, print_json, set_up_logging


@answering_errors
def export(
    model: own.ModelPath,
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="The folder to write.")],
    step: own.Step = "last",
    dtype: Annotated[
        str,
        typer.Option(
            "--dtype",
            metavar="float32|bfloat16|float16",
            show_default=False,
            help=flags.help_text("Type of the weights.", "float32"),
        ),
    ] = "float32",
    tokenizer: own.ModelTokenizer = None,
    force: flags.Force = False,
    json: flags.Json = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = 0,
) -> None:
    """Write a model as a folder that transformers and vLLM open as it is.

    MODEL is a run or a checkpoint. It becomes a Llama, with `qk_norm` a Qwen3; tokenizer and chat template
    come along. A model that neither of them computes is refused.
    """
    from tokenmill.lm.export import architecture_of, export_model
    from tokenmill.lm.open_model import open_model

    set_up_logging(verbose)
    loaded = open_model(model, step=step, device="cpu", tokenizer=tokenizer)
    folder = export_model(loaded, out, dtype=dtype, force=force)
    kind = architecture_of(loaded.model.config)
    if json:
        print_json(
            {
                "out": str(folder),
                "architecture": kind,
                "parameters": loaded.model.num_parameters,
                "dtype": dtype,
                "step": loaded.step,
                "tokenizer_sha256": loaded.tokenizer_sha256,
            }
        )
    elif not quiet:
        line("exported", f"{kind} of {loaded.model.num_parameters:,} parameters in {dtype}")
        line("wrote", str(folder))
