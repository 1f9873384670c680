"""`tokenmill lm generate`: a model and a prompt in, text out as it comes."""

import sys
from dataclasses import asdict
from typing import Annotated

import typer

from tokenmill.cli import lm_options as own
from tokenmill.cli import options as flags
from tokenmill.cli.console import answering_errors, print_json, set_up_logging
from tokenmill.lm.generate_settings import GenerateSettings


@answering_errors
def generate(
    model: own.ModelPath,
    prompt: Annotated[
        str,
        typer.Option(
            "--prompt",
            metavar="TEXT",
            show_default=False,
            help=flags.help_text("What the text goes on from.", "the beginning of a document"),
        ),
    ] = "",
    max_tokens: own.MaxTokens = GenerateSettings.max_tokens,
    temperature: own.Temperature = GenerateSettings.temperature,
    top_k: own.TopK = None,
    top_p: own.TopP = None,
    stop: Annotated[
        list[str] | None,
        typer.Option("--stop", metavar="TEXT", help="End before this text; repeat for more."),
    ] = None,
    stop_token: Annotated[
        list[str] | None,
        typer.Option(
            "--stop-token",
            metavar="TOKEN",
            help=flags.help_text(
                "End at this special token; repeat for more, `none` for none.",
                "the tokenizer's end of text",
            ),
        ),
    ] = None,
    allow_special: Annotated[
        bool,
        typer.Option(
            "--allow-special", help="Special tokens in the prompt become their ids, not an error."
        ),
    ] = False,
    seed: own.Seed = GenerateSettings.seed,
    num_samples: Annotated[
        int,
        typer.Option(
            "--num-samples",
            metavar="N",
            min=1,
            show_default=False,
            help=flags.help_text("Texts to write, all from the same prompt.", 1),
        ),
    ] = 1,
    step: own.Step = "last",
    device: own.Device = None,
    tokenizer: own.ModelTokenizer = None,
    json: flags.Json = False,
    quiet: flags.Quiet = False,
    verbose: flags.Verbose = 0,
) -> None:
    """Let a model write.

    MODEL is a run, a checkpoint or a folder of transformers. The prompt and what follows it appear on stdout as they come; several
    samples follow each other with a line `---` between them. The same seed gives the same text.
    """
    from tokenmill.errors import ConfigError
    from tokenmill.lm.generate import generate as write
    from tokenmill.lm.open_model import open_model

    set_up_logging(verbose)
    settings = GenerateSettings(
        max_tokens=max_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        stop=[flags.unescape(text).decode() for text in stop or ()],
        stop_tokens=[] if stop_token == ["none"] else stop_token or None,
    )
    loaded = open_model(model, step=step, device=device, tokenizer=tokenizer)
    if loaded.tokenizer is None:
        raise ConfigError(f"`{model}` comes without a tokenizer", "pass `--tokenizer DIR`")
    allowed = "all" if allow_special else ()
    ids = loaded.tokenizer.encode(prompt, allowed_special=allowed)
    samples: list[dict[str, object]] = []
    for number in range(num_samples):
        if not json:
            print(("---\n" if number else "") + prompt, end="", flush=True)
        choice = {**asdict(settings), "seed": seed + number}
        stream = None if json else _show
        (answer,) = write(loaded.model, loaded.tokenizer, [ids], stream=stream, **choice)
        told = {"text": answer.text, "ids": answer.ids, "ended_by": answer.ended_by}
        samples.append({"seed": seed + number, **told})
        if not json:
            print(flush=True)
    if json:
        print_json({"model": model, "step": loaded.step, "prompt": prompt, "samples": samples})


def _show(row: int, text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
