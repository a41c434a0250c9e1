"""The chronicle: what the categories of a head leave for people to see. A function of the inputs, like the head.

The head knows what a category is; this is what it was: who stands for it, when it was born and last seen, where its
centre has been.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Self

import msgspec
import numpy as np

from speciate.exemplars import Kept, Pictures, priority, vector_of
from speciate.head import Head
from speciate.stages import Record
from speciate.timeline import Timeline
from speciate.trace import Changed, Trace
from speciate.undoing import MOST_SINCE
from speciate.universe import Universe
from speciate_schemas import AlbumOptions, ChronicleState, ImageEvent, Observation

TRAIL = 8
"""Most places of a centre that are kept: the first, and the newest of those behind 1, 4, 16, … events."""
EXEMPLAR_BYTES = 400
"""About what an exemplar takes beside its features."""
NOTES = 256
"""Events that wait to be entered into the timeline together."""


class Album:
    """How chronicles are kept: the options, and who makes pictures, for all tasks of a process."""

    def __init__(self, options: AlbumOptions | None = None, pictures: Pictures | None = None) -> None:
        self.options = options or AlbumOptions()
        self.pictures = pictures if self.options.pictures else None

    def bytes_of(self, dimension: int, capacity: int) -> int:
        """About what a category takes that keeps so many exemplars."""
        pictures = min(capacity, self.options.pictures) if self.pictures else 0
        rows = capacity + trail(capacity)
        return 4 * dimension * rows + EXEMPLAR_BYTES * capacity + pictures * self.options.pixels**2 // 2


class Chronicle:
    """Keeps the traces of one head's categories, and the timeline. Changes with the head, on its thread."""

    def __init__(self, head: Head, album: Album) -> None:
        self._head = head
        self._album = album
        self._capacity = album.options.exemplars
        self._seed = album.options.seed
        self._notes: list[tuple[int, bool, int, float | None, float | None]] = []
        self._changed: Changed | None = None
        self._timeline = Timeline()
        self.traces = {one.id: Trace(one.id) for one in head.categories}
        """By the numbers of the categories."""
        self._fit_budget()

    @classmethod
    def from_state(cls, state: ChronicleState, head: Head, album: Album) -> Self:
        """The chronicle whose state this is; it goes on with the options there are now."""
        chronicle = cls(head, album)
        chronicle._seed = state.seed
        chronicle._timeline = Timeline(state.timeline)
        chronicle.traces |= {one.id: Trace.from_state(one, state.seed) for one in state.traces}
        if state.changed is not None:
            chronicle._changed = Changed.from_state(state.changed, state.seed)
        chronicle._capacity = min(chronicle._capacity, state.capacity)
        chronicle._shrink()
        return chronicle

    def state(self) -> ChronicleState:
        """Everything needed to go on exactly here; waits for pictures that are being made."""
        return ChronicleState(
            capacity=self._capacity,
            seed=self._seed,
            timeline=self.timeline.state(),
            traces=[trace.state() for trace in self.traces.values()],
            changed=None if self._changed is None else self._changed.state(),
        )

    @property
    def timeline(self) -> Timeline:
        """The stream so far."""
        self._enter_notes()
        return self._timeline

    def note(self, record: Record, category: int, *, birth: bool, margin: float | None) -> None:
        """An event was just learnt: the head is as it is right behind it."""
        event = record.event
        assert isinstance(event, Observation)  # noqa: S101  # nothing else is learnt
        sequence = record.sequence
        self._reach(sequence)
        if birth:
            self.traces[category] = Trace(category, sequence, event.time)
            self._fit_budget()
        trace = self.traces[category]
        trace.see(sequence, event.time, self._timeline.width)
        self._take_in(trace, record, event)
        if _is_power_of_four(trace.seen):
            trace.mark(sequence, self._head.centre(category), trail(self._capacity))
        self._notes.append((sequence, birth, self._head.size, margin, event.time))
        if len(self._notes) >= NOTES:
            self._enter_notes()

    def merge(self, keep: int, absorb: int, sequence: int) -> None:
        """One category was folded into another."""
        kept, gone = self.traces[keep], self.traces.pop(absorb)
        self._change([kept.copy(), gone], sequence)
        later = max(kept, gone, key=lambda one: -1 if one.last_sequence is None else one.last_sequence)
        kept.last_sequence, kept.last_time = later.last_sequence, later.last_time
        kept.seen += gone.seen
        for part, count in gone.activity.items():
            kept.activity[part] = kept.activity.get(part, 0) + count
        kept.sample = kept.sample.joined(gone.sample, self._capacity, self._album.options.pictures)
        kept.mark(sequence, self._head.centre(keep), trail(self._capacity))

    def forget(self, category: int, sequence: int) -> None:
        """A category was removed."""
        self._change([self.traces.pop(category)], sequence)

    def rename(self) -> None:
        """A category was renamed: that is what can be undone now."""
        self._changed = None

    def undo(self, shares: Sequence[int], sequence: int) -> None:
        """The last change was taken back; `shares` says to which of two merged ones each event since then went."""
        changed, self._changed = self._changed, None
        if changed is not None:
            self._bring_back(changed, shares, sequence)
        # A state that was learnt anew is saved without chronicles: nothing is left of what the head brings back.
        traces = {one.id: Trace(one.id) for one in self._head.categories} | self.traces
        self.traces = dict(sorted(traces.items()))
        self._fit_budget()
        self._count(sequence)

    def _bring_back(self, changed: Changed, shares: Sequence[int], sequence: int) -> None:
        """Have the traces again as they were, with what came since; where their centres were meanwhile nobody knows."""
        merged = self.traces.get(changed.before[0].id)
        self.traces |= {one.id: one for one in changed.before}
        pictured = {} if merged is None else {one.sequence: one for one in merged.exemplars}
        for event, share in zip(changed.since, shares, strict=True):
            owner = changed.before[share]
            owner.see(event.sequence, event.time, self._timeline.width)
            if owner.sample.wants(event.priority, self._capacity):
                one = pictured.get(event.sequence, event)
                owner.sample.add(one, self._capacity, self._album.options.pictures)
        for place in set(shares):
            moved = changed.before[place]
            moved.mark(sequence, self._head.centre(moved.id), trail(self._capacity))

    def _change(self, before: list[Trace], sequence: int) -> None:
        self._changed = Changed(before)
        self._count(sequence)

    def _enter_notes(self) -> None:
        """Enter what waits into the timeline."""
        if not self._notes:
            return
        sequences, births, categories, margins, times = zip(*self._notes, strict=True)
        self._timeline.note(
            np.array(sequences),
            np.array(births, dtype=np.int64),
            np.array(categories),
            np.array(margins, dtype=np.float64),
            np.array(times, dtype=np.float64),
        )
        self._notes.clear()

    def _count(self, sequence: int) -> None:
        """The number of categories is another one behind this control event."""
        self._reach(sequence)
        self.timeline.resize(sequence, self._head.size)

    def _take_in(self, trace: Trace, record: Record, event: Observation) -> None:
        """Keep an event, if it belongs to the sample, or if it came to a merged category that may be two again."""
        rank = priority(record.sequence, self._seed)
        wanted = trace.sample.wants(rank, self._capacity)
        merged = self._changed is not None and self._changed.before[0].id == trace.id
        if not wanted and not merged:
            return
        features = vector_of(record.features if isinstance(event, ImageEvent) else event.features)
        one = Kept(rank, record.sequence, event.id, event.stream, event.time, features)
        if merged:
            self._remember(one)
        if wanted:
            if isinstance(event, ImageEvent) and self._album.pictures and self._has_picture(trace, rank):
                one = msgspec.structs.replace(one, picture=self._album.pictures.make(event))
            trace.sample.add(one, self._capacity, self._album.options.pictures)

    def _has_picture(self, trace: Trace, rank: int) -> bool:
        return trace.sample.place(rank) < self._album.options.pictures

    def _remember(self, one: Kept) -> None:
        """The merged category got another event; a merge that the head cannot undo any more is none here either."""
        assert self._changed is not None  # noqa: S101  # the caller has looked
        if len(self._changed.since) < MOST_SINCE:
            self._changed.since.append(one)
        else:
            self._changed = None

    def _reach(self, sequence: int) -> None:
        while not self._timeline.reaches(sequence):
            self.timeline.widen()
            for trace in self._all_traces():
                trace.widen()

    def _all_traces(self) -> Iterable[Trace]:
        return [*self.traces.values(), *(self._changed.before if self._changed else [])]

    def _fit_budget(self) -> None:
        """With more categories each keeps fewer exemplars; never more again, so that the sample stays a fair one."""
        capacity, album = self._capacity, self._album
        while capacity > 1 and album.bytes_of(self._head.dimension, capacity) * len(self.traces) > album.options.bytes:
            capacity //= 2
        if capacity < self._capacity:
            self._capacity = capacity
            self._shrink()

    def _shrink(self) -> None:
        for trace in self._all_traces():
            trace.changed()
            trace.sample.shrink(self._capacity, self._album.options.pictures)
            trace.shorten(trail(self._capacity))


class Library:
    """The chronicles of a task: one for each of its heads."""

    def __init__(self, universe: Universe, album: Album, states: Mapping[str, ChronicleState]) -> None:
        self._universe = universe
        self._album = album
        self._chronicles = {
            stream: Chronicle.from_state(state, universe.of(stream), album) for stream, state in states.items()
        }

    def of(self, stream: str) -> Chronicle:
        """That of the head which decides on events of the stream; where all streams share one, it has no name."""
        name = stream if self._universe.per_stream else ""
        found = self._chronicles.get(name)
        if found is None:
            found = self._chronicles[name] = Chronicle(self._universe.of(stream), self._album)
        return found

    def states(self) -> dict[str, ChronicleState]:
        """Of each, by stream. One for every head, whether somebody has asked for it or not."""
        return {stream: self.of(stream).state() for stream in self._universe.streams}


def trail(capacity: int) -> int:
    """How many places of its centre a category keeps that keeps so many exemplars."""
    return min(TRAIL, max(2, capacity))


def _is_power_of_four(count: int) -> bool:
    return count & (count - 1) == 0 and count.bit_length() % 2 == 1
