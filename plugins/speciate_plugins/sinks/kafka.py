"""Sink `kafka`: answers, dead letters or features to a topic, in the partition with the number of the task.

A commit is one transaction over all sinks of the task. Its last answer carries what of the input is answered, so a
task that starts finds its place at the end of its own partition, and needs nothing else for that.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from speciate.errors import ConfigError, SourceError, StateDamagedError, StateMismatchError
from speciate.hooks import Provider, hookimpl
from speciate.logs import get_logger
from speciate.stages import Ending, Output, Seat, Sink
from speciate_plugins.kafka.connection import KafkaConnection
from speciate_plugins.kafka.headers import CONTENT_TYPE, content_type
from speciate_plugins.kafka.inspection import Topic, inspect_topics
from speciate_plugins.kafka.marks import Mark, header_of, mark_of
from speciate_plugins.kafka.options import TOPIC
from speciate_plugins.kafka.positions import Log, read_position
from speciate_plugins.kafka.producer import Compression, Delivery, Headers, Transaction
from speciate_plugins.kafka.remembered import remembered_position
from speciate_plugins.kafka.tail import PIECE, LogReader
from speciate_plugins.kafka.topics import REFOLD
from speciate_plugins.sinks.positions import number_in
from speciate_schemas import Answer, Assignment, ControlApplied, Position, Refolded, Rejection
from speciate_schemas.codec import Format, decoder, encode

ROOM = 17 << 20
"""What a topic of dead letters must take: an event of 16 MiB, the default limit, and what is said about it."""

Prepared = tuple[bytes | None, bytes, Headers]
"""Key, value and headers of a record."""

Name = Annotated[str, msgspec.Meta(min_length=1)]

log = get_logger(__name__)


class KafkaSinkOptions(KafkaConnection, frozen=True, kw_only=True):
    """Options of the sink `kafka`."""

    topic: Annotated[str, msgspec.Meta(min_length=1, description="The topic to write to; one partition a task.")]
    format: Annotated[
        Format, msgspec.Meta(description="How answers are written; features and dead letters always are MessagePack.")
    ] = "json"
    births: Annotated[
        str | None,
        msgspec.Meta(description="A topic that gets a copy of each answer that founded a category."),
    ] = None
    delivery: Annotated[
        Delivery,
        msgspec.Meta(
            description="Whether outputs become visible with the commit, or at once and after a failure twice. For all "
            "sinks of a task that of the answers counts."
        ),
    ] = "exactly-once"
    compression: Annotated[
        Compression, msgspec.Meta(description="Of all sinks of a task that of the answers counts.")
    ] = "none"
    group: Annotated[
        Name | None,
        msgspec.Meta(
            description="Consumer group whose offsets in the input are moved along, to watch its lag; without it that "
            "of the source, if it has the same servers."
        ),
    ] = None
    transactional_id_prefix: Annotated[
        str, msgspec.Meta(min_length=1, description="How the names of our writers begin, which rights can be tied to.")
    ] = "speciate"

    def __post_init__(self) -> None:
        """Refuse topics that cannot be."""
        super().__post_init__()
        for field in ("topic", "births"):
            name = getattr(self, field)
            if name is not None and (not TOPIC.fullmatch(name) or name in {".", ".."}):
                raise ValueError(
                    f"{field} = {name!r} is no name of a topic: it has 1 to 249 letters, digits, dots, dashes or "
                    "underscores"
                )
        if self.births == self.topic:
            raise ValueError(f"births = {self.births!r} is the topic of the answers, too: copies need one of their own")


class KafkaSink:
    """Writes to one partition of a topic. Its position is the offset behind the last answer that was committed."""

    durable = True
    transactional = True

    def __init__(self, options: KafkaSinkOptions, seat: Seat) -> None:
        self._options = options
        self._seat = seat
        self._log = Log(options.topic, seat.number)
        # The order in which servers are written means nothing.
        self._common = ("kafka", frozenset(options.servers))
        found = seat.common.get(self._common)
        if found is None:
            self._check_alone()
        self._owner = found is None
        """Whether the transaction is ours, or that of another sink of the seat, which commits it."""
        self._transaction: Transaction = found or Transaction(
            options,
            f"{options.transactional_id_prefix}-{options.topic}-{seat.number}",
            delivery=options.delivery,
            compression=options.compression,
        )
        seat.common[self._common] = self._transaction
        self._group: str | None = options.group or seat.common.get(("kafka group", frozenset(options.servers)))
        self._births: Log | None = None
        self._last: Prepared | None = None
        self._end = 0
        self._moved: Position = ()
        # Where the partition begins and ends, if all its records have expired.
        self._expired: int | None = None
        # Whether the input is in this cluster, once known: the offsets of another are not ours to move.
        self._input_here: bool | None = None

    async def open(self, position: Position | None, *, fresh: bool = False) -> None:
        """See `Sink`. For the dead letters: the transaction is opened by the answers."""
        if fresh:
            raise self._not_fresh()
        if position:
            raise StateMismatchError(f"{self.describe()} cannot be cut back to {position!r}; use `recover`")
        topics = await inspect_topics(self._options, self._names())
        self._look_at(topics)
        found = topics[self._options.topic]
        if found.partitions < self._seat.count:
            raise ConfigError(
                f"topic {self._options.topic!r} has {found.partitions} partitions, but there are {self._seat.count} "
                f"tasks: give it {self._seat.count}, or name another topic"
            )
        if found.limit is None:
            log.warning("cannot know the largest message a topic takes", topic=self._options.topic)
        elif found.limit < ROOM:
            log.warning(
                "a topic takes no dead letter of a large event: raise its max.message.bytes",
                topic=self._options.topic,
                limit=found.limit,
                needed=ROOM,
            )

    async def recover(self) -> Ending:
        """See `TransactionalSink`."""
        topics = await inspect_topics(self._options, self._names())
        self._look_at(topics)
        found, tasks = topics[self._options.topic].partitions, self._seat.count
        if found != tasks and tasks == 1:
            raise StateMismatchError(
                f"topic {self._options.topic!r} has {found} partitions, but one task writes to one: name a topic with "
                "one partition, or share the input with a group; to hand events on, use sink 'kafka-keyed'"
            )
        if found != tasks:
            raise StateMismatchError(
                f"topic {self._options.topic!r} has {found} partitions, but there are {tasks} tasks, one for each "
                f"partition: {REFOLD}"
            )
        await self._shut_out_others()
        # Only now: whoever wrote before can add nothing any more.
        ending = await self._ending()
        self._end = number_in(ending.end, self.describe())
        return ending

    async def seize(self) -> Mark | None:
        """As `recover`, but whoever made the answers that there are: the last mark among them. For a refold."""
        self._look_at(await inspect_topics(self._options, self._names()))
        await self._shut_out_others()
        return await self.last_mark()

    async def last_mark(self) -> Mark | None:
        """The mark of the last commit, if there is one, without disturbing whoever writes."""
        async with LogReader(self._options) as reader:
            last = await reader.last(self._log, mark_of)
        return None if last is None else last[0]

    async def announce(self, notices: Mapping[int, tuple[Refolded, Mark]]) -> Position:
        """Write a notice with its mark to each of these partitions, ours or not, in one transaction.

        Gives back where our own answers now end.
        """
        for number, (notice, mark) in notices.items():
            key, value, headers = self._prepared(notice)
            place = Log(self._log.topic, number)
            await self._transaction.send(place, key, value, [*headers, header_of(mark)])
        ends = await self._transaction.commit({}, None)
        self._end = ends.get(self._log, self._end)
        return (self._end,)

    async def peek(self) -> Ending:
        """See `TransactionalSink`."""
        self._look_at(await inspect_topics(self._options, self._names()))
        return await self._ending()

    async def write(self, items: Sequence[Output]) -> None:
        """See `Sink`. The last answer is held back: if a commit is next, it must say so."""
        for item in items:
            prepared = self._prepared(item)
            due: Prepared | None = prepared
            if self._owner:
                due, self._last = self._last, prepared
            if due is not None:
                await self._transaction.send(self._log, *due)
            if self._births is not None and isinstance(item, Assignment) and item.birth:
                await self._transaction.send(self._births, *prepared)
        await self._transaction.push()

    async def flush(self) -> Position:
        """See `Sink`: there is nothing to do before `commit`."""
        return (self._end,)

    async def commit(self, sequence: int, source: Position | None) -> Position:
        """See `TransactionalSink`."""
        last, self._last = self._last, None
        if last is not None:
            key, value, headers = last
            mark = header_of(Mark(sequence, source, self._seat.count, self._moved))
            await self._transaction.send(self._log, key, value, [*headers, mark])
        ends = await self._transaction.commit(await self._offsets(source), self._group)
        self._end = ends.get(self._log, self._end)
        return (self._end,)

    async def read_back(self, start: Position, end: Position) -> AsyncIterator[Sequence[Answer]]:
        """See `Sink`."""
        name = self.describe()
        async for answers in self._read(number_in(start, name), number_in(end, name)):
            yield answers

    def ended_at(self, position: Position) -> bool:
        """See `TransactionalSink`. Behind the last answer of a transaction there is its marker."""
        marker = 1 if self._options.delivery == "exactly-once" else 0
        return self._expired is not None and 0 <= self._expired - number_in(position, self.describe()) <= marker

    async def follow(self, start: Position) -> AsyncIterator[Sequence[Answer]]:
        """See `TransactionalSink`."""
        async for answers in self._read(number_in(start, self.describe()), None):
            yield answers

    def describe(self) -> str:
        """See `Sink`."""
        return f"topic {self._log}"

    def locate(self, sequence: int) -> str:
        """See `Sink`."""
        return f"{self._log}#{sequence}"

    async def close(self) -> None:
        """See `Sink`. What was not committed is void."""
        self._last = None
        if self._owner:
            if self._seat.common.get(self._common) is self._transaction:
                del self._seat.common[self._common]
            await self._transaction.close()

    def _check_alone(self) -> None:
        """Only the transaction of the answers is ever committed: what we wrote in another one would be lost."""
        for key in self._seat.common:
            if isinstance(key, tuple) and key[0] == "kafka":
                raise ConfigError(
                    f"topic {self._options.topic!r} has servers = {self._options.servers}, but another sink of the "
                    f"pipeline has servers = {sorted(key[1])}, and both are written in one transaction: write the same "
                    "servers in [sink] and [dead_letters]"
                )

    def _names(self) -> list[str]:
        return [name for name in (self._options.topic, self._options.births) if name is not None]

    def _look_at(self, topics: Mapping[str, Topic]) -> None:
        """All our topics must be there."""
        for name in self._names():
            if name not in topics:
                raise ConfigError(
                    f"topic {name!r} does not exist, or we may not see it: run `speciate topics create CONFIG`"
                )
            cleanup = topics[name].cleanup
            if cleanup is not None and "compact" in cleanup:
                raise ConfigError(
                    f"topic {name!r} has cleanup.policy={cleanup}, which keeps only the last record of a stream: set "
                    "it to delete, or name another topic"
                )
            limit = topics[name].limit
            if limit is not None:
                self._transaction.limits[name] = limit
        births = self._options.births
        self._births = None if births is None else Log(births, self._seat.number % topics[births].partitions)

    async def _shut_out_others(self) -> None:
        self._seat.common[self._common] = self._transaction
        await self._transaction.init()
        self._last = None

    def _not_fresh(self) -> ConfigError:
        return ConfigError(
            f"{self.describe()} cannot be emptied for a fresh start: give the pipeline new topics, or delete those it "
            "has with `speciate topics delete CONFIG`"
        )

    async def _ending(self) -> Ending:
        """Where the last commit in our partition ends, and what of the input it says to be answered."""
        async with LogReader(self._options) as reader:
            first, _ = (await reader.bounds([self._log]))[self._log]
            last = await reader.last(self._log, mark_of)
            self._expired = first if last is None else None
            if last is None:
                await self._check_others(reader)
                source = await self._remembered() if first else None
                return Ending(0, source, (first,), (first,), expired=first > 0)
        mark, end = last
        self._check_tasks(self._log, mark)
        self._moved = mark.moved
        return Ending(mark.sequence, mark.source, (first,), (end,))

    async def _remembered(self) -> Position | None:
        """What the group knows, once the outputs have expired and nobody else does."""
        if self._group is None:
            return None
        number = self._seat.number if self._seat.count > 1 else None
        return await remembered_position(self._options, self._group, number)

    async def _check_others(self, reader: LogReader) -> None:
        """Ours has no commit. If others have, were there as many tasks then? Else someone has added partitions."""
        others = [Log(self._log.topic, number) for number in range(self._seat.count) if number != self._log.partition]
        bounds = await reader.bounds(others) if others else {}
        for other, (first, end) in bounds.items():
            last = await reader.last(other, mark_of) if end > first else None
            if last is not None:
                self._check_tasks(other, last[0])
                return

    def _check_tasks(self, where: Log, mark: Mark) -> None:
        if mark.refolding:
            raise StateMismatchError(
                f"the state behind the answers in {where} was given up for a new one, which was not finished: {REFOLD} "
                "again"
            )
        if mark.tasks != self._seat.count:
            raise StateMismatchError(
                f"the answers in {where} were made by one of {mark.tasks} tasks, but now there are {self._seat.count}: "
                f"the number of partitions was changed; {REFOLD}"
            )

    async def _offsets(self, source: Position | None) -> dict[Log, int]:
        """What to move the offsets of the group to; nothing if the input is no topic of this cluster."""
        if self._group is None or self._input_here is False:
            return {}
        try:
            offsets = read_position(source or ())
        except SourceError:
            return {}
        if self._input_here is None:
            names = {place.topic for place in offsets}
            self._input_here = names == (await inspect_topics(self._options, names)).keys()
            if not self._input_here:
                log.warning("cannot move the offsets of a group: the input is in another cluster", topics=sorted(names))
                return {}
        return offsets

    def _prepared(self, item: Output) -> Prepared:
        form: Format = self._options.format if isinstance(item, ANSWERS) else "msgpack"
        stream = None if isinstance(item, Refolded) else item.stream
        return stream.encode() if stream else None, encode(item, form), HEADERS[form]

    async def _read(self, start: int, end: int | None) -> AsyncIterator[Sequence[Answer]]:
        """The answers that a mark says to be committed, in pieces that end with a mark or are full."""
        held = _Held()
        async with LogReader(self._options) as reader:
            async for records in reader.read(self._log, start, end):
                fresh: list[Answer] = []
                for record in records:
                    answer = self._answer(record)
                    if isinstance(answer, Refolded):
                        self._check_refolded(answer, record.offset)
                        held.drop()
                    else:
                        fresh += held.add(answer, marked=mark_of(record) is not None)
                for first in range(0, len(fresh), PIECE):
                    yield fresh[first : first + PIECE]

    def _check_refolded(self, notice: Refolded, offset: int) -> None:
        """What lies before the end of old categories cannot be gone on with; their new beginning is passed over."""
        if not notice.done:
            raise StateDamagedError(
                f"at {self._log.origin(offset)} categories were made anew and no later snapshot is left: {REFOLD} again"
            )

    def _answer(self, record: Any) -> Answer | Refolded:
        form: Format = "json" if dict(record.headers).get(CONTENT_TYPE) == content_type("json") else "msgpack"
        try:
            answer: Answer | Refolded = decoder(Answer | Refolded, form)(record.value or b"")
        except msgspec.DecodeError as error:
            raise StateMismatchError(
                f"{self._log.origin(record.offset)} is not an answer ({error}): use topics of their own for answers, "
                "and start over with new ones"
            ) from error
        return answer


class _Held:
    """Answers that no mark covers yet.

    Delivered at least once, a worker that failed before its commit is repeated by the next. That may number other
    inputs the same (of a control topic, of several logs), so the copy that counts is the one that was committed.
    """

    def __init__(self) -> None:
        self._answers: list[Answer] = []
        self._committed = -1

    def add(self, answer: Answer, *, marked: bool) -> list[Answer]:
        """Hold an answer in the place of those it repeats; if it is marked, let go of all that are held."""
        if answer.sequence <= self._committed:
            return []
        while self._answers and self._answers[-1].sequence >= answer.sequence:
            self._answers.pop()
        self._answers.append(answer)
        if not marked:
            return []
        committed, self._answers = self._answers, []
        self._committed = answer.sequence
        return committed

    def drop(self) -> None:
        """Forget what is held: nobody will commit it any more."""
        self._answers.clear()


ANSWERS = (Assignment, Rejection, ControlApplied, Refolded)
HEADERS: dict[Format, Headers] = {
    "json": [(CONTENT_TYPE, content_type("json"))],
    "msgpack": [(CONTENT_TYPE, content_type("msgpack"))],
}


@hookimpl
def speciate_sink() -> Provider[Sink]:
    """Provide the sink."""
    return Provider(
        options=KafkaSinkOptions,
        create=lambda options: KafkaSink(options, Seat()),
        create_at=KafkaSink,
        requires=("aiokafka",),
        install="speciate[kafka]",
    )
