"""Inspections drawn by rich: a head, the raw text, coloured tokens, and a table of ids.

White space is drawn as signs, bytes that are no character as escapes, so that everything that is
there can be seen. Without colours, tokens are told apart by bars between them.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from rich.console import Console, Group, RenderableType
from rich.rule import Rule
from rich.style import Style
from rich.table import Table
from rich.text import Text

from tokenmill.progress import quantity
from tokenmill.report.document_view import (
    DocumentView,
    Inspection,
    RowView,
    StoredIds,
    TokenView,
)

Pane = Literal["all", "tokens", "table", "text"]
MAX_TOKENS = 2000
MAX_BYTES = 16_384

_SIGNS = {" ": "·", "\t": "⇥", "\r": "␍", "\n": "⏎"}
# Light grounds under dark letters: neighbours differ, and all can be read on any terminal.
_GROUNDS = ("#a8d5ff", "#ffd6a5", "#b9f2c0", "#f6c1e6", "#fff1a8", "#cfc8ff")
_SPECIAL = Style(color="white", bgcolor="#8b1a4a", bold=True)
_PART_NAMES = {"chosen": "prompt + chosen", "rejected": "prompt + rejected"}


def inspection_of(
    inspection: Inspection,
    index: int,
    *,
    pane: Pane = "all",
    colours: bool = True,
    marked: str = "",
) -> RenderableType:
    """Everything about number `index`, with `marked` made visible in its text. IndexError if there
    is no such number."""
    views = inspection.view(index)
    length = inspection.length
    of_all = "" if length is None else f" of {length:,}, from 0"
    head = Text(f"{inspection.noun} {index:,}{of_all} · {inspection.name}", style="bold")
    parts: list[RenderableType] = [head]
    if views[0].row is not None:
        # Once, though a pair has two documents of it.
        parts += _row(views[0].row, views[0].raw_index, pane, marked)
    for view in views:
        if len(views) > 1:
            parts.append(Rule(_PART_NAMES.get(view.part, view.part), align="left"))
        parts += _document(view, pane, colours=colours, marked=marked)
    return Group(*parts)


def _document(
    view: DocumentView, pane: Pane, *, colours: bool, marked: str
) -> Iterator[RenderableType]:
    if view.row is not None and view.row.left_out is not None:
        return
    yield _figures(view)
    yield _verdict(view) if view.row is None else _row_verdict(view, view.row)
    if pane in ("all", "text"):
        if view.row is not None and view.row.turns:
            yield Rule("turns", align="left", style="dim")
            yield from (_turn(*turn, marked) for turn in view.row.turns)
        else:
            yield Rule("decoded" if view.raw is None else "raw", align="left", style="dim")
            yield _plain(view.text if view.raw is None else view.raw, marked)
        if view.equals_raw is False and view.raw is not None:
            yield Rule("decoded", align="left", style="dim")
            yield _plain(view.text, marked)
    if pane in ("all", "tokens"):
        yield Rule("tokens", align="left", style="dim")
        yield coloured_tokens(view.tokens[:MAX_TOKENS], colours=colours)
    if pane in ("all", "table"):
        yield Rule("ids", align="left", style="dim")
        yield _table(view.tokens[:MAX_TOKENS])
    if len(view.tokens) > MAX_TOKENS and pane != "text":
        more = len(view.tokens) - MAX_TOKENS
        yield Text(f"… and {quantity(more, 'more token')}; --json has all", style="dim")


def _figures(view: DocumentView) -> Text:
    num_tokens, num_bytes = len(view.tokens), len(view.text)
    ratio = f", {num_bytes / num_tokens:.2f} bytes/token" if num_tokens else ""
    text = f"{quantity(num_tokens, 'token')}, {quantity(num_bytes, 'byte')}{ratio}"
    masked = [token for token in view.tokens if token.is_trained is not None]
    if masked:
        trained = sum(token.is_trained is True for token in masked)
        text += f", {trained:,} trained on (underlined)"
    return Text(text)


def _verdict(view: DocumentView) -> Text:
    found = Text()
    if view.equals_raw is None:
        found.append("raw text not at hand", style="dim")
    elif view.raw is None:
        same = "has as many bytes as" if view.equals_raw else "has not as many bytes as"
        found.append(f"decoded text {same} the raw text", style=_mood(view.equals_raw))
    elif view.equals_raw:
        found.append("decoded ids equal the raw text", style=_mood(True))
    else:
        place = f"decoded ids differ from the raw text at byte {view.first_difference:,}"
        found.append(place, style=_mood(False))
    again = "gives the same ids" if view.encodes_back else "gives other ids"
    found.append(" · ", style="dim")
    return found.append(f"encoding it again {again}", style=_mood(view.encodes_back))


def _row(row: RowView, number: int | None, pane: Pane, marked: str) -> Iterator[RenderableType]:
    """The row itself, and why nothing became of it."""
    if row.left_out is not None:
        reason, detail = row.left_out
        yield Text.assemble((f"left out: {reason}", "bold red"), f" · {detail}")
    if pane in ("all", "text"):
        name = "row" if row.stored is None else f"row {number:,} of the source"
        yield Rule(name, align="left", style="dim")
        yield _plain(row.text, marked)


def _turn(role: str, content: str, marked: str) -> Text:
    said = _plain(content.encode("utf-8", "surrogatepass"), marked)
    return Text.assemble((f"{role}: ", "bold"), said)


def _row_verdict(view: DocumentView, row: RowView) -> Text:
    found = Text()
    if row.is_cut:
        end = "beginning" if (view.raw or b"").startswith(view.text) else "end"
        found.append(f"cut to the longest length: the {end} of the text is left", style="yellow")
    elif view.equals_raw is None:
        found.append("text of the row not at hand", style="dim")
    elif view.equals_raw:
        found.append("decoded ids equal the text that the template makes", style=_mood(True))
    else:
        place = f"decoded ids differ from the text of the row at byte {view.first_difference:,}"
        found.append(place, style=_mood(False))
    if row.stored is not None:
        found.append(" · ", style="dim")
        found.append(_compared(row.stored), style=_mood(row.stored.place is None))
    return found


def _compared(stored: StoredIds) -> str:
    if stored.place is None:
        return "encoding the row again gives the stored ids and mask"
    ids = [token and token[0] for token in (stored.stored, stored.again)]
    if ids[0] == ids[1]:
        trained = stored.stored is not None and stored.stored[1]
        words = ("trained on", "not") if trained else ("not trained on", "trained on")
        what = f"stored as {words[0]}, by the row {words[1]}"
    else:
        there, again = ("none" if each is None else str(each) for each in ids)
        what = f"stored {there}, by the row {again}"
    return f"encoding the row again differs at token {stored.place:,}: {what}"


def _mood(good: bool) -> str:
    return "green" if good else "bold red"


def _plain(data: bytes, marked: str) -> Text:
    shown = data[:MAX_BYTES].decode("utf-8", "backslashreplace")
    text = Text("".join(_printable(character) for character in shown))
    if marked:
        text.highlight_words([marked], "reverse")
    if len(data) > MAX_BYTES:
        text.append(f"\n… and {quantity(len(data) - MAX_BYTES, 'more byte')}", style="dim")
    return text


def _printable(character: str) -> str:
    """`character`, or what stands for one that would move the cursor or not show."""
    if character in "\n\t" or character.isprintable():
        return character
    return f"\\x{ord(character):02x}" if ord(character) < 256 else f"\\u{ord(character):04x}"


def visible(token: bytes) -> str:
    """`token` with signs for white space; a newline keeps breaking the line behind its sign."""
    text = token.decode("utf-8", "backslashreplace")
    signs = (_SIGNS.get(character) or _printable(character) for character in text)
    return "".join(f"{sign}\n" if sign == "⏎" else sign for sign in signs)


def coloured_tokens(tokens: Sequence[TokenView], *, colours: bool) -> Text:
    """Tokens one behind the other, each on its ground; what is not trained on is dim."""
    text = Text()
    for number, token in enumerate(tokens):
        if number and not colours:
            text.append("|")
        text.append(visible(token.token), style=_style(token, number))
    return text


def _style(token: TokenView, number: int) -> Style:
    ground = (
        _SPECIAL
        if token.is_special
        else Style(color="black", bgcolor=_GROUNDS[number % len(_GROUNDS)])
    )
    if token.is_trained is None:
        return ground
    return ground + Style(underline=token.is_trained, dim=not token.is_trained)


def _table(tokens: Sequence[TokenView]) -> Table:
    masked = any(token.is_trained is not None for token in tokens)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("#", "id", "bytes"):
        table.add_column(heading, justify="right")
    table.add_column("token")
    if masked:
        table.add_column("trained")
    for number, token in enumerate(tokens):
        # Appended, so that the ground ends where the token does.
        spelling = Text().append(
            visible(token.token).replace("\n", ""), style=_style(token, number)
        )
        cells = [str(number), str(token.id), f"{token.start}–{token.end}", spelling]
        if masked:
            cells.append("yes" if token.is_trained else "no")
        table.add_row(*cells)
    return table


def print_inspection(
    console: Console, inspection: Inspection, index: int, *, pane: Pane = "all"
) -> None:
    """Draw number `index` on `console`."""
    colours = console.is_terminal and not console.no_color
    console.print(inspection_of(inspection, index, pane=pane, colours=colours))
