"""Reads partitions as far as they are committed: from a place on, up to a place, or backwards for the last of a kind.

Offsets have gaps (markers of transactions, aborted records, compaction), so the last record is not at the last offset:
one looks at the last few offsets, then at twice as many.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self, TypeVar

from speciate.errors import AwayError, ConfigError, StateMismatchError
from speciate_plugins.kafka.connection import KafkaConnection, client_arguments
from speciate_plugins.kafka.failures import telling
from speciate_plugins.kafka.positions import Log
from speciate_plugins.kafka.stopping import STOP_SECONDS, stop_client

PIECE = 1024
FIRST_LOOK = 64
"""Offsets to look at first: a commit's end is behind at most a marker and what was aborted since."""
FETCH_BYTES = 8 << 20
POLL_MS = 50
FOLLOW_MS = 500

FoundT = TypeVar("FoundT")


class LogReader:
    """Reads one partition at a time. An asynchronous context manager; what it yields are records of aiokafka.

    Unless `committed`, it also sees what is in transactions that are open or were aborted.
    """

    def __init__(self, options: KafkaConnection, *, committed: bool = True) -> None:
        self._options = options
        self._isolation = "read_committed" if committed else "read_uncommitted"
        self._patience = options.request_timeout_ms / 1000
        self._consumer: Any = None

    async def __aenter__(self) -> Self:
        from aiokafka import AIOKafkaConsumer  # noqa: PLC0415

        with telling("read", self._options):
            self._consumer = AIOKafkaConsumer(
                **client_arguments(self._options),
                enable_auto_commit=False,
                auto_offset_reset="none",
                isolation_level=self._isolation,
                max_partition_fetch_bytes=FETCH_BYTES,
            )
            try:
                async with asyncio.timeout(self._patience):
                    await self._consumer.start()
            except BaseException:
                await stop_client(self._consumer, STOP_SECONDS)
                raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await stop_client(self._consumer, STOP_SECONDS)

    async def bounds(self, logs: Iterable[Log]) -> dict[Log, tuple[int, int]]:
        """The oldest offset there is and the one behind the last record that we see, of each log.

        Committed records behind the first one of an open transaction are not seen before that has ended.
        """
        partitions = [_partition(log) for log in logs]
        async with self._telling("find the ends of", partitions[0].topic):
            there = await self._consumer.topics()
            for topic in sorted({partition.topic for partition in partitions} - there):
                # To ask for its ends would wait long, or even create it.
                raise ConfigError(
                    f"topic {topic!r} does not exist, or we may not see it: run `speciate topics create CONFIG`"
                )
            first = await self._consumer.beginning_offsets(partitions)
            end = await self._consumer.end_offsets(partitions)
        return {Log(*one): (first[one], end[one]) for one in partitions}

    async def read(self, log: Log, start: int, end: int | None = None) -> AsyncIterator[Sequence[Any]]:
        """The records at offsets from `start` to before `end`, in pieces that are not empty; without end it waits on.

        Raises:
            StateMismatchError: if the log does not reach back to `start`.
            AwayError: if it does not get on although there is more.
        """
        partition = _partition(log)
        self._consumer.assign([partition])
        self._consumer.seek(partition, start)
        place, moved = start, time.monotonic()
        while end is None or place < end:
            records = await self._some(partition, start, POLL_MS if end is not None else FOLLOW_MS)
            former, place = place, await self._place(partition)
            if place != former:
                moved = time.monotonic()
            elif time.monotonic() - moved > self._patience:
                await self._check_idle(log, place, end)
                moved = time.monotonic()
            if end is not None:
                records = [record for record in records if record.offset < end]
            if records:
                yield records

    async def last(self, log: Log, wanted: Callable[[Any], FoundT | None], look: int = FIRST_LOOK) -> FoundT | None:
        """What `wanted` makes of the last committed record that it does not give None for.

        `look` is how many offsets to look at first.
        """
        first, behind = (await self.bounds([log]))[log]
        while behind > first:
            start = max(first, behind - look)
            found = None
            async for records in self.read(log, start, behind):
                for record in records:
                    one = wanted(record)
                    found = found if one is None else one
            if found is not None:
                return found
            behind, look = start, look * 2
        return None

    async def _some(self, partition: Any, start: int, timeout_ms: int) -> Sequence[Any]:
        from aiokafka.errors import OffsetOutOfRangeError  # noqa: PLC0415

        log = Log(*partition)
        with telling(f"read {log}", self._options, log.topic):
            try:
                fetched = await self._consumer.getmany(partition, timeout_ms=timeout_ms, max_records=PIECE)
            except OffsetOutOfRangeError as error:
                first, end = (await self.bounds([log]))[log]
                raise StateMismatchError(
                    f"topic {log.topic}, partition {log.partition}, holds offsets {first} to {end}, but those from "
                    f"{start} on are needed: raise its retention.ms, restore it, or start over with new topics"
                ) from error
        records: Sequence[Any] = fetched.get(partition, ())
        return records

    async def _check_idle(self, log: Log, place: int, end: int | None) -> None:
        """A consumer can sit still without a word: is there nothing to read, or do we just not get it?"""
        if end is None:
            _, end = (await self.bounds([log]))[log]
        if end > place:
            raise AwayError(f"{log} gave nothing behind offset {place} for {self._patience:g} s, but it ends at {end}")

    async def _place(self, partition: Any) -> int:
        async with self._telling("read", partition.topic):
            place: int = await self._consumer.position(partition)
        return place

    @asynccontextmanager
    async def _telling(self, doing: str, topic: str) -> AsyncIterator[None]:
        with telling(f"{doing} {topic}", self._options, topic):
            async with asyncio.timeout(self._patience):
                yield


def _partition(log: Log) -> Any:
    from aiokafka import TopicPartition  # noqa: PLC0415

    return TopicPartition(*log)
