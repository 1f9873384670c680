"""The process in which a chat template of somebody else runs: requests in, rendered texts out.

Run as a script of its own: it imports nothing of tokenmill, reads no file, and is killed by its
parent when it takes too long. The first line it reads is the template and its variables, each further
one a list of conversations; each line it writes is the answer to one.
"""

import json
import sys
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

MAX_ADDRESS_BYTES = 2 << 30


class GenerationTag(Extension):
    """`{% generation %}`: marks what the assistant says, where marks are asked for."""

    tags = {"generation"}  # noqa: RUF012
    marks = ("", "")

    def parse(self, parser: Any) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_mark"), [], [], body).set_lineno(line)

    def _mark(self, caller: Any) -> str:
        start, end = GenerationTag.marks
        return f"{start}{caller()}{end}"


def _raise_exception(message: str) -> None:
    raise TemplateError(message)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """As transformers has it: without the escapes of HTML, which Jinja's own makes."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # not on Windows; the limit of time and of the answer's size still holds
        return
    resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESS_BYTES, MAX_ADDRESS_BYTES))


def _render(template: Any, request: dict[str, Any], variables: dict[str, str]) -> dict[str, str]:
    GenerationTag.marks = tuple(request["marks"])
    try:
        text = template.render(
            messages=request["messages"],
            add_generation_prompt=request["add_generation_prompt"],
            **variables,
        )
    except MemoryError:
        return {"error": "it needs too much memory"}
    except Exception as error:  # whatever a template does wrong is its own
        return {"error": f"{type(error).__name__}: {error}"[:500]}
    if len(text) > request["max_chars"]:
        return {"error": f"it makes more than {request['max_chars']} characters"}
    return {"text": text}


def main() -> None:
    """Answer until there are no more requests."""
    _limit_memory()
    environment: Any = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[GenerationTag, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    first = json.loads(sys.stdin.readline())
    try:
        template = environment.from_string(first["template"])
        answer: object = {}
    except (TemplateError, RecursionError, MemoryError) as error:
        template = None
        answer = {"error": f"{type(error).__name__}: {error}"[:500]}
    print(json.dumps(answer), flush=True)
    for line in sys.stdin:
        answers = [_render(template, each, first["variables"]) for each in json.loads(line)]
        print(json.dumps(answers), flush=True)


if __name__ == "__main__":
    main()
