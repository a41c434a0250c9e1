"""Quantiles of values of which only the buckets they lay in were counted."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt


def quantile(counts: npt.NDArray[Any], edges: Sequence[float], fraction: float) -> float | None:
    """What this fraction of the values did not exceed, if within a bucket they lie evenly; None if there are none.

    A bucket lies between two edges; a last one may have no end, and its values count as its beginning.
    """
    total = int(counts.sum())
    if not total:
        return None
    behind = np.cumsum(counts)
    rank = fraction * total
    bucket = int(np.searchsorted(behind, rank))
    if bucket == len(edges) - 1:
        return edges[-1]
    within = int(counts[bucket])
    # Only the smallest of all lies before an empty bucket: at its beginning.
    share = (rank - (int(behind[bucket]) - within)) / max(1, within)
    return edges[bucket] + (edges[bucket + 1] - edges[bucket]) * share
