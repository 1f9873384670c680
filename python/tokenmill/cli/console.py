"""How commands speak: report lines on stdout, everything else on stderr, and exit codes.

0 is done, 1 failed, 2 misused, 130 interrupted. No traceback reaches anybody who did not ask for
debugging.
"""

import functools
import json
import logging
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from typing import ParamSpec

import typer

from tokenmill.errors import TokenmillError
from tokenmill.progress import duration

P = ParamSpec("P")
TEXT_WIDTH = 62

log = logging.getLogger("tokenmill")


def line(label: str, text: str, seconds: float | None = None) -> None:
    """`counted  1.2 GB, 412,903 documents   41 s`: one line of the report."""
    spent = "" if seconds is None else f"  {duration(seconds):>9}"
    print(f"{label:<9}{text:<{TEXT_WIDTH if spent else 0}}{spent}")


def print_json(value: Mapping[str, object]) -> None:
    """Machine output: one object on stdout."""
    print(json.dumps(value, indent=1, ensure_ascii=False))


def set_up_logging(verbosity: int) -> None:
    """Messages on stderr from the level that `LOG_LEVEL` or `-v`, `-vv` ask for; the chattier of
    the two wins."""
    named = logging.getLevelNamesMapping().get(
        os.environ.get("LOG_LEVEL", "").upper(), logging.WARNING
    )
    level = min(named, (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbosity, 2)])
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LevelFormatter())
    log.handlers[:] = [handler]
    log.propagate = False
    log.setLevel(level)


class _LevelFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return f"{record.levelname.lower()}: {record.getMessage()}"


def answering_errors(command: Callable[P, None]) -> Callable[P, None]:
    """A command whose failures end in a message and an exit code."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            raise typer.Exit(130) from None
        except BrokenPipeError:
            # Whoever read our output has left; keep Python from complaining about it at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from None
        except (TokenmillError, OSError, MemoryError, OverflowError) as error:
            _show(error)
            raise typer.Exit(1) from None

    return run


def _show(error: BaseException) -> None:
    if log.isEnabledFor(logging.DEBUG):
        traceback.print_exc()
    message, hint = (
        (error.message, error.hint) if isinstance(error, TokenmillError) else (_plain(error), None)
    )
    print(f"error: {message}", file=sys.stderr)
    if hint is not None:
        print(f"hint: {hint}", file=sys.stderr)


def _plain(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, OSError) and error.filename is not None:
        return f"`{error.filename}`: {error.strerror}"
    return str(error)
