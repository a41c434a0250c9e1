"""Sink `kafka-keyed`: events to a topic, dealt among its partitions by their streams, as Kafka's own clients do it.

For pipelines without a head: a recording fed into a topic, or features of many encoders into a topic that has another
number of partitions than the images had. A commit is one transaction; its last record carries how far the input is
handed on, and by whom, so several writers may share a topic.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Annotated, Any

import msgspec

from speciate.errors import AwayError, ConfigError, StateMismatchError
from speciate.hooks import Provider, hookimpl
from speciate.stages import Ending, Output, Seat, Sink
from speciate_plugins.kafka.connection import KafkaConnection
from speciate_plugins.kafka.deciding import DECIDED_SECONDS, wait_until_decided
from speciate_plugins.kafka.headers import CONTENT_TYPE, content_type
from speciate_plugins.kafka.inspection import inspect_topics
from speciate_plugins.kafka.marks import HEADER, Mark, header_of, mark_of
from speciate_plugins.kafka.positions import Log
from speciate_plugins.kafka.producer import Compression, Delivery, Transaction
from speciate_plugins.kafka.tail import LogReader
from speciate_schemas import Answer, Event, Position, decode, encode

HEADERS = [(CONTENT_TYPE, content_type("msgpack"))]


class KafkaKeyedOptions(KafkaConnection, frozen=True, kw_only=True):
    """Options of the sink `kafka-keyed`."""

    topic: Annotated[
        str, msgspec.Meta(min_length=1, description="The topic to write to, with any number of partitions.")
    ]
    delivery: Annotated[
        Delivery, msgspec.Meta(description="Whether events become visible with the commit, or at once and maybe twice.")
    ] = "exactly-once"
    compression: Annotated[Compression, msgspec.Meta(description="Of the messages.")] = "none"
    writer: Annotated[
        str,
        msgspec.Meta(
            min_length=1, description="Our name among those who write to the topic: what is handed on is told by it."
        ),
    ] = "speciate"


class KafkaKeyedSink:
    """Hands events on; an event without a stream goes to the partitions in turn."""

    durable = False
    transactional = True

    def __init__(self, options: KafkaKeyedOptions, seat: Seat) -> None:
        self._options = options
        self._family = f"{options.writer}-{options.topic}-keyed-"
        self._writer = f"{self._family}{seat.number}"
        self._tasks = seat.count
        self._transaction = Transaction(
            options, self._writer, delivery=options.delivery, compression=options.compression
        )
        self._partition_of: Callable[[bytes], int] = lambda _: 0
        self._count = 1
        self._turn = 0
        self._last: tuple[Log, bytes | None, bytes] | None = None

    async def open(self, position: Position | None, *, fresh: bool = False) -> None:
        """See `Sink`. It cannot be emptied, and it holds no dead letters."""
        if fresh:
            raise ConfigError(f"{self.describe()} cannot be emptied for a fresh start: name another topic or writer")
        raise ConfigError(
            f"{self.describe()} takes events that are handed on and nothing else: sink 'kafka' is for answers and dead "
            f"letters (it was to be opened at {position!r})"
        )

    async def recover(self) -> Ending:
        """See `TransactionalSink`."""
        logs = await self._look_at_topic()
        await self._transaction.init()
        # Several write here: while another has a transaction open, our own last mark may lie hidden behind it.
        for log, end in (await wait_until_decided(self._options, logs, DECIDED_SECONDS)).items():
            raise AwayError(
                f"{log} hides what lies before offset {end}: another writer has had a transaction open for more than "
                f"{DECIDED_SECONDS:g} s"
            )
        ending = await self._ending(logs)
        self._last, self._turn = None, ending.sequence
        return ending

    async def peek(self) -> Ending:
        """See `TransactionalSink`."""
        return await self._ending(await self._look_at_topic())

    async def write(self, items: Sequence[Output]) -> None:
        """See `Sink`. The last event is held back: if a commit is next, it must say so."""
        for item in items:
            if not isinstance(item, Event) and not hasattr(item, "original"):
                raise ConfigError(f"{self.describe()} takes no answers: use sink 'kafka' in a pipeline that decides")
            due, self._last = self._last, self._placed(item)
            if due is not None:
                await self._transaction.send(*due, HEADERS)
        await self._transaction.push()

    async def flush(self) -> Position:
        """See `Sink`: there is nothing to do before `commit`."""
        return ()

    async def commit(self, sequence: int, source: Position | None) -> Position:
        """See `TransactionalSink`."""
        last, self._last = self._last, None
        if last is not None:
            mark = header_of(Mark(sequence, source, self._tasks, writer=self._writer))
            await self._transaction.send(*last, [*HEADERS, mark])
        await self._transaction.commit({}, None)
        return ()

    async def read_back(self, start: Position, end: Position) -> AsyncIterator[Sequence[Answer]]:
        """See `Sink`. Nothing that was handed on is learnt again."""
        raise StateMismatchError(f"{self.describe()} holds no answers from {start!r} to {end!r}")
        yield ()

    def ended_at(self, position: Position) -> bool:
        """See `TransactionalSink`. What hands on has no state that could be asked for."""
        return not position

    async def follow(self, start: Position) -> AsyncIterator[Sequence[Answer]]:
        """See `TransactionalSink`."""
        raise StateMismatchError(f"{self.describe()} holds no answers from {start!r} on")
        yield ()

    def describe(self) -> str:
        """See `Sink`."""
        return f"topic {self._options.topic}"

    def locate(self, sequence: int) -> str:
        """See `Sink`."""
        return f"{self._options.topic}#{sequence}"

    async def close(self) -> None:
        """See `Sink`. What was not committed is void."""
        self._last = None
        await self._transaction.close()

    async def _look_at_topic(self) -> list[Log]:
        """Its partitions, among which events are dealt from now on."""
        topic = (await inspect_topics(self._options, [self._options.topic])).get(self._options.topic)
        if topic is None:
            raise ConfigError(
                f"topic {self._options.topic!r} does not exist, or we may not see it: run `speciate topics create "
                "CONFIG`"
            )
        self._deal_among(topic.partitions)
        return [Log(self._options.topic, number) for number in range(topic.partitions)]

    async def _ending(self, logs: Sequence[Log]) -> Ending:
        """How far our last commit came, in whichever partition its last event lies."""
        marks: list[Mark] = []
        others = _OtherTasks(self._family, self._tasks)
        async with LogReader(self._options) as reader:
            for log in logs:
                found = await reader.last(log, lambda record: self._own_mark(record, others))
                marks += [] if found is None else [found]
        last = max(marks, key=lambda mark: mark.sequence, default=None)
        if last is None:
            # Then all there is was looked at, so the marks of the other tasks as well.
            self._check_tasks(others.found)
            return Ending(0, None, (), ())
        self._check_tasks(last)
        return Ending(last.sequence, last.source, (), ())

    def _own_mark(self, record: Any, others: "_OtherTasks") -> Mark | None:
        found = mark_of(record, self._writer)
        if found is None:
            others.look_at(record)
        return None if found is None else found[0]

    def _check_tasks(self, mark: Mark | None) -> None:
        """Among another number of tasks the input is split otherwise: no mark tells what of our part is handed on."""
        if mark is not None and mark.tasks != self._tasks:
            raise StateMismatchError(
                f"writer {self._options.writer!r} handed events on to {self.describe()} in {mark.tasks} task(s), but "
                f"now there are {self._tasks}, and what they would go on with is not known: go back to {mark.tasks}, "
                "or choose another `writer`, and for the source a `start` behind what is handed on"
            )

    def _deal_among(self, count: int) -> None:
        from aiokafka.partitioner import DefaultPartitioner  # noqa: PLC0415 - only who uses Kafka has it

        partitioner, numbers = DefaultPartitioner(), list(range(count))
        self._count = count
        self._partition_of = lambda key: int(partitioner(key, numbers, numbers))

    def _placed(self, item: Any) -> tuple[Log, bytes | None, bytes]:
        key = item.stream.encode() if item.stream else None
        number = self._turn % self._count if key is None else self._partition_of(key)
        self._turn += 1
        return Log(self._options.topic, number), key, encode(item)


class _OtherTasks:
    """Notes a mark that a writer of our family made when there was another number of tasks."""

    def __init__(self, family: str, tasks: int) -> None:
        self._family = family
        self._tasks = tasks
        self.found: Mark | None = None

    def look_at(self, record: Any) -> None:
        """Look at a record that has been found not to be marked by ourselves."""
        value = next((value for name, value in record.headers if name == HEADER), None)
        if value is None or self.found is not None:
            return
        mark = decode(value, Mark)
        number = mark.writer.removeprefix(self._family)
        if number != mark.writer and number.isdecimal() and mark.tasks != self._tasks:
            self.found = mark


@hookimpl
def speciate_sink() -> Provider[Sink]:
    """Provide the sink."""
    return Provider(
        options=KafkaKeyedOptions,
        create=lambda options: KafkaKeyedSink(options, Seat()),
        create_at=KafkaKeyedSink,
        requires=("aiokafka",),
        install="speciate[kafka]",
    )
