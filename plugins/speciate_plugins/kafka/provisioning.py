"""Creates and deletes topics, and waits until that is so for every broker's clients."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from speciate.errors import ConfigError
from speciate_plugins.kafka.administering import administering
from speciate_plugins.kafka.connection import KafkaConnection
from speciate_plugins.kafka.failures import telling
from speciate_plugins.kafka.meanings import Attempt, none_ready
from speciate_plugins.kafka.needed import Needed
from speciate_plugins.kafka.probing import probe

ASK_SECONDS = 0.1
MOST_REPLICAS = 3
"""As many as survive one broker that is down while another one fails; more cost writes and give little."""
ALREADY_EXISTS, UNKNOWN_TOPIC = 36, 3
NO_RIGHTS = {29, 31}
"""On a topic, or on the cluster."""


async def create_topics(connection: KafkaConnection, topics: Sequence[Needed], replication: int | None) -> None:
    """Create topics on the brokers of one connection; return once each of their partitions has a leader.

    Raises:
        ConfigError: if the brokers refuse one, and why; others may have been created by then.
    """
    from aiokafka.admin import NewTopic  # noqa: PLC0415 - an extra

    names = [topic.name for topic in topics]
    async with _admin(connection, "create", names) as admin:
        if replication is None:
            replication = min(MOST_REPLICAS, await _count_brokers(admin, connection))
        wanted = [NewTopic(one.name, one.partitions, replication, topic_configs=one.settings) for one in topics]
        for name, code, *message in (await admin.create_topics(wanted)).topic_errors:
            if code != ALREADY_EXISTS:
                _check("create", name, connection, code, message)
        await _until(admin, lambda described: all(_led(described.get(name)) for name in names))


async def _count_brokers(admin: Any, connection: KafkaConnection) -> int:
    count = len((await admin.describe_cluster())["brokers"])
    if not count:
        raise none_ready(Attempt("count the brokers", connection, None))
    return count


async def delete_topics(connection: KafkaConnection, names: Sequence[str]) -> None:
    """Delete topics; return once they are gone, so that they can be created anew.

    Raises:
        ConfigError: if the brokers refuse it, and why; others may have been deleted by then.
    """
    async with _admin(connection, "delete", names) as admin:
        for name, code, *message in (await admin.delete_topics(list(names))).topic_error_codes:
            if code != UNKNOWN_TOPIC:
                _check("delete", name, connection, code, message)
        await _until(admin, lambda described: not any(name in described for name in names))


async def check_unused(connection: KafkaConnection, group: str) -> None:
    """Refuse to go on while workers are at it.

    Raises:
        ConfigError: if the group has members.
    """
    async with _admin(connection, "look at the group", [group]) as admin:
        members = await _members(admin, group)
    if members:
        raise ConfigError(f"group {group!r} has workers that are running ({len(members)}): stop them first")


async def _members(admin: Any, group: str) -> list[Any]:
    from aiokafka.errors import GroupCoordinatorNotAvailableError  # noqa: PLC0415

    while True:
        try:
            (answer,) = await admin.describe_consumer_groups([group])
        except GroupCoordinatorNotAvailableError:
            # The first question about a group makes the brokers create the topic that they keep groups in.
            await asyncio.sleep(ASK_SECONDS)
        else:
            return [member for one in answer.to_object()["groups"] for member in one["members"]]


@asynccontextmanager
async def _admin(connection: KafkaConnection, doing: str, names: Iterable[str]) -> AsyncIterator[Any]:
    await probe(connection)
    async with administering(connection, f"{doing} {', '.join(names)}") as admin:
        yield admin


def _check(verb: str, topic: str, connection: KafkaConnection, code: int, message: Sequence[str | None]) -> None:
    """Raise what a broker answers, with what it says about it."""
    from aiokafka.errors import for_code  # noqa: PLC0415

    if code in NO_RIGHTS:
        raise ConfigError(f"cannot {verb} topic {topic!r}: we have no right to: grant {verb.capitalize()} on it")
    if code:
        with telling(f"{verb} topic {topic!r}", connection, topic):
            raise for_code(code)(*(text for text in message if text))


async def _until(admin: Any, reached: Callable[[dict[str, Any]], bool]) -> None:
    # All topics: to ask for one by its name can create it.
    while not reached({topic["topic"]: topic for topic in await admin.describe_topics()}):  # noqa: ASYNC110 - only asking tells
        await asyncio.sleep(ASK_SECONDS)


def _led(topic: Any) -> bool:
    return (
        topic is not None
        and topic["error_code"] == 0
        and bool(topic["partitions"])
        and all(partition["leader"] >= 0 for partition in topic["partitions"])
    )
