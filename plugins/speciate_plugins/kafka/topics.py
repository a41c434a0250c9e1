"""Which topics there are."""

from speciate_plugins.kafka.administering import administering
from speciate_plugins.kafka.connection import KafkaConnection

REFOLD = "stop all workers and run `speciate refold CONFIG`"
"""What to do about another number of partitions than the state was made with."""


async def count_partitions(options: KafkaConnection) -> dict[str, int]:
    """Every topic we may see, with its number of partitions.

    All are asked for, because asking for one by its name could create it.
    """
    async with administering(options, "list the topics") as admin:
        described = await admin.describe_topics()
    return {topic["topic"]: len(topic["partitions"]) for topic in described if topic["partitions"]}
