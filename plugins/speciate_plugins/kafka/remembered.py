"""What a group remembers of how far it has come: asked only when the outputs, which are the truth, have expired.

A group's offsets were moved in the transactions of the outputs. Read right after a commit they may be stale, which
after the days that outputs are kept they are not.
"""

import asyncio

from speciate_plugins.kafka.connection import KafkaConnection, client_arguments
from speciate_plugins.kafka.failures import telling
from speciate_plugins.kafka.inspection import STOP_SECONDS
from speciate_plugins.kafka.positions import Log
from speciate_plugins.kafka.stopping import stop_client
from speciate_schemas import Position


async def remembered_position(options: KafkaConnection, group: str, partition: int | None) -> Position | None:
    """The offsets of a group as a position, of one partition number or of all; None if it has none."""
    from aiokafka.admin import AIOKafkaAdminClient  # noqa: PLC0415 - only who uses Kafka has it

    with telling(f"ask how far group {group!r} has come", options):
        admin = AIOKafkaAdminClient(**client_arguments(options))
        try:
            async with asyncio.timeout(options.request_timeout_ms / 1000):
                await admin.start()
                found = await admin.list_consumer_group_offsets(group)
        finally:
            await stop_client(admin, STOP_SECONDS)
    kept = sorted((Log(*place), one.offset) for place, one in found.items() if one.offset >= 0)
    wanted = [(log, offset) for log, offset in kept if partition is None or log.partition == partition]
    return tuple(part for log, offset in wanted for part in (log.topic, log.partition, offset)) or None
