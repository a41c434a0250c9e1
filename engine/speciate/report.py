"""How a run stands, and how it went."""

from collections.abc import Iterable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Self

import msgspec

from speciate.stages import Progress, Sink, StateStore
from speciate.task import Task
from speciate.timing import LatencyHistogram, StageTimes
from speciate_schemas import Tally

if TYPE_CHECKING:
    from speciate.running import TaskRun


class Ledger:
    """What attempts that are over leave for the report. Their tasks and all they hold in memory are let go of."""

    def __init__(self) -> None:
        self.answered = 0
        self.stages: dict[str, StageTimes] = {}
        self.latency = LatencyHistogram()
        self.first: dict[int, int] = {}
        """Number of the first input that was answered, of each task."""

    def add(self, run: "TaskRun") -> None:
        """Take down an attempt."""
        flow = run.flow
        if flow is None:
            return
        self.answered += flow.answered
        self.latency.merge(flow.latency)
        self.first.setdefault(run.seat.number, flow.start.commit.sequence)
        for name, spent in flow.times.items():
            before = self.stages.setdefault(name, StageTimes())
            for kind in ("busy", "idle", "backpressured"):
                setattr(before, kind, getattr(before, kind) + getattr(spent, kind))

    def with_runs(self, runs: "Iterable[TaskRun]") -> "Ledger":
        """What it would be if these were over, too."""
        total = Ledger()
        total.answered, total.first = self.answered, dict(self.first)
        total.stages = {name: copy(spent) for name, spent in self.stages.items()}
        total.latency.merge(self.latency)
        for run in runs:
            total.add(run)
        return total


class Status(msgspec.Struct, frozen=True):
    """A run at one moment."""

    tally: Tally
    """What became of all inputs of this process's tasks since the very beginning."""
    sequence: int
    """Number of the next input; the sum over all tasks, if there are several."""
    tasks: dict[int, int]
    """Number of the next input of each task."""
    categories: int
    head_bytes: int
    progress: Progress
    stages: dict[str, StageTimes]
    answered: int
    """Inputs answered by this run."""
    seconds: float
    """Time this run has taken."""

    @classmethod
    def of(cls, runs: "Sequence[TaskRun]", ledger: Ledger, seconds: float) -> Self | None:
        """The status of our tasks, one run each, and what is over; None before the first has started."""
        flows = {run.seat.number: (run, run.flow) for run in runs if run.flow is not None}
        if not flows and not ledger.first:
            return None
        universes = [flow.task.universe for _, flow in flows.values() if isinstance(flow.task, Task)]
        tasks = {number: flow.task.sequence for number, (_, flow) in sorted(flows.items())}
        total = ledger.with_runs(runs)
        return cls(
            tally=_summed([flow.tally for _, flow in flows.values()]),
            sequence=sum(tasks.values()),
            tasks=tasks,
            categories=sum(universe.size for universe in universes),
            head_bytes=sum(universe.nbytes for universe in universes),
            progress=_progress([run.parts.source.progress() for run, _ in flows.values()]),
            stages=total.stages,
            answered=total.answered,
            seconds=seconds,
        )

    @property
    def events_per_second(self) -> float:
        """Rate of this run."""
        return self.answered / self.seconds if self.seconds else 0.0

    @property
    def lag(self) -> int | None:
        """What the source still holds, in the unit of its progress; None where its end is not known."""
        return None if self.progress.total is None else max(0, self.progress.total - self.progress.done)


class Report(msgspec.Struct, frozen=True):
    """A run that has ended."""

    status: Status
    stopped: bool
    """True if it was asked to stop before the source had ended."""
    resumed_at: int
    """Number of the first input it answered; of several tasks, the sum."""
    latency_p50: float
    """Seconds from reading an event to writing its answer, median."""
    latency_p99: float
    answers: str
    dead_letters: str
    state: str

    @classmethod
    def of(cls, runs: "Sequence[TaskRun]", ledger: Ledger, seconds: float, *, stopped: bool) -> Self:
        """The report on our tasks, one run each, and on what was over before."""
        total = ledger.with_runs(runs)
        return cls(
            status=Status.of(runs, ledger, seconds) or _nothing(seconds),
            stopped=stopped,
            resumed_at=sum(total.first.values()),
            latency_p50=total.latency.quantile(0.50),
            latency_p99=total.latency.quantile(0.99),
            answers=_named(run.parts.answers for run in runs),
            dead_letters=_named(run.parts.dead_letters for run in runs),
            state=_named(run.parts.store for run in runs),
        )

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        status: dict[str, Any] = msgspec.to_builtins(self.status, str_keys=True)
        status["tally"].pop("type")
        status["progress"] = self.status.progress._asdict()
        rest: dict[str, Any] = {k: v for k, v in msgspec.to_builtins(self).items() if k != "status"}
        return {**status, "events_per_second": self.status.events_per_second, "lag": self.status.lag, **rest}


def _named(places: "Iterable[Sink | StateStore | None]") -> str:
    """Where they are, each once."""
    return ", ".join(sorted({place.describe() for place in places if place is not None}))


def _summed(tallies: Sequence[Tally]) -> Tally:
    return Tally(**{name: sum(getattr(tally, name) for tally in tallies) for name in Tally.__struct_fields__})


def _progress(parts: Sequence[Progress]) -> Progress:
    totals = [part.total for part in parts if part.total is not None]
    total = sum(totals) if len(totals) == len(parts) else None
    return Progress(sum(part.done for part in parts), total, parts[0].unit if parts else "records")


def _nothing(seconds: float) -> Status:
    """A worker that never had a task."""
    return Status(Tally(), 0, {}, 0, 0, Progress(0, None, "records"), {}, 0, seconds)
