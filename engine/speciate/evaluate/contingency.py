"""How often each category met each class: the table most measures are computed from.

Categories and classes stand in the order in which the stream showed them first, not by their numbers. So where a
measure has to choose between equals, it chooses the same whatever they are called.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.integer[Any]]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Contingency:
    """A sparse table: only cells with events are in it, ordered by row, then column."""

    categories: Integers
    """The category of each row."""
    classes: Integers
    """The class of each column."""
    rows: Integers
    """The row of each cell."""
    columns: Integers
    """The column of each cell."""
    counts: Integers
    """The events of each cell."""
    cells: Integers
    """The cell of each event, in the order of the stream."""

    @property
    def events(self) -> int:
        """The number of events."""
        return len(self.cells)

    def of_categories(self) -> Integers:
        """The events of each row."""
        return _totals(self.rows, self.counts, len(self.categories))

    def of_classes(self) -> Integers:
        """The events of each column."""
        return _totals(self.columns, self.counts, len(self.classes))


def contingency(found: Integers, truth: Integers) -> Contingency:
    """Count the events of each category and class; both arrays have one number an event."""
    categories, rows = _by_appearance(found)
    classes, columns = _by_appearance(truth)
    width = max(len(classes), 1)
    keys, cells, counts = np.unique(rows * width + columns, return_inverse=True, return_counts=True)
    return Contingency(categories, classes, keys // width, keys % width, counts, cells)


def _by_appearance(values: Integers) -> tuple[Integers, Integers]:
    """The different values in order of first appearance, and the place of each event's value among them."""
    different, first, places = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    return different[order], ranks[places]


def _totals(places: Integers, counts: Integers, length: int) -> Integers:
    totals = np.zeros(length, dtype=np.int64)
    np.add.at(totals, places, counts)
    return totals
