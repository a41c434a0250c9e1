"""Agreement of categories and classes without a match: mutual information, pairs, purity."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from speciate.evaluate.contingency import Contingency, Integers
from speciate_schemas.replay import CategoryPurity


def normalized_mutual_information(table: Contingency) -> float:
    """What categories and classes tell of each other, divided by the mean of their entropies.

    1 if both put all events into one: they agree.
    """
    if len(table.categories) == len(table.classes) == 1:
        return 1.0
    rows, columns = table.of_categories(), table.of_classes()
    joint = table.counts / table.events
    independent = rows[table.rows] / table.events * (columns[table.columns] / table.events)
    shared = float((joint * np.log(joint / independent)).sum())
    # Rounding takes the sum a little below 0 or above the entropies where it should be there.
    return min(max(shared / ((_entropy(rows) + _entropy(columns)) / 2), 0.0), 1.0)


def adjusted_rand_index(table: Contingency) -> float:
    """The share of pairs of events that both keep together or both keep apart, corrected for chance.

    0 is what chance gives; 1 if the two agree, also where there is nothing to correct (one event, or all in one).
    """
    pairs = _pairs([table.events])
    together = _pairs(table.counts.tolist())
    by_category, by_class = _pairs(table.of_categories().tolist()), _pairs(table.of_classes().tolist())
    # Both sides of the fraction times twice all pairs: whole numbers of Python, so nothing is rounded or too large.
    chance = 2 * by_category * by_class
    best = (by_category + by_class) * pairs
    return (2 * together * pairs - chance) / (best - chance) if best != chance else 1.0


def purity(table: Contingency) -> float:
    """The share of events that have their category's majority class."""
    return float(table.counts[_majorities(table)].sum()) / table.events


def purities(table: Contingency, class_names: Sequence[str]) -> list[CategoryPurity]:
    """Size and majority class of each category, the largest first."""
    # Stable: of equals, the one that came first in the stream.
    rows = np.argsort(-table.of_categories(), kind="stable")
    cells = _majorities(table)[rows]
    categories, sizes = table.categories[rows].tolist(), table.of_categories()[rows].tolist()
    classes, counts = table.classes[table.columns[cells]].tolist(), table.counts[cells].tolist()
    return [
        CategoryPurity(category, size, class_names[place], count / size)
        for category, size, place, count in zip(categories, sizes, classes, counts, strict=True)
    ]


def _majorities(table: Contingency) -> Integers:
    """The cell of each category's majority class; of equals, the class that came first in the stream."""
    order = np.lexsort((table.columns, -table.counts, table.rows))
    return order[np.unique(table.rows, return_index=True)[1]]


def _entropy(counts: Integers) -> float:
    shares: npt.NDArray[np.float64] = counts / counts.sum()
    return -float((shares * np.log(shares)).sum())


def _pairs(counts: list[int]) -> int:
    return sum(count * (count - 1) // 2 for count in counts)
