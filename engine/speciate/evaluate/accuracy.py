"""Strict accuracy: one matching of found categories to true classes over all events, then split by class.

The Hungarian match is one to one, so a surplus category is an error, and so is a class that was merged away.
"""

from collections.abc import Collection, Hashable, Sequence
from typing import NamedTuple

import numpy as np


class Accuracy(NamedTuple):
    """Fractions of events whose category is matched to their class; NaN where there is no such event."""

    all: float
    known: float
    novel: float


def strict_accuracy(
    found: Sequence[Hashable], truth: Sequence[Hashable], known_classes: Collection[Hashable]
) -> Accuracy:
    """Accuracy over all events, over those of the known classes, and over those of the others."""
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415  # half of start-up time, needed only here

    categories = {category: place for place, category in enumerate(dict.fromkeys(found))}
    classes = {name: place for place, name in enumerate(dict.fromkeys(truth))}
    rows = np.array([categories[category] for category in found], dtype=np.int64)
    columns = np.array([classes[name] for name in truth], dtype=np.int64)
    size = max(len(categories), len(classes))
    together = np.zeros((size, size), dtype=np.int64)
    np.add.at(together, (rows, columns), 1)
    match = np.empty(size, dtype=np.int64)
    chosen = linear_sum_assignment(together, maximize=True)
    match[chosen[0]] = chosen[1]
    right = match[rows] == columns
    of_known = np.array([name in known_classes for name in truth], dtype=bool)
    return Accuracy(_mean(right), _mean(right[of_known]), _mean(right[~of_known]))


def _mean(right: "np.typing.NDArray[np.bool_]") -> float:
    return float(right.mean()) if len(right) else float("nan")
