"""Rates: what has happened over the last seconds, from what was counted at their beginning and end."""

from collections import deque
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from speciate.buckets import quantile
from speciate.instruments import Histogram, Instruments, Value
from speciate.metrics import METRICS
from speciate.timing import STATES

WINDOW_SECONDS = 5.0
LATENCY_EDGES = (0.0, *METRICS["speciate_latency_seconds"].buckets)

Counts = npt.NDArray[np.int64]


class Sample(NamedTuple):
    """What was counted by a moment."""

    time: float
    answered: int
    stages: dict[str, dict[str, float]]
    """Seconds spent in each state, by stage in the order of the flow."""
    latencies: Counts
    """In the buckets of the metric."""

    @classmethod
    def of(cls, time: float, answered: int, instruments: Instruments) -> "Sample":
        """What the instruments say, of all tasks together."""
        stages: dict[str, dict[str, float]] = {}
        latencies = np.zeros(len(LATENCY_EDGES), dtype=np.int64)
        for metric, labels, one in instruments.readings():
            if metric.name == "speciate_stage_seconds_total" and isinstance(one, Value):
                _, stage, state = labels
                spent = stages.setdefault(stage, dict.fromkeys(STATES, 0.0))
                spent[state] += one.value
            elif metric.name == "speciate_latency_seconds" and isinstance(one, Histogram):
                latencies += one.counts
        return cls(time, answered, stages, latencies)


class Rates(NamedTuple):
    """What the last seconds were like."""

    events_per_second: float
    stages: dict[str, dict[str, float]]
    """Share of each state, by stage; a stage that there is not is left out."""
    latency_p50: float | None
    latency_p99: float | None


class Meter:
    """Remembers samples of the last seconds, and one from before them."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque()

    def rates(self, now: Sample) -> Rates:
        """Take down a sample; the rates up to it."""
        if not self._samples:
            # Nothing to compare with: as if it had begun just now.
            self._samples.append(now._replace(stages={}, latencies=np.zeros_like(now.latencies)))
        self._samples.append(now)
        while len(self._samples) > 2 and self._samples[1].time <= now.time - WINDOW_SECONDS:  # noqa: PLR2004  # two make a rate
            self._samples.popleft()
        then = self._samples[0]
        passed, latencies = now.time - then.time, now.latencies - then.latencies
        return Rates(
            events_per_second=(now.answered - then.answered) / passed if passed > 0.0 else 0.0,
            stages=_shares(then.stages, now.stages),
            latency_p50=quantile(latencies, LATENCY_EDGES, 0.5),
            latency_p99=quantile(latencies, LATENCY_EDGES, 0.99),
        )


def _shares(then: dict[str, dict[str, float]], now: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    found = {}
    for stage, spent in now.items():
        before = then.get(stage, {})
        passed = {state: max(0.0, seconds - before.get(state, 0.0)) for state, seconds in spent.items()}
        total = sum(passed.values())
        if total:
            found[stage] = {state: seconds / total for state, seconds in passed.items()}
    return found
