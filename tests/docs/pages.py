"""The pages people read, as blocks that can be run: Markdown in, commands and programs out."""

import functools
import re
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
PAGES = [
    REPOSITORY / "README.md",
    REPOSITORY / "CONTRIBUTING.md",
    REPOSITORY / "CHANGELOG.md",
    REPOSITORY / "recipes" / "README.md",
    *sorted((REPOSITORY / "docs").rglob("*.md")),
]
SHELL = ("console", "sh", "bash")

_FENCE = re.compile(r"^```(\w*)$")
_NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")


@dataclass(frozen=True)
class Block:
    """What stands between two fences."""

    language: str
    line: int
    """Of its first line in the page, from 1."""
    text: str
    not_run: str | None
    """The reason given just above it for leaving it out."""


@dataclass(frozen=True)
class Command:
    """A line a reader would type, and what the page says it prints."""

    line: int
    text: str
    output: str


def name_of(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


@functools.cache
def blocks_of(page: Path) -> tuple[Block, ...]:
    """The fenced blocks of `page`. A fence that does not end is an error."""
    blocks: list[Block] = []
    language: str | None = None
    start, above = 0, ""
    not_run: str | None = None
    lines = page.read_text(encoding="utf-8").splitlines()
    for index, line in enumerate(lines):
        fence = _FENCE.match(line)
        if fence and language is None:
            marker = _NOT_RUN.match(above)
            language, start, not_run = fence[1], index + 1, marker[1] if marker else None
        elif fence:
            assert language is not None
            text = "\n".join(lines[start:index]) + "\n"
            blocks.append(Block(language, start + 1, text, not_run))
            language = None
        elif line.strip():
            above = line
    assert language is None, f"{name_of(page)}: the block from line {start} does not end"
    return tuple(blocks)


def commands_of(block: Block) -> list[Command]:
    """The commands of a shell block. In a console they follow `$ ` and their output follows them."""
    if block.language != "console":
        lines = enumerate(block.text.splitlines(), block.line)
        return [Command(number, line, "") for number, line in lines if line.strip()]
    commands: list[Command] = []
    for number, line in enumerate(block.text.splitlines(), block.line):
        if line.startswith("$ "):
            commands.append(Command(number, line[2:], ""))
            continue
        assert commands, f"line {number} is output before any command"
        last = commands[-1]
        if last.text.endswith("\\") and not last.output:
            commands[-1] = Command(last.line, f"{last.text}\n{line}", "")
        else:
            commands[-1] = Command(last.line, last.text, f"{last.output}{line}\n")
    return commands


def prose_of(page: Path) -> str:
    """The page without its fenced blocks."""
    text = page.read_text(encoding="utf-8")
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors_of(page: Path) -> set[str]:
    """What a link to a heading of `page` may say, as GitHub spells it."""
    headings = re.findall(r"^#+ +(.+?) *$", prose_of(page), flags=re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in kept}


_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_SIZE = re.compile(r"# (?:bytes|kB|MB|GB|TB)\b")
_TIME = re.compile(r"# (?:s|min|h)\b(?: # (?:s|min)\b)?")
_PROGRESS = re.compile(r"^(?:counting|merging|hashing|pulling|checking) .*/s\b.*$")


def blurred(output: str) -> str:
    """`output` with every number, size and time made equal, since those differ from machine to machine."""
    lines = [" ".join(line.split()) for line in output.splitlines()]
    text = "".join(f"{line}\n" for line in lines if line and not _PROGRESS.match(line))
    text = _NUMBER.sub("#", text)
    text = _TIME.sub("#time", _SIZE.sub("#size", text))
    return text.replace("# threads", "# thread").replace("# cores", "# core")
