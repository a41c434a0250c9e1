"""The flow: source → decoder → encoder → head → sink, each a task of its own, joined by bounded queues.

The event loop only hands batches on; reading, encoding, deciding and writing happen on threads. A slow stage makes
the ones before it wait, so memory stays flat. Order is kept from end to end.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import msgspec
import numpy as np

from speciate.admission import limit_size
from speciate.batching import EncoderStage
from speciate.cadence import Cadence
from speciate.channel import Channel, Overflow
from speciate.commit import CommitPoint, Committer
from speciate.errors import StateMismatchError, UnknownCategoryError
from speciate.instruments import TaskInstruments
from speciate.notices import Notices
from speciate.outcomes import Outcome
from speciate.parts import Parts
from speciate.restore import Start
from speciate.stages import Record
from speciate.task import Task
from speciate.threads import P, T, in_thread
from speciate.timing import LatencyHistogram, StageTimes
from speciate.tracing import span
from speciate_schemas import PipelineConfig, Tally

EMISSIONS_WAITING = 2


class Emission(NamedTuple):
    """A batch of outcomes on its way to the sink, and the commit that is due behind it."""

    outcomes: list[Outcome]
    received: list[float]
    point: CommitPoint | None
    before: Tally
    after: Tally


class Flow:
    """Moves events from an opened source to an opened sink until the source ends."""

    def __init__(
        self,
        config: PipelineConfig,
        parts: Parts,
        start: Start,
        committer: Committer,
        instruments: TaskInstruments,
        *,
        tell: Callable[[Sequence[Outcome]], None] | None = None,
    ) -> None:
        self._tell = tell
        self._notices = Notices()
        self._run = config.run
        self._parts = parts
        self.start = start
        self.task = start.task
        self._committer = committer
        self._instruments = instruments
        self._position = start.commit.source
        self._cadence = Cadence(
            config.commit,
            committed=start.commit.sequence,
            snapshot=start.snapshot_sequence,
            always_snapshot=not parts.source.replayable,
        )
        self._arrived = self._channel(config.run.overflow)
        self._ready = self._arrived if parts.encoder is None else self._channel("block")
        self._encoder = parts.encoder and EncoderStage(
            parts.encoder, config.run, self._arrived, self._ready, instruments.encoder_batches
        )
        self._emissions: asyncio.Queue[Emission | None] = asyncio.Queue(EMISSIONS_WAITING)
        self._head_thread = ThreadPoolExecutor(1, thread_name_prefix="head")
        self._last_read = (start.task.sequence, start.commit.source)
        self._passed = start.task.sequence
        self.times = {
            "source": StageTimes(),
            "decoder": self._encoder.decoding if self._encoder else StageTimes(),
            "encoder": self._encoder.encoding if self._encoder else StageTimes(),
            "head": StageTimes(),
            "sink": StageTimes(),
        }
        instruments.begin(self.times)
        self.latency = LatencyHistogram()
        self._stopping = False
        self.answered = 0
        self.began = time.perf_counter()

    @property
    def tally(self) -> Tally:
        """What became of all inputs since the very beginning, with those dropped that no decision has passed yet."""
        dropped = self.start.commit.tally.dropped + self._arrived.dropped
        return msgspec.structs.replace(self.task.tally, dropped=dropped)

    @property
    def to_refold(self) -> int:
        """How many inputs that were answered before a restart must still come by; 0 once it is caught up with."""
        return max(0, self.start.replay.until - self._passed)

    def stop(self) -> None:
        """Read no more; what was read is still decided, committed and saved."""
        self._parts.source.stop()
        self._stopping = True

    async def ask(self, function: Callable[[Task], T]) -> T:
        """Look at the task between two batches; quickly, for the stream waits meanwhile.

        Raises:
            UnknownCategoryError: if there are no categories, or none any more.
        """
        if not isinstance(self.task, Task):
            raise UnknownCategoryError("this pipeline hands events on: it has no categories")
        try:
            answer = in_thread(self._head_thread, function, self.task)
        except RuntimeError as error:  # its thread is shut down
            raise UnknownCategoryError("the task has ended here: ask again, or look at its state") from error
        return await answer

    async def run(self) -> None:
        """Run the stages until the source ends or the first of them fails."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._read())
                if self._encoder:
                    group.create_task(self._encoder.run())
                group.create_task(self._decide())
                group.create_task(self._emit())
        finally:
            # However it ends: who looks for the reason of a failure wants to know of what went before it.
            self._notices.close()
            # Off the loop: a batch under way may take long, and signals must be heard meanwhile.
            await asyncio.to_thread(self._head_thread.shutdown)
            if self._encoder:
                await asyncio.to_thread(self._encoder.shutdown)

    def _channel(self, overflow: Overflow) -> Channel:
        run = self._run
        return Channel(
            max_events=run.queue_events,
            max_bytes=run.queue_bytes,
            overflow=overflow,
            lossless_before=self.start.replay.until,
        )

    async def _read(self) -> None:
        """Source → queue."""
        times = self.times["source"]
        while True:
            self._parts.source.expect(await self.start.replay.announce(self._run.batch_events))
            records = await self._read_measured()
            if not records:
                break
            await self.start.replay.match(records)
            for record in records:
                if record.answer is None:
                    limit_size(record, self._run.max_event_bytes)
            self._last_read = (records[-1].sequence + 1, records[-1].position)
            now = time.perf_counter()
            for record in records:
                record.received = now
            with times.measure("backpressured"):
                await self._arrived.put(records)
        self._arrived.close()

    async def _read_measured(self) -> Sequence[Record]:
        times, source = self.times["source"], self._parts.source
        waited = source.waited
        with times.under_way("idle") as start:
            records = await source.read(self._run.batch_events)
        idle = source.waited - waited
        times.idle += idle
        times.busy += max(0.0, time.perf_counter() - start - idle)
        return records

    async def _decide(self) -> None:
        """Queue → head → outcomes, with a commit point wherever one is due."""
        times = self.times["head"]
        while True:
            with times.measure("idle"):
                left = self._cadence.time_left(self.task.sequence)
                records = await self._ready.get(self._run.batch_events, linger=self._linger, patience=left)
            if not records and self._ready.drained:
                break
            with times.measure("busy"), span("head", events=len(records)):
                emission = await self._fold(records)
            with times.measure("backpressured"):
                await self._emissions.put(emission)
        before = self.task.tally
        point = await self._last_point()
        await self._emissions.put(Emission([], [], point, before, self.task.tally))
        await self._emissions.put(None)

    async def _fold(self, records: list[Record]) -> Emission:
        answered = [record for record in records if record.sequence < self.start.replay.until]
        if answered:
            await self._refold(answered)
        new, before = records[len(answered) :], self.task.tally
        outcomes = await self._in_head_thread(self.task.fold, new) if new else []
        after = self.task.tally
        if records:
            self._position, self._passed = records[-1].position, records[-1].sequence + 1
            self._instruments.head_batches.observe(len(records))
        received = [record.received for record in new]
        sequence = self.task.sequence
        if not self._cadence.due(sequence):
            return Emission(outcomes, received, None, before, after)
        snapshot = self._cadence.snapshot_due(sequence, saving=self._committer.saving)
        return Emission(outcomes, received, await self._point(snapshot=snapshot), before, after)

    async def _refold(self, answered: list[Record]) -> None:
        """Fold what was answered before; the last of it must end where the outputs say the input had come to."""
        matched = [record for record in answered if record.answer is not None]
        answers = [record.answer for record in matched if record.answer is not None]
        assert isinstance(self.task, Task)  # noqa: S101  # only a head's answers are folded again
        await self._in_head_thread(self.task.refold, matched, answers)
        self._instruments.refolded.add(len(matched))
        last, commit = answered[-1], self.start.commit
        if self._parts.answers.transactional:
            # Its answers name their inputs, each of which was just read; logs that are new are no change of those.
            return
        if last.sequence + 1 == commit.sequence and last.position != commit.source:
            raise StateMismatchError(
                f"record {last.sequence} ({last.origin}) ends at {last.position}, but when it was answered it ended at "
                f"{commit.source}: the input was changed since; restore it or start over with --fresh"
            )

    async def _last_point(self) -> CommitPoint | None:
        """The end of the run is committed and saved, unless it already is."""
        until = self.start.replay.until
        sequence, position = self._last_read
        if sequence < until:
            # Stopped while catching up: what was committed before is all there is to commit.
            if self._stopping:
                return None
            raise StateMismatchError(
                f"the input ends at record {sequence}, but {until} are answered already: it was cut since; "
                "restore it or start over with --fresh"
            )
        self._position = position
        if sequence > self.task.sequence:
            self.task.skip_to(sequence)
        return await self._point(snapshot=True) if self._cadence.unsaved(sequence) else None

    async def _point(self, *, snapshot: bool) -> CommitPoint:
        task = self.task
        state = await self._in_head_thread(task.state) if snapshot and isinstance(task, Task) else None
        self._cadence.note(self.task.sequence, snapshot=snapshot)
        return CommitPoint(self.task.sequence, self._position, self.task.tally, state)

    async def _in_head_thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The head changes on one thread only."""
        return await in_thread(self._head_thread, function, *args, **kwargs)

    async def _emit(self) -> None:
        """Outcomes → sinks, and the commits."""
        times = self.times["sink"]
        while True:
            with times.measure("idle"):
                emission = await self._emissions.get()
            if emission is None:
                break
            with times.measure("busy"), span("sink", events=len(emission.outcomes)):
                await self._write(emission)
        await self._committer.settle()

    async def _write(self, emission: Emission) -> None:
        if emission.outcomes:
            await self._committer.write(emission.outcomes)
            latencies = time.perf_counter() - np.array(emission.received)
            self.latency.add(latencies)
            self._instruments.latency.observe_many(latencies)
            self.answered += len(emission.outcomes)
            self._notices.note(emission.outcomes)
            if self._tell is not None:
                self._tell(emission.outcomes)
        self._instruments.answered(emission.before, emission.after, emission.outcomes)
        if emission.point is not None:
            await self._committer.commit(emission.point)

    @property
    def _linger(self) -> float:
        """How long the head waits for company; behind an encoder not at all: that has made the batch."""
        return 0.0 if self._encoder else self._run.linger_ms / 1000.0
