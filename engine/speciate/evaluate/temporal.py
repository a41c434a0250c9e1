"""How a replay went on: births of classes that were there already, drift, margin, and the growth of categories."""

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from speciate.evaluate.contingency import Flags, Integers
from speciate_schemas.replay import Growth, TemporalBin

BINS = 5
PLACES = 200

Reals = npt.NDArray[np.floating[Any]]


def false_births(birth: Flags, truth: Integers, known_classes: Flags) -> Flags:
    """The births of events whose class was represented before.

    Known classes are from the start, novel ones from the event after their first.
    """
    represented = np.asarray(known_classes, dtype=bool)[truth]
    debuts = _debuts(truth)
    later = np.ones(len(truth), dtype=bool)
    later[debuts] = False
    return np.asarray(birth, dtype=bool) & (represented | later)


def temporal_bins(birth: Flags, false: Flags, drift: Reals, margin: Reals) -> list[TemporalBin]:
    """The stream in five parts of the same length, up to one event; NaN is a value that is not there."""
    edges = [place * len(birth) // BINS for place in range(BINS + 1)]
    parts = [slice(*pair) for pair in pairwise(edges)]
    return [
        TemporalBin(
            events=part.stop - part.start,
            births=int(np.count_nonzero(birth[part])),
            false_birth_rate=false_birth_rate(false[part]),
            mean_drift=_mean(drift[part]),
            mean_margin=_mean(margin[part]),
        )
        for part in parts
    ]


def false_birth_rate(false: Flags) -> float | None:
    """False births an event; none where there are no events."""
    return int(np.count_nonzero(false)) / len(false) if len(false) else None


def growth(birth: Flags, truth: Integers, known_classes: Flags) -> Growth:
    """Categories and classes after so many events, at up to 200 places, the start and the end among them.

    Both begin with the known ones, whether the stream shows them or not.
    """
    places = np.linspace(0, len(truth), min(PLACES, len(truth) + 1)).astype(np.int64)
    known = np.asarray(known_classes, dtype=bool)
    debuts = _debuts(truth)
    novel = np.sort(debuts[~known[truth[debuts]]])
    start = int(np.count_nonzero(known))
    return Growth(
        events=places.tolist(),
        categories=(start + np.searchsorted(np.flatnonzero(birth), places)).tolist(),
        classes=(start + np.searchsorted(novel, places)).tolist(),
    )


def _debuts(truth: Integers) -> Integers:
    """The first event of each class."""
    return np.unique(truth, return_index=True)[1]


def _mean(values: Reals) -> float | None:
    there = values[~np.isnan(values)]
    return float(there.mean(dtype=np.float64)) if len(there) else None
