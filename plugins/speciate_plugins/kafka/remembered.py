"""What a group remembers of how far it has come: asked only when the outputs, which are the truth, have expired.

A group's offsets were moved in the transactions of the outputs. Read right after a commit they may be stale, which
after the days that outputs are kept they are not.
"""

from speciate_plugins.kafka.administering import administering
from speciate_plugins.kafka.connection import KafkaConnection
from speciate_plugins.kafka.positions import Log
from speciate_schemas import Position


async def remembered_position(options: KafkaConnection, group: str, partition: int | None) -> Position | None:
    """The offsets of a group as a position, of one partition number or of all; None if it has none."""
    async with administering(options, f"ask how far group {group!r} has come") as admin:
        found = await admin.list_consumer_group_offsets(group)
    kept = sorted((Log(*place), one.offset) for place, one in found.items() if one.offset >= 0)
    wanted = [(log, offset) for log, offset in kept if partition is None or log.partition == partition]
    return tuple(part for log, offset in wanted for part in (log.topic, log.partition, offset)) or None
