"""How long events took, from the seconds of the batches they came in."""

import math

import numpy as np
import numpy.typing as npt

from speciate_schemas.replay import Timing

A_DECADE = 10
"""Bins of the histogram from a time to ten times it."""
SHORTEST_MS = 1e-6
"""A nanosecond: no clock tells less. Shorter times are counted with it."""


def timing(seconds: npt.ArrayLike, sizes: npt.ArrayLike, *, fit_seconds: float, batch: int) -> Timing:
    """Times of an event: those of its batch divided by the batch's size, and counted that often."""
    spent = np.asarray(seconds, dtype=np.float64)
    events = np.asarray(sizes, dtype=np.int64)
    used = events > 0
    each = spent[used] / events[used] * 1e3
    whole, count = float(spent.sum()), int(events.sum())
    p50, p99 = np.quantile(each, [0.5, 0.99], weights=events[used], method="inverted_cdf").tolist()
    edges, counts = _histogram(each, events[used])
    return Timing(
        batch=batch,
        fit_seconds=fit_seconds,
        events_per_second=count / whole if whole else 0.0,
        mean_ms=whole / count * 1e3,
        p50_ms=p50,
        p99_ms=p99,
        max_ms=float(each.max()),
        histogram_ms=edges,
        histogram_counts=counts,
    )


def _histogram(each: npt.NDArray[np.float64], events: npt.NDArray[np.int64]) -> tuple[list[float], list[int]]:
    """Ten bins a decade at places that are the same for all runs, as far as there are times."""
    times = np.maximum(each, SHORTEST_MS)
    first, last = (math.floor(math.log10(time) * A_DECADE) for time in (times.min(), times.max()))
    edges = 10.0 ** (np.arange(first, last + 2) / A_DECADE)
    # A time at an edge may be beside all bins by a rounding of the edge.
    places = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, last - first)
    counts = np.bincount(places, weights=events, minlength=last - first + 1)
    return edges.tolist(), counts.astype(np.int64).tolist()
