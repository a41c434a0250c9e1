"""The timeline: a stream of any length in a bounded number of equal parts, for people to look at.

When the parts are used up, two become one: so it is always the whole stream, and depends on the stream alone.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from speciate_schemas import Array, TimelineState

PARTS = 128
BUCKETS = 32
"""Of a histogram of margins; each is twice as wide as the one before it."""
LOWEST = -9
"""Margins below 2 to this, in nats, are all alike: the first bucket has them."""

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Timeline:
    """How many events and births there were, how many categories, and how clear the decisions, part by part."""

    def __init__(self, state: TimelineState | None = None) -> None:
        if state is None:
            self.width = 1
            """Records in one part."""
            self._events, self._births = np.zeros(PARTS, np.int64), np.zeros(PARTS, np.int64)
            self._categories = np.full(PARTS, -1, np.int64)
            self._margins = np.zeros((PARTS, BUCKETS), np.int64)
            self._times = np.full(PARTS, np.nan)
        else:
            self.width = state.width
            arrays = (state.events, state.births, state.categories, state.margins, state.times)
            self._events, self._births, self._categories, self._margins, self._times = (
                one.numpy().copy() for one in arrays
            )

    def reaches(self, sequence: int) -> bool:
        """Whether the record has a part; if not, `widen` first."""
        return sequence < PARTS * self.width

    def widen(self) -> None:
        """Make one part of two."""
        self.width *= 2
        self._events, self._births = _paired(self._events), _paired(self._births)
        self._margins = _paired(self._margins)
        self._categories = _later(self._categories, self._categories >= 0, -1)
        self._times = _later(self._times, ~np.isnan(self._times), np.nan)

    def note(self, sequences: Integers, births: Integers, categories: Integers, margins: Floats, times: Floats) -> None:
        """Take down assignments, in order; margin and time are not a number where there is none."""
        parts = sequences // self.width
        np.add.at(self._events, parts, 1)
        np.add.at(self._births, parts, births)
        self.resize(sequences, categories)
        told = ~np.isnan(margins)
        np.add.at(self._margins, (parts[told], _buckets(margins[told])), 1)
        timed = ~np.isnan(times)
        where, which = _last_of_each(parts[timed])
        self._times[where] = times[timed][which]

    def resize(self, sequences: Integers, categories: Integers) -> None:
        """Take down how many categories there are behind some records, in order."""
        where, which = _last_of_each(sequences // self.width)
        self._categories[where] = categories[which]

    def state(self) -> TimelineState:
        """Everything; later notes do not change it."""
        return TimelineState(
            width=self.width,
            events=Array.of(self._events.copy()),
            births=Array.of(self._births.copy()),
            categories=Array.of(self._categories.copy()),
            margins=Array.of(self._margins.copy()),
            times=Array.of(self._times.copy()),
        )


def quantiles(histogram: npt.NDArray[Any], probabilities: Sequence[float]) -> list[float | None]:
    """Quantiles of the margins of a part, in nats; None if there were none. Within a bucket they lie evenly."""
    total = int(histogram.sum())
    if not total:
        return [None for _ in probabilities]
    ends = np.cumsum(histogram)
    found: list[float | None] = []
    for probability in probabilities:
        rank = probability * total
        bucket = min(int(np.searchsorted(ends, rank)), BUCKETS - 1)
        before = int(ends[bucket]) - int(histogram[bucket])
        low = 0.0 if bucket == 0 else math.ldexp(1.0, LOWEST + bucket - 1)
        high = math.ldexp(1.0, LOWEST + bucket)
        found.append(low + (high - low) * (rank - before) / max(1, int(histogram[bucket])))
    return found


def _buckets(margins: Floats) -> Integers:
    """The bucket of each margin: 0 below 2^LOWEST, and from there on one a power of two."""
    exponents = np.frexp(margins)[1].astype(np.int64)
    return np.where(margins > 0.0, np.clip(exponents - LOWEST, 0, BUCKETS - 1), 0)


def _last_of_each(parts: Integers) -> tuple[Integers, Integers]:
    """The parts that occur, which are in order, and where each occurs last."""
    if not len(parts):
        return parts, parts
    which = np.flatnonzero(np.append(parts[1:] != parts[:-1], True))  # the last one always is
    return parts[which], which


def _paired(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    half = counts[0::2] + counts[1::2]
    return np.concatenate([half, np.zeros_like(half)])


def _later(values: npt.NDArray[Any], there: npt.NDArray[np.bool_], nothing: float) -> npt.NDArray[Any]:
    half = np.where(there[1::2], values[1::2], values[0::2])
    return np.concatenate([half, np.full_like(half, nothing)])
