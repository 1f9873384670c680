"""Two ways to leaf through an inspection: a full screen with keys, and lines of input and output.

The screen is for terminals; where input or output is none, each line read is a number, a search or
`q`, so that a script or a notebook can drive it.
"""

import codecs
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TextIO

from rich.console import Console
from rich.control import Control
from rich.segment import Segment, Segments

from tokenmill.errors import TokenmillError
from tokenmill.report.document_view import Inspection
from tokenmill.report.inspection import TextInspection
from tokenmill.report.render.inspection import Pane, inspection_of, print_inspection, visible

PANES: tuple[Pane, ...] = ("all", "tokens", "table", "text")
HELP = "←→ document · ↑↓ scroll · g number · / search · N next match · t view · q quit"
TEXT_HELP = "e type a text · ←→ texts · ↑↓ scroll · t view · q quit"
_KEYS = {
    "\x1b[A": "up", "\x1b[B": "down", "\x1b[C": "right", "\x1b[D": "left",
    "\x1bOA": "up", "\x1bOB": "down", "\x1bOC": "right", "\x1bOD": "left",
    "\x1b[5~": "page up", "\x1b[6~": "page down",
    "\x1b[H": "home", "\x1b[F": "end", "\x1b[1~": "home", "\x1b[4~": "end",
    "k": "up", "j": "down", "n": "right", "p": "left", "b": "page up", " ": "page down",
    "\x1b": "escape", "\r": "enter", "\n": "enter", "\x7f": "backspace", "\b": "backspace",
}  # fmt: skip
_RESIZE_SECONDS = 0.25


@dataclass
class Viewer:
    """What is on the screen, and what each key does to it. `ask` reads a line from the reader."""

    inspection: Inspection
    ask: Callable[[str], str | None]
    index: int = 0
    top: int = 0
    pane: Pane = "all"
    message: str = ""
    wanted: str = ""
    is_done: bool = False
    is_found: bool = field(default=False, init=False)
    """Whether to scroll to what was searched for, once its lines are known."""
    num_lines: int = field(default=0, init=False)
    page: int = field(default=20, init=False)

    def press(self, key: str) -> None:
        """React to `key`, a name of `_KEYS` or the character itself."""
        self.message = ""
        if key in ("q", "escape"):
            self.is_done = True
        elif key in ("left", "right"):
            self.go(self.index + (1 if key == "right" else -1))
        elif key in ("up", "down", "page up", "page down", "home", "end"):
            self._scroll(key)
        elif key == "t":
            self.pane, self.top = PANES[(PANES.index(self.pane) + 1) % len(PANES)], 0
        elif key == "g":
            self._ask_number()
        elif key == "/":
            self.search(self.ask("search: ") or "", self.index)
        elif key == "N":
            self.search(self.wanted, self.index + 1)
        elif key == "e" and isinstance(self.inspection, TextInspection):
            self.type_text()

    def type_text(self) -> None:
        """A tokenizer alone: the next text to look at."""
        assert isinstance(self.inspection, TextInspection)
        typed = self.ask("text: ")
        if typed:
            self.inspection.texts.append(typed)
            self.go(len(self.inspection.texts) - 1)

    def go(self, index: int) -> None:
        """To number `index`, or say why not."""
        try:
            self.inspection.view(index)
        except IndexError as error:
            self.message = str(error)
        except TokenmillError as error:
            self.message = error.message
        else:
            self.index, self.top = index, 0

    def _scroll(self, key: str) -> None:
        steps = {"up": -1, "down": 1, "page up": -self.page, "page down": self.page}
        last = max(0, self.num_lines - self.page)
        to = 0 if key == "home" else last if key == "end" else self.top + steps[key]
        self.top = min(max(to, 0), last)

    def _ask_number(self) -> None:
        typed = self.ask(f"number of a {self.inspection.noun}: ")
        if typed is None:
            return
        number = number_in(typed)
        if number is None:
            self.message = no_number(typed, self.inspection.noun)
        else:
            self.go(number)

    def search(self, text: str, start: int) -> None:
        """To the first place from `start` on that contains `text`."""
        if not text:
            self.message = "nothing to search for: press / first"
            return
        self.wanted = text
        found = self.inspection.search(text, start)
        if found is None:
            self.message = f"`{text}` is in no {self.inspection.noun} from {start:,} on"
        else:
            self.go(found)
            self.is_found = True

    def lines(self, console: Console) -> list[list[Segment]]:
        """What there is to see, line by line."""
        if self.inspection.length == 0:
            return []
        colours = not console.no_color
        drawn = inspection_of(
            self.inspection, self.index, pane=self.pane, colours=colours, marked=self.wanted
        )
        lines = console.render_lines(drawn, console.options, pad=False)
        if self.is_found:
            self.is_found, self.top = False, self._line_of_match(lines)
        return lines

    def _line_of_match(self, lines: list[list[Segment]]) -> int:
        """Two lines above what was searched for; the start if a line break goes through it."""
        signs = visible(self.wanted.encode()), self.wanted
        for number, line in enumerate(lines):
            text = "".join(segment.text for segment in line)
            if any(sign in text for sign in signs):
                return max(number - 2, 0)
        return 0

    @property
    def status(self) -> str:
        is_text = isinstance(self.inspection, TextInspection)
        return self.message or (TEXT_HELP if is_text else HELP)


def number_in(typed: str) -> int | None:
    """The whole number that `typed` is, with or without commas."""
    digits = typed.strip().replace(",", "").replace("_", "")
    return (
        int(digits)
        if digits.removeprefix("-").isascii() and digits.removeprefix("-").isdigit()
        else None
    )


def no_number(typed: str, noun: str) -> str:
    return f"`{typed.strip()}` is no whole number: type the number of a {noun}, or q to quit"


class Screen:
    """A terminal in cbreak mode, on its second screen. A context manager; leaves no trace."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._descriptor = sys.stdin.fileno()
        self._pending = ""

    def __enter__(self) -> "Screen":
        import termios
        import tty

        self._before = termios.tcgetattr(self._descriptor)
        tty.setcbreak(self._descriptor)
        self._console.set_alt_screen(True)
        self._console.show_cursor(False)
        return self

    def __exit__(self, *_: object) -> None:
        import termios

        self._console.show_cursor(True)
        self._console.set_alt_screen(False)
        termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def draw(self, viewer: Viewer) -> None:
        lines = viewer.lines(self._console)
        viewer.num_lines, viewer.page = len(lines), max(1, self._console.height - 1)
        viewer.top = min(viewer.top, max(0, len(lines) - viewer.page))
        shown = lines[viewer.top : viewer.top + viewer.page]
        segments = [segment for line in shown for segment in (*line, Segment.line())]
        self._console.control(Control.home(), Control.clear())
        self._console.print(Segments(segments), end="")
        more = len(lines) - viewer.top - len(shown)
        self._status((f"{more:,} ↓ · " if more > 0 else "") + viewer.status)

    def _status(self, text: str) -> None:
        width, height = self._console.size
        self._console.control(Control.move_to(0, height - 1))
        bar = text[: width - 1].ljust(width - 1)
        self._console.print(bar, style="reverse", end="", markup=False, highlight=False)

    def key(self) -> str | None:
        """The next key, None if the window changed its size instead."""
        import select

        size = self._console.size
        while not self._pending:
            ready, _, _ = select.select([self._descriptor], [], [], _RESIZE_SECONDS)
            if ready:
                data = os.read(self._descriptor, 1024)
                if not data:
                    return "q"
                self._pending = self._decode(data)
            elif self._console.size != size:
                return None
        return self._take()

    def _take(self) -> str:
        """The first key of what was typed: an escape sequence, or one character."""
        for sequence in sorted(_KEYS, key=len, reverse=True):
            if self._pending.startswith(sequence):
                self._pending = self._pending[len(sequence) :]
                return sequence
        character, self._pending = self._pending[0], self._pending[1:]
        return character

    def ask(self, prompt: str) -> str | None:
        """A line typed at the bottom; None if escape was pressed."""
        typed = ""
        while True:
            self._status(f"{prompt}{typed}▏")
            key = self.key()
            name = _KEYS.get(key or "")
            if name == "enter":
                return typed
            if name == "escape":
                return None
            if name == "backspace":
                typed = typed[:-1]
            elif key is not None and len(key) == 1 and key.isprintable():
                typed += key


def run_screen(inspection: Inspection, console: Console, *, index: int, wanted: str | None) -> None:
    """Full screen until `q`."""
    with Screen(console) as screen:
        viewer = Viewer(inspection, screen.ask)
        if wanted is not None:
            viewer.search(wanted, index)
        elif isinstance(inspection, TextInspection) and not inspection.texts:
            screen.draw(viewer)
            viewer.type_text()
        else:
            viewer.go(index)
        while not viewer.is_done:
            screen.draw(viewer)
            key = screen.key()
            if key is not None:
                viewer.press(_KEYS.get(key, key))


def run_lines(inspection: Inspection, console: Console, lines: TextIO) -> None:
    """A line is a number, `/text` for a search, or `q`; of a tokenizer, every line is a text."""
    place = 0
    for typed in lines:
        line = typed.rstrip("\r\n")
        if isinstance(inspection, TextInspection):
            inspection.texts.append(line)
            print_inspection(console, inspection, len(inspection.texts) - 1)
            continue
        if line.strip().lower() in ("q", "quit", "exit"):
            return
        if not line.strip():
            continue
        if line.startswith("/"):
            found = inspection.search(line[1:], place)
            if found is None:
                print(f"`{line[1:]}` is in no {inspection.noun} from {place:,} on", file=sys.stderr)
                continue
            number, place = found, found + 1
        else:
            number = number_in(line)
            if number is None:
                print(no_number(line, inspection.noun), file=sys.stderr)
                continue
        try:
            print_inspection(console, inspection, number)
        except IndexError as error:
            print(error, file=sys.stderr)
