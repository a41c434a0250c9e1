"""The queue between two stages: bounded in events and bytes, filled and emptied in batches."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Literal

from speciate.stages import Record
from speciate_schemas import Control

Overflow = Literal["block", "drop-oldest", "drop-newest"]


class Channel:
    """Carries records from one producer to one consumer, in order.

    A full channel makes the producer wait, or drops and counts, as `overflow` says. The consumer takes as many as
    have gathered: batches form under load and nothing waits for company longer than the linger time.
    """

    def __init__(
        self, *, max_events: int, max_bytes: int, overflow: Overflow = "block", lossless_before: int = 0
    ) -> None:
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._overflow = overflow
        # Records answered before a restart must all come by again, however fast they are read.
        self._lossless_before = lossless_before
        self._records: deque[Record] = deque()
        self._bytes = 0
        self._closed = False
        self._blocked = False
        self._filled = asyncio.Event()
        self._room = asyncio.Event()
        self.dropped = 0
        """Records dropped because the channel was full."""

    def __len__(self) -> int:
        return len(self._records)

    @property
    def drained(self) -> bool:
        """True once nothing follows and nothing is left."""
        return self._closed and not self._records

    async def put(self, records: Sequence[Record]) -> None:
        """Add records in order; waits for room where the overflow policy says so."""
        for record in records:
            if self._full(record):
                overflow = "block" if self._records[0].sequence < self._lossless_before else self._overflow
                if overflow == "drop-newest" and not _by_hand(record):
                    self.dropped += 1
                    continue
                if overflow == "drop-oldest":
                    self._drop_until_room(record)
                await self._wait_for_room(record)
            self._records.append(record)
            self._bytes += record.nbytes
            self._filled.set()

    async def get(self, max_events: int, *, linger: float, patience: float | None = None) -> list[Record]:
        """The next records, at most `max_events`.

        Waits for the first one, at most `patience` seconds, then at most `linger` seconds for others. Empty when the
        time is over, or when the channel is closed and drained.
        """
        if not await self._wait_filled(patience):
            return []
        loop = asyncio.get_running_loop()
        deadline = loop.time() + linger
        # A producer that waits for room brings nobody more, so nobody is waited for.
        while linger and len(self._records) < max_events and not self._closed and not self._blocked:
            self._filled.clear()
            if not await self._wait_filled(deadline - loop.time(), at_least=len(self._records) + 1):
                break
        return self._take(max_events)

    def close(self) -> None:
        """Say that nothing follows."""
        self._closed = True
        self._filled.set()

    def _take(self, max_events: int) -> list[Record]:
        taken = [self._records.popleft() for _ in range(min(max_events, len(self._records)))]
        self._bytes -= sum(record.nbytes for record in taken)
        if not self._records and not self._closed:
            self._filled.clear()
        self._room.set()
        return taken

    async def _wait_filled(self, patience: float | None, at_least: int = 1) -> bool:
        if len(self._records) >= at_least or self._closed:
            return bool(self._records)
        self._filled.clear()
        try:
            async with asyncio.timeout(patience):
                await self._filled.wait()
        except TimeoutError:
            return False
        return bool(self._records)

    def _full(self, record: Record, aside: int = 0) -> bool:
        # A record larger than the whole channel still passes, alone.
        count = len(self._records) + aside
        too_many = count >= self._max_events
        too_much = self._bytes + record.nbytes > self._max_bytes
        return bool(count) and (too_many or too_much)

    def _drop_until_room(self, record: Record) -> None:
        kept: list[Record] = []
        while self._records and self._full(record, len(kept)):
            oldest = self._records.popleft()
            if _by_hand(oldest):
                kept.append(oldest)
            else:
                self._bytes -= oldest.nbytes
                self.dropped += 1
        self._records.extendleft(reversed(kept))

    async def _wait_for_room(self, record: Record) -> None:
        try:
            while self._full(record):
                self._blocked = True
                self._filled.set()
                self._room.clear()
                await self._room.wait()
        finally:
            self._blocked = False


def _by_hand(record: Record) -> bool:
    """Control events are never dropped: somebody relies on what they say."""
    return isinstance(record.event, Control)
