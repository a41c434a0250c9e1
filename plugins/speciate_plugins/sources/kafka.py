"""Source `kafka`: the messages of Kafka's topics, one or more partitions of them, in one order."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from speciate.errors import SourceError, StateMismatchError
from speciate.hooks import Provider, hookimpl
from speciate.logs import get_logger
from speciate.stages import Progress, Record, Seat, Share, Source
from speciate_plugins.kafka.backlog import count_behind, count_tasks
from speciate_plugins.kafka.beginning import first_offsets, kept_offsets
from speciate_plugins.kafka.control import send, unsendable
from speciate_plugins.kafka.deciding import DECIDED_SECONDS, wait_until_decided
from speciate_plugins.kafka.logs import TaskReader
from speciate_plugins.kafka.membership import Membership
from speciate_plugins.kafka.options import KafkaSourceOptions, read_start
from speciate_plugins.kafka.order import ByTime, Expectations, Turns
from speciate_plugins.kafka.positions import Log, Places, read_origin
from speciate_plugins.kafka.probing import probe
from speciate_plugins.kafka.records import make_record
from speciate_plugins.kafka.remedies import START_OVER
from speciate_plugins.kafka.seating import TaskLogs, choose_logs, selection_of
from speciate_plugins.kafka.topics import count_partitions
from speciate_schemas import Position

WAIT_SECONDS = 0.1
"""Longest one look for messages waits, so that the wish to stop is noticed soon."""
SLICE_SECONDS = 0.002
"""Longest that decoding goes on before the loop, and with it the heartbeats, has its turn."""

log = get_logger(__name__)


class KafkaSource:
    """Reads the logs of one task. Its position is the next offset of each of them."""

    replayable = True

    def __init__(self, options: KafkaSourceOptions, seat: Seat | None = None) -> None:
        self.waited = 0.0
        self._options = options
        self._seat = seat or Seat()
        # For the sink, which moves the group's offsets along in its transactions.
        self._seat.common["kafka group", frozenset(options.servers)] = options.group
        self._stopping = False
        self._reader: TaskReader | None = None
        self._progress = Progress(0, None, "records")

    async def open(self, position: Position | None, sequence: int) -> Position:
        """See `Source`."""
        await self._release()
        options = self._options
        logs = await self._find_logs()
        if not options.follow:
            await self._settle(logs)
        reader = TaskReader(options, logs.all, stuck_ms=options.stuck_ms)
        try:
            await reader.open()
            if position is None:
                offsets = await first_offsets(reader, logs, read_start(options.start))
            else:
                offsets = await kept_offsets(reader, position)
            reader.assign(offsets)
        except BaseException:
            await reader.close()
            raise
        self._reader, self._logs, self._sequence = reader, logs, sequence
        self._places, self._starts = Places(offsets), offsets
        # Logs of which nothing was read yet: what was answered before may tell that they begin elsewhere.
        self._untouched = set(logs.all) if position is None else set()
        self._expectations = Expectations()
        self._turns = (Turns if options.follow else ByTime)(logs, self._reached)
        return self._places.position

    def expect(self, origins: Sequence[str]) -> None:
        """See `Source`."""
        reader = self._opened()
        wanted = [read_origin(origin) for origin in origins]
        for log, offset in wanted:
            if log not in reader.held:
                raise StateMismatchError(
                    f"{log.origin(offset)} was answered before, but {log} is not among the input of this task now; "
                    f"restore [source], or {START_OVER}"
                )
            if log in self._untouched:
                self._untouched.discard(log)
                reader.seek(log, offset)
                self._places.move(log, offset)
                self._starts[log] = offset
        self._expectations.add(wanted)

    async def read(self, max_events: int) -> Sequence[Record]:
        """See `Source`."""
        # Even if all is at hand: fetching goes on only while the loop has its turn.
        await asyncio.sleep(0)
        seconds = 0.0
        while self._reader is not None and not self._stopping:
            await self._look(self._reader, seconds)
            messages = self._take(self._reader, max_events)
            if messages:
                return await self._records(messages)
            if self._ended(self._reader):
                break
            seconds = WAIT_SECONDS
        return ()

    def stop(self) -> None:
        """See `Source`."""
        self._stopping = True

    def progress(self) -> Progress:
        """See `Source`. What an offset of Kafka counts: now and then it is a marker and no record."""
        reader = self._reader
        if reader is not None:
            done = sum(self._places[log] - start for log, start in self._starts.items())
            total = sum(self._goal(reader, log) - start for log, start in self._starts.items())
            self._progress = Progress(done, max(done, total), "records")
        return self._progress

    async def close(self) -> None:
        """See `Source`."""
        # Only here: who stops us before we are open, or meanwhile, is heard.
        self._stopping = False
        await self._release()

    async def _release(self) -> None:
        self.progress()
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.close()

    async def _find_logs(self) -> TaskLogs:
        options = self._options
        named = [*(options.topics or ()), *([] if options.control is None else [options.control])]
        await probe(options, named)
        return choose_logs(options, self._seat, await count_partitions(options))

    async def _settle(self, logs: TaskLogs) -> None:
        """What is in a transaction is there once that ends; who runs one stage after another may be quicker."""
        hidden = await wait_until_decided(self._options, logs.all, DECIDED_SECONDS, enough=lambda: self._stopping)
        if not self._stopping:
            for one, end in sorted(hidden.items()):
                log.warning("a transaction is still open: what lies behind it is left out", log=str(one), end=end)

    async def _look(self, reader: TaskReader, seconds: float) -> None:
        """Fetch from the logs of which nothing is at hand."""
        follow = self._options.follow
        empty = [log for log, held in reader.held.items() if not held and (follow or not self._reached(log))]
        if not empty:
            return
        began = time.perf_counter()
        ends = await reader.fill(empty, seconds)
        if seconds:
            self.waited += time.perf_counter() - began
        if self._expectations:
            log, offset = self._expectations.next
            if not reader.held[log] and ends.get(log, offset + 1) <= offset:
                raise _gone(log, offset, ends[log])
        if not follow:
            for log in empty:
                self._cut(reader, log)

    def _cut(self, reader: TaskReader, log: Log) -> None:
        """Leave what came to a log after opening to the next run."""
        held = reader.held[log]
        while held and held[-1].offset >= reader.spans[log].end:
            held.pop()

    def _take(self, reader: TaskReader, max_events: int) -> list[Any]:
        if self._expectations:
            return self._expectations.take(reader.held, max_events)
        self._untouched.clear()
        return self._turns.take(reader.held, max_events)

    async def _records(self, messages: Sequence[Any]) -> list[Record]:
        records: list[Record] = []
        control = None if self._logs.control is None else self._logs.control.topic
        turn_ends = time.perf_counter() + SLICE_SECONDS
        for message in messages:
            only_control = message.topic == control
            record = make_record(
                message,
                "event" if only_control else self._options.payload,
                sequence=self._sequence,
                position=self._places.move(Log(message.topic, message.partition), message.offset + 1),
                only_control=only_control,
            )
            records.append(record)
            self._sequence += 1
            if time.perf_counter() > turn_ends:
                await asyncio.sleep(0)
                turn_ends = time.perf_counter() + SLICE_SECONDS
        return records

    def _ended(self, reader: TaskReader) -> bool:
        """Whether all that was there when opening is out, if that is all that is wanted."""
        if self._options.follow:
            return False
        if self._expectations:
            log, offset = self._expectations.next
            if self._reached(log):
                raise _gone(log, offset, reader.spans[log].end)
        return all(self._reached(log) for log in reader.held)

    def _reached(self, log: Log) -> bool:
        """Whether a log is out as far as it went when opening."""
        reader = self._opened()
        return not reader.held[log] and reader.places[log] >= reader.spans[log].end

    def _goal(self, reader: TaskReader, log: Log) -> int:
        return reader.highwater(log) if self._options.follow else reader.spans[log].end

    def _opened(self) -> TaskReader:
        if self._reader is None:
            raise SourceError("the source is not open")
        return self._reader


def _gone(log: Log, offset: int, end: int) -> SourceError:
    return SourceError(
        f"{log}: offset {offset} was answered before and is needed again, but the log ends at {end}: the topic was "
        f"deleted and made anew, or the cluster lost messages; restore it, or {START_OVER}"
    )


def _share(options: KafkaSourceOptions, together: bool) -> Share | None:  # noqa: FBT001 - the hook's signature
    if options.group is None:
        return None
    selection = selection_of(options)
    return Membership(
        options,
        group=options.group,
        topics=selection.pattern or selection.names or (),
        together=together,
        session_timeout_ms=options.session_timeout_ms,
    )


@hookimpl
def speciate_source() -> Provider[Source]:
    """Provide the source."""
    return Provider(
        options=KafkaSourceOptions,
        create=KafkaSource,
        create_at=KafkaSource,
        share=_share,
        send=send,
        unsendable=unsendable,
        tasks=count_tasks,
        behind=count_behind,
        requires=("aiokafka",),
        install="speciate[kafka]",
    )
