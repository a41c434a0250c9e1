"""Reads the logs of one task: a consumer of its own, without a group, exactly where it is told to.

Every log has a small buffer here, and one fetch of it waits inside aiokafka: a log that nobody takes from holds so much
memory and no more, while another one is waited for.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from speciate.errors import AwayError, SourceError
from speciate_plugins.kafka.connection import KafkaConnection, client_arguments
from speciate_plugins.kafka.failures import telling
from speciate_plugins.kafka.positions import Log
from speciate_plugins.kafka.remedies import START_OVER
from speciate_plugins.kafka.salvage import salvage
from speciate_plugins.kafka.stopping import STOP_SECONDS, stop_client
from speciate_plugins.kafka.watchdog import Watchdog

FETCH_BYTES = 16 << 20
"""About as much as is fetched and not yet taken, over all logs; twice that with the buffers. A message larger than its
share comes alone."""
LOG_FETCH_BYTES = (64 << 10, 2 << 20)
"""Least and most of it for one log."""
FETCH_WAIT_MS = 200
"""How long a broker holds back its answer while there is nothing to read. aiokafka asks a broker one thing at a time:
so long one log can wait, that has more to give, for another that has not."""
FILL_RECORDS = 512
"""Most messages taken over from aiokafka at once: unpacking them holds up the loop."""
LEAST_SHARE = 16
"""Of them for one log, however many logs there are."""


class Span(NamedTuple):
    """What there is of a log."""

    first: int
    """The oldest offset that is kept."""
    end: int
    """The offset behind the last message that is committed: an open transaction holds it back."""


class TaskReader:
    """Fixed logs, and in `held` the messages of each that were fetched and not taken yet."""

    def __init__(self, options: KafkaConnection, logs: Iterable[Log], *, stuck_ms: int) -> None:
        from aiokafka import AIOKafkaConsumer, TopicPartition  # noqa: PLC0415 - only who uses Kafka has it

        self._options = options
        self._names = {log: TopicPartition(*log) for log in sorted(logs)}
        self.held: dict[Log, deque[Any]] = {log: deque() for log in self._names}
        self.places = dict.fromkeys(self._names, 0)
        """How far each log was gone through, markers and aborted messages included; behind what is held of it."""
        self.spans: dict[Log, Span] = {}
        """What there was when opening."""
        least, most = LOG_FETCH_BYTES
        self._log_fetch_bytes = max(least, min(most, FETCH_BYTES // len(self._names)))
        self._consumer = AIOKafkaConsumer(
            **client_arguments(options),
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level="read_committed",
            fetch_max_wait_ms=FETCH_WAIT_MS,
            fetch_max_bytes=FETCH_BYTES,
            max_partition_fetch_bytes=self._log_fetch_bytes,
        )
        self._failed = False
        self._watchdog = Watchdog(stuck_ms / 1000, self._ends)

    async def open(self) -> None:
        """Connect and look what there is."""
        with telling("read the logs", self._options):
            async with asyncio.timeout(self._options.request_timeout_ms / 1000):
                await self._consumer.start()
        await self.look()

    async def look(self) -> None:
        """Ask anew what there is of each log."""
        names = list(self._names.values())
        with telling("ask where the logs begin and end", self._options):
            firsts = await self._consumer.beginning_offsets(names)
            ends = await self._consumer.end_offsets(names)
        self.spans = {log: Span(firsts[name], ends[name]) for log, name in self._names.items()}

    async def at_time(self, milliseconds: int) -> dict[Log, int]:
        """In each log the offset of the first message not older than this; the end if there is none."""
        with telling("ask for the offsets of a time", self._options):
            found = await self._consumer.offsets_for_times(dict.fromkeys(self._names.values(), milliseconds))
        return {
            log: self.spans[log].end if found[name] is None else min(found[name].offset, self.spans[log].end)
            for log, name in self._names.items()
        }

    def assign(self, offsets: Mapping[Log, int]) -> None:
        """Begin to fetch, each log from its offset."""
        # Without a pause between the two: a log without an offset would be an error to aiokafka.
        self._consumer.assign(list(self._names.values()))
        for log, offset in offsets.items():
            self.seek(log, offset)

    def seek(self, log: Log, offset: int) -> None:
        """Go on elsewhere in one log."""
        self.held[log].clear()
        self.places[log] = offset
        self._consumer.seek(self._names[log], offset)

    def highwater(self, log: Log) -> int:
        """The end of a log as the last fetch told it; uncommitted messages count."""
        known: int | None = self._consumer.highwater(self._names[log])
        return max(known or 0, self.spans[log].end)

    async def fill(self, logs: Sequence[Log], seconds: float) -> Mapping[Log, int]:
        """Take over what came of these logs, of which nothing is held; wait up to `seconds` for the first message.

        Gives back ends of logs that gave nothing, if they were just learnt: see `Watchdog`.

        Raises:
            AwayError: if it is time to connect anew.
            SourceError: if a log no longer has what we want next.
        """
        from aiokafka.errors import OffsetOutOfRangeError  # noqa: PLC0415

        if self._failed:
            raise AwayError("reading from Kafka failed before: it must be opened anew")
        # Until it went well: after an error aiokafka may have lost messages, and goes on behind them.
        self._failed = True
        names = [self._names[log] for log in logs]
        with telling("read from Kafka", self._options):
            try:
                got = await self._get(names, seconds)
            except OffsetOutOfRangeError as error:
                await self._tell_out_of_range(error.args[0])
                raise
            except UnicodeDecodeError:
                # The name of a header. What the other logs gave is gone with it, so all are read again.
                got = {self._names[log]: await self._salvage(log) for log in logs}
            for log, name in zip(logs, names, strict=True):
                self.places[log] = await self._consumer.position(name)
        self._failed = False
        for log, messages in got.items():
            self.held[Log(*log)].extend(messages)
        self._watchdog.heard(log for log in logs if self.held[log])
        return await self._watchdog.missed({log: self.places[log] for log in logs if not self.held[log]})

    async def _get(self, names: Sequence[Any], seconds: float) -> dict[Any, Sequence[Any]]:
        """A share of what came of each; asked for at once, the first would give all it has and the others nothing."""
        share = max(LEAST_SHARE, FILL_RECORDS // len(names))
        got: dict[Any, Sequence[Any]] = {}
        for name in names:
            got |= await self._consumer.getmany(name, timeout_ms=0, max_records=share)
        if seconds and not got:
            got = await self._consumer.getmany(*names, timeout_ms=int(seconds * 1000), max_records=FILL_RECORDS)
        return got

    async def _salvage(self, log: Log) -> Sequence[Any]:
        """What comes next in a log of which nothing is held, however its headers are called."""
        client: Any = self._consumer._client  # noqa: SLF001 - aiokafka has no other way to a message it cannot unpack
        found = await salvage(client, log, self.places[log], max_messages=FILL_RECORDS, max_bytes=self._log_fetch_bytes)
        self._consumer.seek(self._names[log], found.place)
        return found.messages

    async def _ends(self, logs: Iterable[Log]) -> Mapping[Log, int]:
        with telling("ask where the logs end", self._options):
            ends = await self._consumer.end_offsets([self._names[log] for log in logs])
        return {Log(*name): end for name, end in ends.items()}

    async def _tell_out_of_range(self, wanted: Mapping[Any, int]) -> None:
        await self.look()
        for name, offset in wanted.items():
            check_within(Log(*name), offset, self.spans[Log(*name)])

    async def close(self) -> None:
        """Let go; never hangs."""
        self._watchdog.close()
        await stop_client(self._consumer, STOP_SECONDS)


def check_within(log: Log, offset: int, span: Span) -> None:
    """Check that a log still has what comes at an offset.

    Raises:
        SourceError: if it was deleted, or the log is another one than it was.
    """
    if offset < span.first:
        raise SourceError(
            f"{log}: offset {offset} is needed next, but the oldest that is kept is {span.first}: it expired; restore "
            f"the topic, or {START_OVER}; raise its retention.ms so that it does not happen again"
        )
    if offset > span.end:
        raise SourceError(
            f"{log}: offset {offset} is needed next, but the log ends at {span.end}: the topic was deleted and made "
            f"anew, or the cluster lost messages; restore it, or {START_OVER}"
        )
