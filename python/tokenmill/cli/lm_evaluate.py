"""`tokenmill lm evaluate`: a model and something to measure it with in, bits per byte, preferences or right answers out."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tokenmill.cli import lm_options as own
from tokenmill.cli import options as flags
from tokenmill.cli.console import answering_errors, line, print_json, set_up_logging
from tokenmill.lm.evaluate_settings import EvaluateSettings

if TYPE_CHECKING:
    from tokenmill.lm.open_model import LoadedModel
    from tokenmill.progress import Meter


@answering_errors
def evaluate(
    model: own.ModelPath,
    data: Annotated[
        str | None, typer.Option("--data", metavar="DATASET", help="Documents to score.")
    ] = None,
    prefs: Annotated[
        str | None,
        typer.Option(
            "--prefs",
            metavar="DATASET",
            help="Pairs of answers to rank: a dataset of `encode --mode preference`, or its rows.",
        ),
    ] = None,
    questions: Annotated[
        str | None,
        typer.Option(
            "--questions",
            metavar="FILE",
            help="Questions with exact answers: lines of `prompt` and `answers`.",
        ),
    ] = None,
    max_tokens: Annotated[
        int | None,
        typer.Option(
            "--max-tokens", metavar="N", help=flags.help_text("Longest answer to a question.", 32)
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            "--split",
            metavar="NAME",
            help=flags.help_text(
                "Of the dataset.", "validation; of pairs without one, all there are"
            ),
        ),
    ] = None,
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
    """Measure a model: bits per byte of documents, preferences, right answers.

    MODEL is a run, a checkpoint or a folder of transformers; DATASET a folder of `tokenmill encode` or a token file, which has the
    split `train` alone. Bits per byte count the bytes of the raw text, so they compare across tokenizers. Answers to questions are the
    likeliest ones, and right if they are equal to one of those in the file.
    """
    from tokenmill.errors import ConfigError
    from tokenmill.lm.open_model import open_model
    from tokenmill.progress import Meter

    set_up_logging(verbose)
    if data is None and prefs is None and questions is None:
        raise typer.BadParameter("one of `--data`, `--prefs` and `--questions` is needed")
    loaded = open_model(model, step=step, device=device, tokenizer=tokenizer)
    if loaded.tokenizer is None and (prefs is not None or questions is not None):
        raise ConfigError(f"`{model}` comes without a tokenizer", "pass `--tokenizer DIR`")
    told: dict[str, Any] = {"model": model, "step": loaded.step}
    meter = Meter(False if quiet else None)
    says = not json and not quiet
    if data is not None:
        settings = EvaluateSettings(stride, batch_tokens, max_documents)
        told |= _documents(loaded, data, split, dtype, settings, meter, says)
    if prefs is not None:
        told["preferences"] = _preferences(loaded, prefs, split, meter, says)
    if questions is not None:
        told["questions"] = _questions(loaded, questions, max_tokens, meter, says)
    if json:
        print_json(told)


def _documents(
    loaded: "LoadedModel",
    data: str,
    split: str | None,
    dtype: str | None,
    settings: EvaluateSettings,
    meter: "Meter",
    says: bool,
) -> dict[str, Any]:
    from tokenmill.dataset.dataset import Dataset
    from tokenmill.lm.evaluate import evaluate as score

    dataset = Dataset.open(data, dtype=dtype)
    part = dataset[split or "validation"] if dataset.manifest is not None else dataset.main_split
    found = score(
        loaded.model,
        part,
        tokenizer_sha256=loaded.tokenizer_sha256,
        meter=meter,
        **asdict(settings),
    )
    if says:
        line("scored", f"{found.num_tokens:,} tokens of {found.num_documents:,} documents")
        line("loss", f"{found.loss:.4f} nats a token, perplexity {found.perplexity:.2f}")
        if found.bits_per_byte is not None:
            line("bits", f"{found.bits_per_byte:.4f} for each of {found.num_bytes:,} bytes")
        if found.eos_loss is not None:
            line("eos", f"{found.eos_loss:.4f} nats")
        if found.note is not None:
            line("note", found.note)
    return {"data": data, "split": part.name, **found.as_json()}


def _preferences(
    loaded: "LoadedModel", prefs: str, split: str | None, meter: "Meter", says: bool
) -> dict[str, Any]:
    from tokenmill.lm.preference_scoring import score_preferences
    from tokenmill.progress import quantity

    assert loaded.tokenizer is not None
    found = score_preferences(
        loaded.model, loaded.tokenizer, prefs, split=split, profile=loaded.profile, meter=meter
    )
    if says:
        left_out = f", {found.dropped_pairs:,} left out" if found.dropped_pairs else ""
        line("ranked", f"{quantity(found.pairs, 'pair')}{left_out}")
        line(
            "right",
            f"{found.accuracy:.1%} of them, by whole answers; {found.accuracy_per_token:.1%} by the mean of a token",
        )
        line(
            "nats",
            f"{found.chosen_log_prob:.2f} for chosen answers, {found.rejected_log_prob:.2f} for rejected ones",
        )
    return {"data": prefs, **found.as_json()}


def _questions(
    loaded: "LoadedModel", questions: str, max_tokens: int | None, meter: "Meter", says: bool
) -> dict[str, Any]:
    from tokenmill.lm.answering import MAX_TOKENS, ask, read_questions, share_right
    from tokenmill.progress import quantity

    assert loaded.tokenizer is not None
    asked = read_questions(questions)
    answered = ask(
        loaded.model,
        loaded.tokenizer,
        asked,
        max_tokens=MAX_TOKENS if max_tokens is None else max_tokens,
        profile=loaded.profile,
        meter=meter,
    )
    right = sum(each.is_right for each in answered)
    if says:
        line("asked", quantity(len(answered), "question"))
        line("right", f"{right:,}, {share_right(answered):.1%}")
        wrong = next((each for each in answered if not each.is_right), None)
        if wrong is not None:
            line(
                "wrong",
                f"{wrong.question.text!r}: {wrong.text!r}, not {wrong.question.answers[0]!r}",
            )
    return {
        "file": questions,
        "asked": len(answered),
        "right": right,
        "share_right": share_right(answered),
        "answers": [each.as_json() for each in answered],
    }
