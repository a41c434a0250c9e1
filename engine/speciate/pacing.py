"""Replaying a recording: as fast as possible, at a rate, or in its own time."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Sequence
from typing import Literal

from speciate.stages import Progress, Record, Source
from speciate_schemas import Position


class Pacer:
    """Releases records when they are due."""

    def __init__(self, pace: Literal["max", "original"] | float) -> None:
        self._pace = pace
        self._start: float | None = None
        self._first_time: float | None = None
        self._released = 0
        self._hurry = asyncio.Event()

    def hurry(self) -> None:
        """Release whatever is held at once."""
        self._hurry.set()

    async def release(self, records: Sequence[Record], *, unpaced_before: int) -> AsyncIterator[Sequence[Record]]:
        """The records in order, in pieces, each when its first record is due; the first ones not paced at all."""
        unpaced = sum(record.sequence < unpaced_before for record in records)
        place = len(records) if self._pace == "max" else unpaced
        if place:
            yield records[:place]
        while place < len(records):
            await self._wait_until(self._due(records[place]))
            end = place + 1
            now = time.perf_counter()
            self._released += 1
            while end < len(records) and self._due(records[end]) <= now:
                end += 1
                self._released += 1
            yield records[place:end]
            place = end

    def _due(self, record: Record) -> float:
        """When a record is to be released, on the monotonic clock; one without a time follows at once."""
        now = time.perf_counter()
        if self._start is None:
            self._start = now
        if not isinstance(self._pace, str):
            return self._start + self._released / self._pace
        observed = record.event.time if record.event is not None else None
        if observed is None or not math.isfinite(observed):
            return now
        if self._first_time is None:
            self._first_time = observed
        return self._start + observed - self._first_time

    async def _wait_until(self, due: float) -> None:
        delay = due - time.perf_counter()
        if delay > 0:
            try:
                async with asyncio.timeout(delay):
                    await self._hurry.wait()
            except TimeoutError:
                pass


class Paced:
    """A source whose records come when they are due; what is merged with it need not wait for them."""

    def __init__(self, source: Source, pace: Literal["original"] | float) -> None:
        self._source = source
        self._pacer = Pacer(pace)
        self._pieces: AsyncIterator[Sequence[Record]] | None = None
        self.replayable = source.replayable
        self.waited = source.waited
        self.unpaced_before = 0
        """Number of the first record that was not answered before: what was is not replayed in time again."""

    async def open(self, position: Position | None, sequence: int) -> Position | None:
        """See `Source`."""
        return await self._source.open(position, sequence)

    def expect(self, origins: Sequence[str]) -> None:
        """See `Source`."""
        self._source.expect(origins)

    async def read(self, max_events: int) -> Sequence[Record]:
        """See `Source`. Time that a record is held back for its pace was spent waiting."""
        began = time.perf_counter()
        while True:
            if self._pieces is None:
                waited = self._source.waited
                records = await self._source.read(max_events)
                if not records:
                    return ()
                self.waited += self._source.waited - waited
                began = time.perf_counter()
                self._pieces = self._pacer.release(records, unpaced_before=self.unpaced_before)
            piece = await anext(self._pieces, None)
            if piece is not None:
                self.waited += time.perf_counter() - began
                return piece
            self._pieces = None

    def stop(self) -> None:
        """See `Source`. What was read comes at once."""
        self._source.stop()
        self._pacer.hurry()

    def progress(self) -> Progress:
        """See `Source`."""
        return self._source.progress()

    async def close(self) -> None:
        """See `Source`."""
        await self._source.close()
