"""Steering: control events from outside into a pipeline whose source has no way of its own to take them.

The state store keeps them, numbered as they were sent. The pipeline gives each a place among the inputs and notes it
durably before it hands the event on. So the merged stream is a function of the input, the control events and their
places, and whoever reads it again gets the same records under the same numbers.
"""

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence

import msgspec

from speciate.config import Resolved
from speciate.errors import ConfigError, DecodeError, StateDamagedError
from speciate.looking import count_tasks
from speciate.parts import Parts
from speciate.stages import Progress, Record, Seat, Source, StateStore, Steerable, is_steerable
from speciate.threads import in_thread
from speciate_schemas import Control, Position, decode, encode

POLL_SECONDS = 0.2
"""How often new control events are looked for."""

ORIGIN = "controls@"
"""What the origin of a control event begins with; its number follows."""

AT_START: Position = ()
"""The position of a control event in front of the first record, where the source itself has none."""


class Steered:
    """A source with the control events of a store merged in.

    The position of a record is the source's own; how many control events came before it follows from its number. A
    read of the source that is under way when a control event comes is never cut off: what it brings comes behind.
    """

    def __init__(self, source: Source, store: Steerable) -> None:
        self._source = source
        self._store = store
        self.replayable = source.replayable
        self.waited = source.waited
        self._places: list[int] = []
        self._taken = 0
        self._waiting: deque[bytes] = deque()
        self._looked = 0.0
        self._sequence = 0
        self._position: Position = AT_START
        self._free_from = 0
        self._held: Sequence[Record] = ()
        self._reading: asyncio.Task[Sequence[Record]] | None = None
        self._placing: asyncio.Future[None] | None = None
        self._ended = self._stopping = False

    async def open(self, position: Position | None, sequence: int) -> Position | None:
        """See `Source`."""
        self._places = await in_thread(None, self._store.load_places)
        self._taken = bisect_left(self._places, sequence)
        sent = await in_thread(None, self._store.sent, 0)
        if len(sent) < len(self._places):
            raise StateDamagedError(
                f"{self._store.describe()} holds {len(sent)} control events, but {len(self._places)} were taken in: "
                "restore it from a backup, or start over with --fresh"
            )
        self._waiting = deque(sent[self._taken :])
        self._sequence = self._free_from = sequence
        opened = await self._source.open(position or None, sequence - self._taken)
        self._position = opened or AT_START
        if not self.replayable:
            # What was read before them is lost with the pipe, and nobody knows when as much will have come.
            self._forget_places()
        return opened

    def free_from(self, sequence: int) -> int:
        """Records before this one were answered before: control events without a place come behind them.

        Gives back the source's own number of the record.
        """
        self._free_from = sequence
        return sequence - bisect_left(self._places, sequence)

    def expect(self, origins: Sequence[str]) -> None:
        """See `Source`. Control events have their places."""
        self._source.expect([origin for origin in origins if not origin.startswith(ORIGIN)])

    async def read(self, max_events: int) -> Sequence[Record]:
        """See `Source`."""
        if self._stopping and self.replayable:
            # What is held is read again by the next run; of a pipe it could not be.
            return ()
        while True:
            if self._may_place and asyncio.get_running_loop().time() - self._looked >= POLL_SECONDS:
                await self._look()
            if self._may_place and self._waiting:
                await self._place(max_events)
            if controls := self._due(max_events):
                return controls
            if self._held:
                return self._hand_out(max_events)
            if self._ended:
                return ()
            await self._await_more(max_events)

    def stop(self) -> None:
        """See `Source`. Control events without a place are for the next run."""
        self._stopping = True
        self._source.stop()

    def progress(self) -> Progress:
        """See `Source`."""
        return self._source.progress()

    async def close(self) -> None:
        """See `Source`."""
        if self._reading is not None:
            self._reading.cancel()
        # Places are waited for: once the store is let go of, another process may note its own.
        under_way = [one for one in (self._reading, self._placing) if one is not None]
        await asyncio.gather(*under_way, return_exceptions=True)
        await self._source.close()

    @property
    def _may_place(self) -> bool:
        """Whether a control event without a place may come next."""
        return self._taken == len(self._places) and self._sequence >= self._free_from and not self._stopping

    async def _look(self) -> None:
        """Take note of what was sent meanwhile."""
        self._waiting += await in_thread(None, self._store.sent, self._taken + len(self._waiting))
        self._looked = asyncio.get_running_loop().time()

    async def _place(self, most: int) -> None:
        """Give the next control events the next places."""
        count = min(most, len(self._waiting))
        places = [*self._places, *range(self._sequence, self._sequence + count)]
        self._placing = in_thread(None, self._store.save_places, places)
        await asyncio.shield(self._placing)
        self._places = places

    def _due(self, most: int) -> list[Record]:
        """The control events whose places are next."""
        controls: list[Record] = []
        while len(controls) < most and self._next_place == self._sequence:
            controls.append(self._control(self._waiting.popleft()))
            self._taken += 1
            self._sequence += 1
        return controls

    @property
    def _next_place(self) -> int | None:
        return self._places[self._taken] if self._taken < len(self._places) else None

    def _control(self, data: bytes) -> Record:
        event, problem = None, None
        try:
            event = decode(data, Control)
        except msgspec.DecodeError as error:
            problem = DecodeError(str(error))
        return Record(
            sequence=self._sequence,
            position=self._position,
            origin=f"{ORIGIN}{self._taken}",
            nbytes=len(data),
            event=event,
            original=data,
            error=problem,
        )

    def _hand_out(self, most: int) -> Sequence[Record]:
        """Records of the source, no further than the next control event."""
        if self._next_place is not None:
            most = min(most, self._next_place - self._sequence)
        records, self._held = self._held[:most], self._held[most:]
        for record in records:
            record.sequence += self._taken
        self._sequence += len(records)
        self._position = records[-1].position
        return records

    async def _await_more(self, most: int) -> None:
        """Wait for records of the source, but not so long that a control event would wait."""
        self._reading = self._reading or asyncio.create_task(self._read(most))
        await asyncio.wait({self._reading}, timeout=POLL_SECONDS if self._may_place else None)
        self.waited = self._source.waited
        if not self._reading.done():
            return
        self._held, self._reading = self._reading.result(), None
        if not self._held:
            await self._end()

    async def _read(self, most: int) -> Sequence[Record]:
        return await self._source.read(most)

    async def _end(self) -> None:
        """The source has ended: what was sent by now still comes, unless nothing more is wanted."""
        self._ended = True
        if self._sequence >= self._free_from and not self._stopping:
            # An input that was cut behind what is answered no longer reaches them.
            self._forget_places()
            await self._look()

    def _forget_places(self) -> None:
        """Let control events that have not come yet come next."""
        del self._places[self._taken :]


def steer(parts: Parts, resolved: Resolved) -> None:
    """Let a task's source take control events from its store, if it takes none by itself."""
    if not resolved["source"].provider.send and resolved.decides and parts.store and is_steerable(parts.store):
        parts.source = Steered(parts.source, parts.store)


async def send_control(resolved: Resolved, number: int, control: Control) -> str:
    """Send a control event to the task of a number, which may be running, here or elsewhere; where it is.

    Raises:
        ConfigError: if the pipeline takes none, or has no such task.
    """
    source = resolved["source"]
    if source.provider.send is not None:
        return await source.provider.send(source.options, number, control)
    count = await count_tasks(resolved)
    if not 0 <= number < count:
        raise ConfigError(f"there is no task {number}: the tasks are numbered from 0 to {count - 1}")
    store = _store(resolved, Seat(number, count))
    if not resolved.decides or store is None:
        raise ConfigError(uncontrollable(resolved))
    try:
        place = await in_thread(None, store.send, encode(control))
    finally:
        await in_thread(None, store.close)
    return f"{store.describe()} as {ORIGIN}{place}"


def uncontrollable(resolved: Resolved) -> str:
    """Why no category of the pipeline can be changed by hand; empty if it can."""
    source = resolved["source"]
    if not resolved.decides:
        return "the pipeline has no [density]: there are no categories to be changed"
    if source.provider.send is not None:
        return "" if source.provider.unsendable is None else source.provider.unsendable(source.options)
    if _store(resolved, Seat()) is not None:
        return ""
    return (
        f"source {source.name!r} takes no control events from outside, and [store] {resolved['store'].name!r} keeps "
        f'none: put them into the input itself, as events such as {{"type": "rename.v1", "id": "…", "category": 1, '
        '"label": "…"}'
    )


def _store(resolved: Resolved, seat: Seat) -> Steerable | None:
    """The store that keeps the control events of a task, if there is one that does."""
    if "store" not in resolved.sections:
        return None
    store: StateStore = resolved["store"].create(seat)
    return store if is_steerable(store) else None
