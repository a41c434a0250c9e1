"""How a run stands, and how it went."""

from typing import Any

import msgspec

from speciate.stages import Progress
from speciate.timing import StageTimes
from speciate_schemas import Tally


class Status(msgspec.Struct, frozen=True):
    """A run at one moment."""

    tally: Tally
    """What became of all inputs since the very beginning."""
    sequence: int
    """Number of the next input."""
    categories: int
    head_bytes: int
    progress: Progress
    stages: dict[str, StageTimes]
    answered: int
    """Inputs answered by this run."""
    seconds: float
    """Time this run has taken."""

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
    """Number of the first input it answered."""
    latency_p50: float
    """Seconds from reading an event to writing its answer, median."""
    latency_p99: float
    answers: str
    dead_letters: str
    state: str

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        status: dict[str, Any] = msgspec.to_builtins(self.status)
        status["tally"].pop("type")
        status["progress"] = self.status.progress._asdict()
        rest: dict[str, Any] = {k: v for k, v in msgspec.to_builtins(self).items() if k != "status"}
        return {**status, "events_per_second": self.status.events_per_second, "lag": self.status.lag, **rest}
