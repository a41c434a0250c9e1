"""The series behind the figures: runs of several seeds as one curve, or one histogram."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from speciate_schemas.replay import Run, TemporalBin, Timing

Series = npt.NDArray[np.float64]
STEPS = 100
"""Points of a curve: more would not be seen."""


class Growth(NamedTuple):
    """Categories along the stream, over seeds."""

    events: Series
    mean: Series
    least: Series
    most: Series
    truth: Series


def growth(runs: Sequence[Run]) -> Growth:
    """How many categories there were, as far as all runs go."""
    series = [run.metrics.growth for run in runs if run.metrics.growth.events]
    if not series:
        nothing = np.empty(0)
        return Growth(nothing, nothing, nothing, nothing, nothing)
    first, last = max(one.events[0] for one in series), min(one.events[-1] for one in series)
    events = np.linspace(first, last, STEPS)
    found = np.array([np.interp(events, one.events, one.categories) for one in series])
    truth = np.array([np.interp(events, one.events, one.classes) for one in series])
    return Growth(events, found.mean(axis=0), found.min(axis=0), found.max(axis=0), truth.mean(axis=0))


def over_bins(runs: Sequence[Run], read: Callable[[TemporalBin], float | None], *, normalised: bool = False) -> Series:
    """A number in each part of the stream, mean over seeds, NaN where there is none.

    Normalised, each run is divided by its own first part, as the paper does.
    """
    rows = [_bins(run, read) for run in runs]
    if normalised:
        rows = [row / row[0] for row in rows if len(row) and np.isfinite(row[0]) and row[0]]
    length = max((len(row) for row in rows), default=0)
    together = np.array([[*row, *[np.nan] * (length - len(row))] for row in rows]).reshape(len(rows), length)
    there = np.isfinite(together)
    counts = there.sum(axis=0)
    sums = np.where(there, together, 0.0).sum(axis=0)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)


def _bins(run: Run, read: Callable[[TemporalBin], float | None]) -> Series:
    values = [read(one) for one in run.metrics.bins]
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


class Histogram(NamedTuple):
    """Shares of events between edges."""

    edges: Series
    shares: Series


def histogram(timings: Sequence[Timing]) -> Histogram:
    """Histograms of several runs as one. Where their edges differ, a bin's events count as evenly spread in it."""
    edges = np.unique([edge for timing in timings for edge in timing.histogram_ms]).astype(np.float64)
    shares = np.zeros(max(len(edges) - 1, 0))
    for timing in timings:
        total = sum(timing.histogram_counts)
        if total:
            below = np.concatenate([[0.0], np.cumsum(timing.histogram_counts)]) / total
            shares += np.diff(np.interp(edges, timing.histogram_ms, below)) / len(timings)
    return Histogram(edges, shares)
