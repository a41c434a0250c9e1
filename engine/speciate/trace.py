"""What one category leaves for people to see."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from speciate.exemplars import Kept, Sample, restored, rows_of, stored, vector_of
from speciate_schemas import Array, ChangedTraces, TraceState


@dataclass
class Trace:
    """What one category has left. The fields are those of `TraceState`."""

    id: int
    born: int | None = None
    born_time: float | None = None
    seen: int = 0
    last_sequence: int | None = None
    last_time: float | None = None
    activity: dict[int, int] = field(default_factory=dict)
    sample: Sample = field(default_factory=Sample)
    trail_sequences: list[int] = field(default_factory=list)
    trail: list[npt.NDArray[np.float32]] = field(default_factory=list)
    _saved: TraceState | None = None

    @property
    def exemplars(self) -> Sequence[Kept]:
        """Those who stand for it, the first few with pictures if there are any."""
        return self.sample.kept

    def see(self, sequence: int, time: float | None, width: int) -> None:
        """An event came."""
        self.changed()
        self.seen += 1
        self.last_sequence, self.last_time = sequence, time
        part = sequence // width
        self.activity[part] = self.activity.get(part, 0) + 1

    def changed(self) -> None:
        """It is not what it was when it was saved."""
        self._saved = None

    def widen(self) -> None:
        """The timeline has made one part of two."""
        self.changed()
        halved: dict[int, int] = {}
        for part, count in self.activity.items():
            halved[part // 2] = halved.get(part // 2, 0) + count
        self.activity = halved

    def mark(self, sequence: int, centre: npt.NDArray[np.float64] | None, most: int) -> None:
        """Note where its centre is; of so many places the first and the newest are kept."""
        self.changed()
        if centre is not None:
            self.trail_sequences.append(sequence)
            self.trail.append(vector_of(centre))
            self.shorten(most)

    def shorten(self, most: int) -> None:
        """Keep so many places of its centre."""
        gone = slice(1, 1 + max(0, len(self.trail) - most))
        del self.trail_sequences[gone], self.trail[gone]

    def copy(self) -> "Trace":
        """One that goes its own way."""
        return replace(
            self,
            activity=dict(self.activity),
            sample=Sample(self.sample.kept),
            trail_sequences=list(self.trail_sequences),
            trail=list(self.trail),
        )

    def state(self) -> TraceState:
        """As it is stored. Made once for each change: most of many categories are as the last snapshot has them."""
        if self._saved is None:
            self._saved = TraceState(
                id=self.id,
                born=self.born,
                born_time=self.born_time,
                seen=self.seen,
                last_sequence=self.last_sequence,
                last_time=self.last_time,
                activity=sorted(self.activity.items()),
                exemplars=self.sample.state(),
                trail_sequences=list(self.trail_sequences),
                trail=Array.of(np.stack(self.trail)) if self.trail else None,
            )
        return self._saved

    @classmethod
    def from_state(cls, state: TraceState, seed: int) -> "Trace":
        """The trace whose state this is."""
        return cls(
            id=state.id,
            born=state.born,
            born_time=state.born_time,
            seen=state.seen,
            last_sequence=state.last_sequence,
            last_time=state.last_time,
            activity=dict(state.activity),
            sample=Sample.from_state(state.exemplars, seed),
            trail_sequences=list(state.trail_sequences),
            trail=[] if state.trail is None else rows_of(state.trail),
        )


@dataclass
class Changed:
    """The traces that the last merge or forget has changed, as they were, and what came to the merged one since."""

    before: list[Trace]
    since: list[Kept] = field(default_factory=list)

    def state(self) -> ChangedTraces:
        """As it is stored."""
        before = [one.state() for one in self.before]
        return ChangedTraces(before=before, since=stored(self.since))

    @classmethod
    def from_state(cls, state: ChangedTraces, seed: int) -> "Changed":
        """What the state tells."""
        return cls([Trace.from_state(one, seed) for one in state.before], restored(state.since, seed))
