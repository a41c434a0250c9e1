"""Accuracy of categories against classes: strict, by one match over all events, and greedy, by two.

The match is one to one, so a surplus category is an error, and so is a class that was merged away. The strict match is
made over all events at once and its hits are then split by class: the number to report. The greedy one is made for the
events of known classes and for those of novel classes separately, so a category may count for one class of each kind
and the result is never lower. Where two matches are equally good, All is the same for both; which of them Known, Novel
and groups are read from depends on the order of the stream only.
"""

from collections.abc import Collection, Hashable, Sequence
from typing import NamedTuple

import numpy as np

from speciate.evaluate.contingency import Contingency, Flags, Integers, contingency


class Accuracy(NamedTuple):
    """Fractions of events whose category is matched to their class; NaN where there is no such event."""

    all: float
    known: float
    novel: float


def strict(table: Contingency, known_classes: Flags) -> Accuracy:
    """One match over all events. The mask says of each class number whether the class is known."""
    return _split(table, match(table), of_known(table, known_classes))


def greedy(table: Contingency, known_classes: Flags) -> Accuracy:
    """One match over the events of known classes and one over the others."""
    known = of_known(table, known_classes)
    return _split(table, match(table, known) | match(table, ~known), known)


def strict_by_group(
    table: Contingency, known_classes: Flags, groups: Integers, group_names: Sequence[str]
) -> dict[str, Accuracy]:
    """Strict accuracy of each group's events, by the one match over all; the array has the group of each event."""
    kinds = 2 * of_known(table, known_classes) + match(table)
    tallies = np.bincount(4 * groups + kinds[table.cells], minlength=4 * len(group_names)).reshape(-1, 4)
    return {name: _accuracy(*tally.tolist()) for name, tally in zip(group_names, tallies, strict=True)}


def strict_accuracy(
    found: Sequence[Hashable], truth: Sequence[Hashable], known_classes: Collection[Hashable]
) -> Accuracy:
    """Strict accuracy of categories and classes that are not numbers."""
    classes = dict.fromkeys(truth)
    known = np.array([name in known_classes for name in classes], dtype=bool)
    return strict(contingency(_numbered(found), _numbered(truth)), known)


def match(table: Contingency, among: Flags | None = None) -> Flags:
    """The cells whose category is matched to their class: at most one a row and a column, with the most events.

    `among` leaves only some cells to choose from. The square matrix padded with zeros that is usual for this would not
    fit into memory for many categories; the cells do. Each class may instead stay alone, by a column of its own; as
    that must not look like a missing cell to the solver, everything counts for one event more.
    """
    from scipy.sparse import coo_array  # noqa: PLC0415  # a good part of start-up time, needed only here
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching  # noqa: PLC0415

    height, width = len(table.categories), len(table.classes)
    cells = np.arange(len(table.counts)) if among is None else np.flatnonzero(among)
    alone = np.arange(width)
    classes = np.concatenate([table.columns[cells], alone]).astype(np.int32)
    partners = np.concatenate([table.rows[cells], height + alone]).astype(np.int32)
    weights = np.concatenate([table.counts[cells] + 1.0, np.ones(width)])
    graph = coo_array((weights, (classes, partners)), shape=(width, height + width)).tocsr()
    partner = np.empty(width, dtype=np.int64)
    if width:
        of_classes, chosen = min_weight_full_bipartite_matching(graph, maximize=True)
        partner[of_classes] = chosen
    right = np.zeros(len(table.counts), dtype=bool)
    right[cells] = partner[table.columns[cells]] == table.rows[cells]
    return right


def of_known(table: Contingency, known_classes: Flags) -> Flags:
    """The cells whose class is known."""
    return np.asarray(known_classes, dtype=bool)[table.classes][table.columns]


def _split(table: Contingency, right: Flags, known: Flags) -> Accuracy:
    kinds = 2 * known + right
    return _accuracy(*(int(table.counts[kinds == kind].sum()) for kind in range(4)))


def _accuracy(novel_wrong: int, novel_right: int, known_wrong: int, known_right: int) -> Accuracy:
    known, novel = known_wrong + known_right, novel_wrong + novel_right
    right = known_right + novel_right
    return Accuracy(_share(right, known + novel), _share(known_right, known), _share(novel_right, novel))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


def _numbered(names: Sequence[Hashable]) -> Integers:
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    return np.array([places[name] for name in names], dtype=np.int64)
