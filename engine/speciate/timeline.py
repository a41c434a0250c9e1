"""The timeline: a stream of any length in a bounded number of equal parts, for people to look at.

When the parts are used up, two become one: so it is always the whole stream, and depends on the stream alone.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from speciate.buckets import quantile
from speciate_schemas import Array, TimelineState

PARTS = 128
BUCKETS = 32
"""Of a histogram of margins; each is twice as wide as the one before it."""
EVENTS, BIRTHS, SIZE, MARGINS = 0, 1, 2, 3
"""Where the counts of a part are: events, births, the categories at its end, and from there on the histogram."""
LOWEST = -9
"""Margins below 2 to this, in nats, are all alike: the first bucket has them."""

EDGES = (0.0, *(math.ldexp(1.0, LOWEST + bucket) for bucket in range(BUCKETS)))
"""Of the buckets."""

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class Timeline:
    """How many events and births there were, how many categories, and how clear the decisions, part by part.

    Only parts in which something happened are there: of many streams, each may have come a few times.
    """

    def __init__(self, state: TimelineState | None = None) -> None:
        self.width = 1 if state is None else state.width
        """Records in one part."""
        self._counts: dict[int, Integers] = {}
        self._times: dict[int, float] = {}
        self._state = state
        if state is not None:
            parts, times = state.parts.numpy().tolist(), state.times.numpy().tolist()
            self._counts = dict(zip(parts, state.counts.numpy().astype(np.int64), strict=True))
            self._times = {part: time for part, time in zip(parts, times, strict=True) if not math.isnan(time)}

    def reaches(self, sequence: int) -> bool:
        """Whether the record has a part; if not, `widen` first."""
        return sequence < PARTS * self.width

    def widen(self) -> None:
        """Make one part of two."""
        self._state = None
        self.width *= 2
        before, self._counts = self._counts, {}
        for part in sorted(before):
            here = self._counts.setdefault(part // 2, _nothing())
            size = before[part][SIZE]
            here += before[part]
            here[SIZE] = size
        self._times = {part // 2: self._times[part] for part in sorted(self._times)}

    def note(self, sequences: Integers, births: Integers, categories: Integers, margins: Floats, times: Floats) -> None:
        """Take down assignments, in order; margin and time are not a number where there is none."""
        self._state = None
        parts = sequences // self.width
        for first, end in _runs(parts):
            part = int(parts[first])
            here = self._counts.setdefault(part, _nothing())
            here[EVENTS] += end - first
            here[BIRTHS] += births[first:end].sum()
            here[SIZE] = categories[end - 1]
            told = margins[first:end]
            here[MARGINS:] += np.bincount(_buckets(told[~np.isnan(told)]), minlength=BUCKETS)
            timed = times[first:end]
            if not np.isnan(timed).all():
                self._times[part] = float(timed[~np.isnan(timed)][-1])

    def resize(self, sequence: int, categories: int) -> None:
        """Take down how many categories there are behind a record."""
        self._state = None
        self._counts.setdefault(sequence // self.width, _nothing())[SIZE] = categories

    def state(self) -> TimelineState:
        """Everything; later notes do not change it."""
        if self._state is None:
            parts = sorted(self._counts)
            counts = [self._counts[part] for part in parts]
            self._state = TimelineState(
                width=self.width,
                parts=Array.of(np.array(parts, dtype=np.int64)),
                counts=Array.of(np.stack(counts) if counts else np.zeros((0, MARGINS + BUCKETS), np.int64)),
                times=Array.of(np.array([self._times.get(part, math.nan) for part in parts], dtype=np.float64)),
            )
        return self._state


def quantiles(histogram: npt.NDArray[Any], probabilities: Sequence[float]) -> list[float | None]:
    """Quantiles of the margins of a part, in nats; None if there were none."""
    return [quantile(histogram, EDGES, probability) for probability in probabilities]


def _buckets(margins: Floats) -> Integers:
    """The bucket of each margin: 0 below 2^LOWEST, and from there on one a power of two."""
    exponents = np.frexp(margins)[1].astype(np.int64)
    return np.where(margins > 0.0, np.clip(exponents - LOWEST, 0, BUCKETS - 1), 0)


def _runs(parts: Integers) -> Iterator[tuple[int, int]]:
    """Where each part begins and ends among records, which are in order."""
    edges = [0, *(np.flatnonzero(parts[1:] != parts[:-1]) + 1).tolist(), len(parts)]
    yield from pairwise(edges)


def _nothing() -> Integers:
    """The counts of a part in which nothing has happened yet."""
    return np.zeros(MARGINS + BUCKETS, np.int64)
