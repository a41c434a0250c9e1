"""What can be told of a source's tasks without reading for them: how many there are, and how far each is behind."""

from speciate.stages import Seat
from speciate_plugins.kafka.layout import check_layout
from speciate_plugins.kafka.options import KafkaSourceOptions
from speciate_plugins.kafka.positions import Log, read_position
from speciate_plugins.kafka.probing import probe
from speciate_plugins.kafka.seating import choose_logs, selection_of
from speciate_plugins.kafka.tail import LogReader
from speciate_plugins.kafka.topics import count_partitions
from speciate_schemas import Position

LOOKED_AT = 4
"""Offsets that may be nothing but markers: a commit leaves one, an abort another."""


async def count_tasks(options: KafkaSourceOptions, together: bool) -> int:  # noqa: FBT001 - the hook's signature
    """How many tasks the topics make: one a partition if workers share them, else one."""
    if options.group is None or together:
        return 1
    await probe(options)
    selection = selection_of(options)
    counts = {topic: count for topic, count in (await count_partitions(options)).items() if topic != options.control}
    return check_layout(selection, selection.pick(counts), together=together)


async def count_behind(options: KafkaSourceOptions, seat: Seat, position: Position | None) -> int | None:
    """How many offsets of a task's logs come after a position: records, and now and then a transaction's marker.

    None for a task that has not begun and would not begin at the oldest message.
    """
    if position is None and options.start != "earliest":
        return None
    await probe(options)
    logs = choose_logs(options, seat, await count_partitions(options))
    places = {} if position is None else read_position(position)
    async with LogReader(options) as reader:
        spans = await reader.bounds(logs.all)
        left = [await _left(reader, log, max(first, places.get(log, 0)), end) for log, (first, end) in spans.items()]
    return sum(left)


async def _left(reader: LogReader, log: Log, place: int, end: int) -> int:
    """What is left of one log. A few offsets are looked at: whoever is at the end should not seem to be behind it."""
    if not 0 < end - place <= LOOKED_AT:
        return max(0, end - place)
    return sum([len(records) async for records in reader.read(log, place, end)])
