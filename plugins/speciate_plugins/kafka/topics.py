"""Which topics there are."""

import asyncio

from speciate_plugins.kafka.connection import KafkaConnection, client_arguments
from speciate_plugins.kafka.failures import telling
from speciate_plugins.kafka.stopping import stop_client

REFOLD = "stop all workers and run `speciate refold CONFIG`"
"""What to do about another number of partitions than the state was made with."""
STOP_SECONDS = 5.0


async def count_partitions(options: KafkaConnection) -> dict[str, int]:
    """Every topic we may see, with its number of partitions.

    All are asked for, because asking for one by its name could create it.
    """
    from aiokafka.admin import AIOKafkaAdminClient  # noqa: PLC0415 - only who uses Kafka has it

    admin = AIOKafkaAdminClient(**client_arguments(options))
    try:
        with telling("list the topics", options):
            async with asyncio.timeout(options.request_timeout_ms / 1000):
                await admin.start()
                described = await admin.describe_topics()
    finally:
        await stop_client(admin, STOP_SECONDS)
    return {topic["topic"]: len(topic["partitions"]) for topic in described if topic["partitions"]}
