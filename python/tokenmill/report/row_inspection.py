"""Rows of conversations to look at: what a row says, what the template makes of it, and the ids."""

from collections.abc import Sequence
from dataclasses import replace

from tokenmill.report.document_view import DocumentView, RowView, StoredIds, view_of_ids
from tokenmill.report.raw_source import require_index
from tokenmill.report.row_source import EncodedRow, RowDocument, RowSource, num_shared

_PARTS = {1: ("document",), 2: ("chosen", "rejected")}


class RowInspection:
    """The rows of a raw source, each as `encode` would take it, those that it leaves out as well."""

    noun = "row"

    def __init__(self, rows: RowSource) -> None:
        self._rows = rows

    @property
    def name(self) -> str:
        return self._rows.source.name

    @property
    def length(self) -> int | None:
        return self._rows.source.length

    def view(self, index: int) -> list[DocumentView]:
        require_index(index, self.length, self.noun)
        row = self._rows.row(index)
        if row.left_out is not None:
            view = view_of_ids([], self._rows.tokenizer, part="row")
            return [replace(view, raw_index=index, row=RowView(row.text, left_out=row.left_out))]
        parts = zip(_PARTS[len(row.documents)], row.documents, strict=True)
        views = [
            view_of_ids(document.ids, self._rows.tokenizer, part=part, mask=document.mask)
            for part, document in parts
        ]
        return [_with_row(self._rows, row, view, number) for number, view in enumerate(views)]

    def search(self, text: str, start: int = 0) -> int | None:
        return self._rows.search(text, start)


def with_rows(rows: RowSource, views: Sequence[DocumentView], index: int) -> list[DocumentView]:
    """`views` of number `index` of a dataset beside the row they were made of, encoded again; as
    they are if there is no row to compare with."""
    stored = [_document_of(view) for view in views]
    row = rows.find(stored, index)
    if row is None:
        return list(views)
    found: list[DocumentView] = []
    for number, view in enumerate(views):
        compared = _compared(stored[number], row.documents[number])
        found.append(_with_row(rows, row, view, number, compared))
    return found


def _with_row(
    rows: RowSource,
    row: EncodedRow,
    view: DocumentView,
    number: int,
    stored: StoredIds | None = None,
) -> DocumentView:
    """`view`, document `number` of `row`, with what the template makes of that as its raw text."""
    turns = rows.turns(row)
    here = turns[number] if number < len(turns) else []
    raw = rows.rendered(here) if here else None
    is_cut = row.is_cut and raw != view.text
    about = RowView(row.text, tuple(here), is_cut=is_cut, stored=stored)
    return replace(view, raw=raw, raw_index=row.index, row=about)


def _document_of(view: DocumentView) -> RowDocument:
    ids = [token.id for token in view.tokens]
    return RowDocument(ids, [int(token.is_trained is not False) for token in view.tokens])


def _compared(stored: RowDocument, again: RowDocument) -> StoredIds:
    place = num_shared(stored, again)
    if place == len(stored.ids) == len(again.ids):
        return StoredIds(None)
    return StoredIds(place, _token(stored, place), _token(again, place))


def _token(document: RowDocument, place: int) -> tuple[int, bool] | None:
    if place >= len(document.ids):
        return None
    return document.ids[place], bool(document.mask[place])
