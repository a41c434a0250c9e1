"""The categories of a set, copied out of the head at once, and what is made of them on the page's thread."""

from typing import Any, NamedTuple

import msgspec

from speciate.head import Category
from speciate.page.parameters import Search
from speciate.pipeline import Inside
from speciate.trace import Trace

MOST_SEARCHES = 32
"""Whose answers are kept."""


class Row(msgspec.Struct, frozen=True, gc=False):
    """What a category is listed, sought and sorted by."""

    id: int
    label: str | None
    known: bool
    count: int
    seen: int
    born: int | None
    born_time: float | None
    last_sequence: int | None
    last_time: float | None


class Listing:
    """All categories of a set as they were at one moment."""

    def __init__(self, rows: list[Row]) -> None:
        self.rows = {row.id: row for row in rows}
        """By number, in order."""
        self._found: dict[tuple[str, str, str, str], list[Row]] = {}

    def find(self, wanted: Search) -> list[Row]:
        """The categories that are wanted, in the order that is, whatever the page."""
        # Who turns the pages asks for the same again.
        asked = (wanted.search.strip().lower(), wanted.kind, wanted.sort, wanted.order)
        if asked not in self._found:
            if len(self._found) >= MOST_SEARCHES:
                self._found.clear()
            self._found[asked] = self._matching(*asked)
        return self._found[asked]

    def _matching(self, text: str, kind: str, sort: str, order: str) -> list[Row]:
        number = text.removeprefix("#")
        rows = [
            row
            for row in self.rows.values()
            if (kind == "all" or row.known == (kind == "known"))
            and (not text or (row.label is not None and text in row.label.lower()) or str(row.id) == number)
        ]
        key, descending = KEYS[sort], order == "desc"
        # What has nothing to sort by comes last either way; equals keep the order of their numbers.
        there = [(value, row) for row in rows if (value := key(row)) is not None]
        there.sort(key=lambda one: one[0], reverse=descending)
        without = [row for row in rows if key(row) is None]
        return [row for _, row in there] + without


KEYS: dict[str, Any] = {
    "count": lambda row: row.count,
    "recent": lambda row: row.last_sequence,
    "born": lambda row: row.born,
    "id": lambda row: row.id,
    "label": lambda row: None if row.label is None else row.label.lower(),
}


class Copied(NamedTuple):
    """What a listing is made of. The traces go on changing: a figure of theirs may be newer than another."""

    categories: list[Category]
    traces: list[Trace]


def copy_rows(inside: Inside) -> Copied:
    """On the head's thread, so no more than must be there."""
    return Copied(inside.head.categories, list(inside.chronicle.traces.values()))


def listing_of(copied: Copied) -> Listing:
    """The listing, made on the page's thread."""
    traces = {trace.id: trace for trace in copied.traces}
    return Listing([_row(one, traces[one.id]) for one in copied.categories])


def _row(one: Category, trace: Trace) -> Row:
    last = (trace.last_sequence, trace.last_time)
    return Row(one.id, one.label, one.known, one.count, trace.seen, trace.born, trace.born_time, *last)
