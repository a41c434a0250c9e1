"""Where the time goes: busy, idle and backpressured per stage, and the latency of events."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

STATES = ("busy", "idle", "backpressured")


@dataclass
class StageTimes:
    """Seconds a stage spent working, waiting for input, and waiting for the next stage to take its output."""

    busy: float = 0.0
    idle: float = 0.0
    backpressured: float = 0.0

    def __post_init__(self) -> None:
        # No field of its own: a report tells what was spent, not what is being spent.
        self._under_way: tuple[str, float] | None = None

    @contextmanager
    def measure(self, kind: str) -> Iterator[None]:
        """Add the time of the block to `busy`, `idle` or `backpressured`."""
        start = time.perf_counter()
        self._under_way = (kind, start)
        try:
            yield
        finally:
            self._under_way = None
            setattr(self, kind, getattr(self, kind) + time.perf_counter() - start)

    @contextmanager
    def under_way(self, kind: str) -> Iterator[float]:
        """Let `so_far` count the time of the block, which began at what this yields, and add it to nothing."""
        start = time.perf_counter()
        self._under_way = (kind, start)
        try:
            yield start
        finally:
            self._under_way = None

    def so_far(self, kind: str) -> float:
        """What was spent, and is being spent: whoever waits for an hour is idle all the while."""
        under_way, spent = self._under_way, float(getattr(self, kind))
        return spent + time.perf_counter() - under_way[1] if under_way and under_way[0] == kind else spent


class LatencyHistogram:
    """Latencies in buckets 4 % apart from a microsecond to a day: quantiles in constant memory."""

    _LOWEST = 1e-6
    _STEP = np.log(1.04)
    _BUCKETS = 650

    def __init__(self) -> None:
        self._counts = np.zeros(self._BUCKETS, dtype=np.int64)
        self._longest = 0.0

    def add(self, seconds: npt.NDArray[np.float64]) -> None:
        """Count some latencies."""
        if len(seconds):
            places = np.log(np.maximum(seconds, self._LOWEST) / self._LOWEST) / self._STEP
            self._counts += np.bincount(np.minimum(places.astype(np.int64), self._BUCKETS - 1), minlength=self._BUCKETS)
            self._longest = max(self._longest, float(seconds.max()))

    def merge(self, other: "LatencyHistogram") -> None:
        """Count what another one has counted."""
        self._counts += other._counts  # noqa: SLF001
        self._longest = max(self._longest, other._longest)  # noqa: SLF001

    def quantile(self, fraction: float) -> float:
        """The latency that this fraction of events did not exceed, to within a bucket; 0 if there were none."""
        total = int(self._counts.sum())
        if not total:
            return 0.0
        place = int(np.searchsorted(np.cumsum(self._counts), fraction * total))
        return float(min(self._LOWEST * np.exp((place + 1) * self._STEP), self._longest))
