"""The parent of the process that runs a template: starts it, asks it, kills it when it must."""

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenmill.errors import ConfigError, SourceError

_PROGRAM = Path(__file__).with_name("template_process.py")
# What a Python needs to start and find its packages, and no secret of whoever runs it.
_ENVIRONMENT = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "SYSTEMROOT", "VIRTUAL_ENV")
_ANSWER_BYTES = 64 << 20
_OLDEST_JINJA = (3, 1, 6)


class TemplateRunner:
    """A process with one template in it."""

    def __init__(
        self, template: str, variables: Mapping[str, str], *, timeout_seconds: float
    ) -> None:
        _require_jinja()
        self._timeout_seconds = timeout_seconds
        self._too_long = False
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(_PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in _ENVIRONMENT if name in os.environ},
        )
        try:
            answer = self._ask({"template": template, "variables": dict(variables)})
        except SourceError as error:
            raise ConfigError(error.message) from None
        if "error" in answer:
            self.close()
            raise ConfigError(f"the chat template is not Jinja: {answer['error']}")

    def render(self, requests: Sequence[Mapping[str, Any]]) -> list[Mapping[str, str]]:
        """The answer to each request: its `text` or an `error`."""
        return self._ask(list(requests)) if requests else []

    def _ask(self, question: object) -> Any:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(self._timeout_seconds, self._give_up)
        timer.start()
        try:
            process.stdin.write(json.dumps(question).encode() + b"\n")
            process.stdin.flush()
            answer = process.stdout.readline(_ANSWER_BYTES)
        except OSError:
            answer = b""
        finally:
            timer.cancel()
        if not answer.endswith(b"\n"):
            too_much = len(answer) >= _ANSWER_BYTES
            self.close()
            if self._too_long:
                raise SourceError(
                    f"the chat template took longer than {self._timeout_seconds:g} seconds"
                )
            what = "makes too much text" if too_much else "ended the process it runs in"
            raise SourceError(f"the chat template {what}")
        return json.loads(answer)

    def _give_up(self) -> None:
        self._too_long = True
        self._process.kill()

    def close(self) -> None:
        """End the process and wait for it."""
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                # What was still to be written has no reader any more.
                with contextlib.suppress(OSError):
                    pipe.close()
        self._process.wait()


def _require_jinja() -> None:
    if importlib.util.find_spec("jinja2") is None:
        raise ConfigError(
            "a chat template of somebody else needs jinja2, which is not installed",
            "pip install 'tokenmill[chat]'",
        )
    from importlib.metadata import version

    found = version("jinja2")
    numbers = tuple(int(part) for part in found.split(".")[:3] if part.isdigit())
    if numbers < _OLDEST_JINJA:
        raise ConfigError(
            f"jinja2 {found} has known holes in its sandbox", "install jinja2 3.1.6 or newer"
        )
