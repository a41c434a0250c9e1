"""What topics look like: how many partitions they have, how large a message they take, what they throw away."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from speciate_plugins.kafka.administering import administering
from speciate_plugins.kafka.connection import KafkaConnection

LIMIT = "max.message.bytes"
CLEANUP = "cleanup.policy"


class Topic(NamedTuple):
    """A topic that exists."""

    partitions: int
    limit: int | None
    """Its `max.message.bytes`; None if we may not know."""
    cleanup: str | None
    """Its `cleanup.policy`: delete, compact or both; None if we may not know."""
    replication: int = 1
    """How many brokers have each partition, counting its leader."""


async def inspect_topics(options: KafkaConnection, names: Iterable[str]) -> dict[str, Topic]:
    """Those of the topics that there are."""
    wanted = sorted(set(names))
    async with administering(options, f"look at {', '.join(wanted)}") as admin:
        # All topics: to ask for one by its name can create it.
        described = await admin.describe_topics()
        found = {topic["topic"]: topic["partitions"] for topic in described}
        there = [name for name in wanted if found.get(name)]
        settings = await _settings(admin, there)
    return {name: _topic(found[name], settings.get(name, {})) for name in there}


async def _settings(admin: Any, names: list[str]) -> dict[str, dict[str, str]]:
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType  # noqa: PLC0415

    if not names:
        return {}
    wanted = {LIMIT: None, CLEANUP: None}
    responses = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name, wanted) for name in names])
    # Where we have no right to describe the configuration there are no entries.
    return {
        name: {key: value for key, value, *_ in entries if value}
        for response in responses
        for _, _, _, name, entries in response.resources
    }


def _topic(partitions: Sequence[Mapping[str, Any]], settings: dict[str, str]) -> Topic:
    limit = settings.get(LIMIT)
    replication = min(len(partition["replicas"]) for partition in partitions)
    return Topic(len(partitions), None if limit is None else int(limit), settings.get(CLEANUP), replication)
