"""Instruments: what the stages of a process count and time, once a batch, for whoever may ask.

They are plain numbers: feeding them costs next to nothing, and without a reader nothing else happens. Each is written
by one thread at a time, and any thread may read it.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version

import numpy as np
import numpy.typing as npt

from speciate.errors import EventError
from speciate.metrics import METRICS, Metric
from speciate.outcomes import Outcome
from speciate.timing import STATES, StageTimes
from speciate_schemas import DeadLetter, Rejection, Tally

STAGES = frozenset({"source", "encoder", "admission", "head", "control"})
"""Where an input can be rejected."""
OTHER = "other"


class Value:
    """The number of a counter or a gauge."""

    __slots__ = ("value",)

    def __init__(self, value: float = 0.0) -> None:
        self.value = value

    def add(self, amount: float = 1.0) -> None:
        """Count."""
        self.value += amount


class Histogram:
    """How many values lay in each bucket, and their sum.

    Its buckets are few and fixed, unlike those of `LatencyHistogram`, which are for quantiles of one run: the ends of
    these stand in queries and alerts, and are added up over workers.
    """

    __slots__ = ("_array", "_ends", "counts", "sum")

    def __init__(self, buckets: Sequence[float]) -> None:
        self._ends = list(buckets)
        self._array = np.array(buckets)
        self.counts = np.zeros(len(buckets) + 1, dtype=np.int64)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Take down one value; it belongs to the first bucket whose end it does not exceed."""
        self.counts[bisect_left(self._ends, value)] += 1
        self.sum += value

    def observe_many(self, values: npt.NDArray[np.float64]) -> None:
        """Take down a batch of them."""
        self.counts += np.bincount(self._array.searchsorted(values), minlength=len(self.counts))
        self.sum += float(values.sum())


Labels = tuple[str, ...]


class Instruments:
    """All instruments of a process, by metric and labels. They outlast the attempts at a task."""

    def __init__(self) -> None:
        self._values: dict[str, dict[Labels, Value]] = {name: {} for name in METRICS}
        self._histograms: dict[str, dict[Labels, Histogram]] = {name: {} for name in METRICS}
        self._tasks: dict[int, TaskInstruments] = {}
        self.set("speciate_build_info", 1.0, version("speciate"))

    def value(self, name: str, *labels: str) -> Value:
        """The counter or gauge of this name and these labels, in the order of the table."""
        found = self._values[name].get(labels)
        return found if found is not None else self._values[name].setdefault(labels, Value())

    def histogram(self, name: str, *labels: str) -> Histogram:
        """The histogram of this name and these labels, in the order of the table."""
        found = self._histograms[name].get(labels)
        return (
            found if found is not None else self._histograms[name].setdefault(labels, Histogram(METRICS[name].buckets))
        )

    def set(self, name: str, amount: float, *labels: str) -> None:
        """Set a gauge."""
        self.value(name, *labels).value = amount

    def replace(self, name: str, amounts: Mapping[int, float]) -> None:
        """Set a gauge for these tasks, and forget what it was for others."""
        # At once: another thread may be reading.
        self._values[name] = {(str(number),): Value(amount) for number, amount in amounts.items()}

    def task(self, number: int) -> "TaskInstruments":
        """Those of one task."""
        if number not in self._tasks:
            self._tasks[number] = TaskInstruments(self, number)
        return self._tasks[number]

    def read_times(self) -> None:
        """Bring the times of all stages up to date."""
        for task in list(self._tasks.values()):
            task.read_times()

    def readings(self) -> Iterator[tuple[Metric, Labels, Value | Histogram]]:
        """Everything there is, metric by metric."""
        for name, metric in METRICS.items():
            # Copies: stages may add to them meanwhile.
            found: list[tuple[Labels, Value | Histogram]] = list(self._values[name].items())
            found += self._histograms[name].items()
            for labels, one in found:
                yield metric, labels, one


class TaskInstruments:
    """The instruments of one task, each looked up once."""

    def __init__(self, all_of_them: Instruments, number: int) -> None:
        task = str(number)
        self._all, self._task = all_of_them, task
        self._outcomes = {
            outcome: all_of_them.value("speciate_events_total", task, outcome)
            for outcome in ("assigned", "rejected", "control", "forwarded", "dropped")
        }
        self._births = all_of_them.value("speciate_births_total", task)
        self.latency = all_of_them.histogram("speciate_latency_seconds", task)
        self.head_batches = all_of_them.histogram("speciate_batch_events", task, "head")
        self.commits = all_of_them.histogram("speciate_commit_seconds", task)
        self.snapshots = all_of_them.histogram("speciate_snapshot_seconds", task)
        self.snapshot_failures = all_of_them.value("speciate_snapshot_failures_total", task)
        self.restores = all_of_them.histogram("speciate_restore_seconds", task)
        self.refolded = all_of_them.value("speciate_refolded_events_total", task)
        self.away = all_of_them.value("speciate_away_total", task)
        self.fenced = all_of_them.value("speciate_fenced_total", task)
        self._times: Mapping[str, StageTimes] = {}
        self._spent_before: dict[tuple[str, str], float] = {}

    @property
    def encoder_batches(self) -> Histogram:
        """Sizes of the encoder's batches; there are none where there is no encoder."""
        return self._all.histogram("speciate_batch_events", self._task, "encoder")

    def saved(self, size: int) -> None:
        """A snapshot of so many bytes is there."""
        self._all.set("speciate_snapshot_bytes", size, self._task)

    def answered(self, before: Tally, after: Tally, outcomes: Sequence[Outcome]) -> None:
        """A batch was answered; the tallies are those before and behind it, so that nothing is counted one by one."""
        counted = self._outcomes
        counted["assigned"].add(after.assigned - before.assigned)
        counted["control"].add(after.controls - before.controls)
        counted["forwarded"].add(after.forwarded - before.forwarded)
        counted["dropped"].add(after.dropped - before.dropped)
        self._births.add(after.births - before.births)
        if after.rejected != before.rejected:
            counted["rejected"].add(after.rejected - before.rejected)
            self._rejected(outcomes)

    def _rejected(self, outcomes: Sequence[Outcome]) -> None:
        errors = _names_below(EventError)
        for answer, _ in outcomes:
            if isinstance(answer, Rejection | DeadLetter):
                # Who sends dead letters of a pipeline in front writes what he likes: labels must not grow by it.
                stage = answer.stage if answer.stage in STAGES else OTHER
                error = answer.error if answer.error in errors else OTHER
                self._all.value("speciate_rejections_total", self._task, stage, error).add()

    def begin(self, times: Mapping[str, StageTimes]) -> None:
        """Another attempt measures its stages anew; what was spent before stays."""
        self.read_times()
        self._times = times
        self._spent_before = {
            (stage, state): self._all.value("speciate_stage_seconds_total", self._task, stage, state).value
            for stage in times
            for state in STATES
        }

    def read_times(self) -> None:
        """Bring the times of the stages up to date, with what is under way."""
        for stage, spent in self._times.items():
            for state in STATES:
                one = self._all.value("speciate_stage_seconds_total", self._task, stage, state)
                # Time under way may turn out to have been spent on something else: a counter never goes back.
                one.value = max(one.value, self._spent_before[stage, state] + spent.so_far(state))


def _names_below(kind: type[Exception]) -> set[str]:
    return {kind.__name__}.union(*(_names_below(one) for one in kind.__subclasses__()))
