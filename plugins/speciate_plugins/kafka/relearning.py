"""Learns from the input again, for tasks that begin anew: everything is decided afresh and nothing is emitted."""

from collections.abc import Mapping, Sequence
from typing import Any

from speciate.admission import limit_size
from speciate.encoding import encode_records
from speciate.household import Household
from speciate.stages import Watch
from speciate.task import Task
from speciate.threads import in_thread
from speciate_plugins.kafka.answered import Survey
from speciate_plugins.kafka.dealing import Dealer
from speciate_plugins.kafka.logs import TaskReader
from speciate_plugins.kafka.merging import by_time
from speciate_plugins.kafka.options import KafkaSourceOptions, read_start
from speciate_plugins.kafka.positions import Log
from speciate_plugins.kafka.records import make_record


class Relearner:
    """Folds messages into tasks, each task its own in the order they come."""

    def __init__(self, home: Household, options: KafkaSourceOptions, tasks: Sequence[Task], dealer: Dealer) -> None:
        self._home = home
        self._options = options
        self._tasks = tasks
        self._dealer = dealer
        self._waiting: list[list[Any]] = [[] for _ in tasks]

    async def learn(self, found: Survey, show: Watch) -> None:
        """Learn all that is answered and still kept."""
        ends = found.ends
        if ends:
            reader = TaskReader(self._options, ends, stuck_ms=self._options.stuck_ms)
            try:
                await reader.open()
                await self._learn(reader, ends, show)
            finally:
                await reader.close()

    async def _learn(self, reader: TaskReader, ends: Mapping[Log, int], show: Watch) -> None:
        starts = await self._starts(reader)
        total = sum(max(0, end - starts[one]) for one, end in ends.items())
        reader.assign(starts)
        places = dict(starts)
        async for messages in by_time(reader, ends):
            for message in messages:
                places[Log(message.topic, message.partition)] = message.offset + 1
                number = self._dealer.task_of(message)
                self._waiting[number].append(message)
                if len(self._waiting[number]) >= self._home.resolved.config.run.batch_events:
                    await self._fold(number)
            show(sum(place - starts[one] for one, place in places.items()), total, "")
        for number in range(len(self._tasks)):
            await self._fold(number)
        show(total, total, "")

    async def _starts(self, reader: TaskReader) -> dict[Log, int]:
        """What was there before the very first start was no input, where the options still tell which that was."""
        start = read_start(self._options.start)
        times = await reader.at_time(start.value) if start.kind == "time" else {}
        floor = start.value if start.kind == "offset" else 0
        return {
            one: span.first if one.topic == self._options.control else max(span.first, times.get(one, floor))
            for one, span in reader.spans.items()
        }

    async def _fold(self, number: int) -> None:
        messages, self._waiting[number] = self._waiting[number], []
        if messages:
            await in_thread(None, self._fold_now, self._tasks[number], messages)

    def _fold_now(self, task: Task, messages: Sequence[Any]) -> None:
        run, control = self._home.resolved.config.run, self._options.control
        records = []
        for sequence, message in enumerate(messages, task.sequence):
            only_control = message.topic == control
            payload = "event" if only_control else self._options.payload
            record = make_record(message, payload, sequence=sequence, position=(), only_control=only_control)
            limit_size(record, run.max_event_bytes)
            records.append(record)
        task.fold(encode_records(records, self._home.encoder))
