"""`tokenmill lm chat`: talk to a model in the terminal, ask it one thing, or send it lines through a pipe."""

import contextlib
import importlib
import json as json_lines
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from tokenmill.cli import lm_options as own
from tokenmill.cli import options as flags
from tokenmill.cli.console import answering_errors, set_up_logging
from tokenmill.errors import SourceError, TokenmillError
from tokenmill.lm.generate_settings import GenerateSettings

if TYPE_CHECKING:
    from tokenmill.lm.chat_session import ChatSession, Reply

YOU, MODEL = "you   › ", "model › "
HELP = """/reset            forget what was said
/system TEXT      another system prompt, and forget what was said; without TEXT none
/params           how answers are drawn
/params NAME=X    draw them otherwise: temperature, top_k, top_p, max_tokens, seed
/quit             leave, as Ctrl-D does
Ctrl-C stops an answer."""


@answering_errors
def chat(
    model: own.ModelPath,
    message: Annotated[
        str | None,
        typer.Option("--message", "-m", metavar="TEXT", help="Say this, print the answer, leave."),
    ] = None,
    system: Annotated[
        str | None,
        typer.Option("--system", metavar="TEXT", help="What the model is told before you speak."),
    ] = None,
    max_tokens: own.MaxTokens = GenerateSettings.max_tokens,
    temperature: own.Temperature = GenerateSettings.temperature,
    top_k: own.TopK = None,
    top_p: own.TopP = None,
    seed: Annotated[
        int,
        typer.Option(
            "--seed",
            metavar="N",
            show_default=False,
            help=flags.help_text("Each answer is drawn by it.", GenerateSettings.seed),
        ),
    ] = GenerateSettings.seed,
    step: own.Step = "last",
    device: own.Device = None,
    tokenizer: own.ModelTokenizer = None,
    json: flags.Json = False,
    verbose: flags.Verbose = 0,
) -> None:
    """Talk to a model.

    MODEL is a run, a checkpoint or a folder of transformers, with a chat template. In a terminal you talk in turns, and /help says
    what else there is; through a pipe each line is what you say, and each answer a line.
    """
    from tokenmill.errors import ConfigError
    from tokenmill.lm.chat_format import chat_format
    from tokenmill.lm.chat_session import ChatSession
    from tokenmill.lm.open_model import open_model

    set_up_logging(verbose)
    settings = GenerateSettings(max_tokens, temperature, top_k, top_p, seed)
    loaded = open_model(model, step=step, device=device, tokenizer=tokenizer)
    if loaded.tokenizer is None:
        raise ConfigError(f"`{model}` comes without a tokenizer", "pass `--tokenizer DIR`")
    form = chat_format(loaded.tokenizer, loaded.profile)
    session = ChatSession(loaded.model, form, settings, system)
    if message is not None:
        _say(session, message, as_json=json)
    elif json or not sys.stdin.isatty():
        for text in _lines(sys.stdin.buffer):
            _say(session, text, as_json=json)
    else:
        _talk(session, model)


def _lines(stream: BinaryIO) -> Iterator[str]:
    """What is said through a pipe. SourceError naming the line that is no text."""
    for number, line in enumerate(stream, 1):
        try:
            text = line.decode().strip()
        except UnicodeDecodeError as error:
            raise SourceError(
                f"line {number} of stdin is not UTF-8: bad byte at {error.start}"
            ) from None
        if text:
            yield text


def _say(session: "ChatSession", text: str, *, as_json: bool) -> None:
    """One answer on a line of its own."""
    reply = session.answer(text, None if as_json else _show)
    if as_json:
        print(json_lines.dumps(_as_json(text, reply), ensure_ascii=False), flush=True)
    else:
        print(flush=True)
    if reply.ended_by == "stopped":
        raise KeyboardInterrupt


def _as_json(text: str, reply: "Reply") -> dict[str, Any]:
    return {
        "message": text,
        "answer": reply.text,
        "ids": reply.ids,
        "ended_by": reply.ended_by,
        "forgotten_turns": reply.forgotten,
    }


def _show(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _talk(session: "ChatSession", name: str) -> None:
    """Turn after turn, until the person leaves."""
    with contextlib.suppress(ImportError):
        importlib.import_module("readline")  # input() edits lines and remembers them with it
    print(f"talking to {name}; /help says what you can do here, Ctrl-D leaves")
    while True:
        try:
            text = input(YOU).strip()
            text.encode()  # where the system lets bytes through that are no text
        except EOFError:
            print()
            return
        except UnicodeError:
            print("error: that is not UTF-8")
            continue
        except KeyboardInterrupt:
            print("\n(Ctrl-D or /quit leaves)")
            continue
        if text == "/quit":
            return
        try:
            if text.startswith("/"):
                _obey(session, text)
            elif text:
                _turn(session, text)
        except KeyboardInterrupt:
            print()  # a little too late, or before the answer began
        except TokenmillError as error:
            print(f"error: {error.message}" + (f"\nhint: {error.hint}" if error.hint else ""))


def _turn(session: "ChatSession", text: str) -> None:
    print(MODEL, end="", flush=True)
    reply = session.answer(text, _show)
    print(" …(stopped)" if reply.ended_by == "stopped" else "", flush=True)
    if reply.ended_by == "max_tokens":
        print("(its longest answer; /params max_tokens=N allows more)")
    if reply.forgotten:
        print(f"({reply.forgotten} turns no longer fit what the model sees, and are forgotten)")


def _obey(session: "ChatSession", text: str) -> None:
    command, _, rest = text.partition(" ")
    rest = rest.strip()
    if command == "/help":
        print(HELP)
    elif command == "/reset":
        session.reset()
        print("(forgotten)")
    elif command == "/system":
        session.system = rest or None
        session.reset()
        print("(a new conversation)")
    elif command == "/params":
        for change in rest.split():
            _change(session, change)
        print("  ".join(f"{name}={_shown(value)}" for name, value in session.parameters.items()))
    else:
        print(f"there is no {command}; /help says what there is")


def _change(session: "ChatSession", change: str) -> None:
    from tokenmill.errors import ConfigError

    name, found, value = change.partition("=")
    if not found:
        raise ConfigError(f"`{change}` is no change", "write it as `/params temperature=0.5`")
    session.change(name.replace("-", "_"), _value_of(value))


def _value_of(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _shown(value: object) -> str:
    return "none" if value is None else f"{value}"
