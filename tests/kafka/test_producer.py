"""The writer of a task, on a real broker: all or nothing, one at a time, and no hanging."""

import asyncio
import time
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import InvalidTxnState
from aiokafka.producer.sender import SendProduceReqHandler
from broker import Broker

from speciate.errors import AwayError, ConfigError, FencedError, OutputError
from speciate_plugins.kafka.connection import KafkaConnection
from speciate_plugins.kafka.positions import Log
from speciate_plugins.kafka.producer import Transaction


def values(broker: Broker, topic: str, isolation: str = "read_committed") -> list[bytes]:
    return [record.value for record in broker.read_all(topic, isolation)[0]]


def connection(broker: Broker, **options: object) -> KafkaConnection:
    return KafkaConnection(servers=[broker.servers], **options)


async def stop(*writers: Transaction) -> None:
    for writer in writers:
        await writer.close()
        await writer.close()


async def send(writer: Transaction, topic: str, *values: bytes) -> None:
    for value in values:
        await writer.send(Log(topic, 0), None, value, [])


async def test_commit_makes_everything_visible_and_tells_where_it_ends(broker: Broker, topic: str):
    broker.create_topic(topic, 2)
    writer = Transaction(connection(broker), topic)
    await writer.init()
    assert await writer.commit({}, None) == {}
    await writer.send(Log(topic, 0), b"key", b"a", [("name", b"x")])
    await writer.send(Log(topic, 1), None, b"b", [])
    await writer.push()
    await asyncio.sleep(0.2)
    assert broker.read_so_far(topic) == {0: [], 1: []}
    await writer.send(Log(topic, 0), None, b"c", [])
    assert await writer.commit({}, None) == {Log(topic, 0): 2, Log(topic, 1): 1}
    found = broker.read_all(topic)
    assert [(one.key, one.value, one.headers) for one in found[0]] == [
        (b"key", b"a", (("name", b"x"),)),
        (None, b"c", ()),
    ]
    assert [one.value for one in found[1]] == [b"b"]
    await send(writer, topic, b"void")
    await stop(writer)
    assert values(broker, topic) == [b"a", b"c"]
    with pytest.raises(AwayError, match="start anew"):
        await send(writer, topic, b"late")


async def test_large_transaction_keeps_its_order(broker: Broker, topic: str):
    broker.create_topic(topic)
    writer = Transaction(connection(broker), topic, compression="gzip")
    await writer.init()
    expected = [b"%d" % number + bytes(200) for number in range(20_000)]
    for start in range(0, len(expected), 100):
        await send(writer, topic, *expected[start : start + 100])
        await writer.push()
    ends = await writer.commit({}, None)
    assert ends == {Log(topic, 0): len(expected)}
    assert values(broker, topic) == expected
    await stop(writer)


async def test_newer_writer_shuts_the_older_out(broker: Broker, topic: str):
    broker.create_topic(topic)
    older, newer = Transaction(connection(broker), topic), Transaction(connection(broker), topic)
    await older.init()
    await send(older, topic, b"older")
    await older.push()
    await newer.init()
    with pytest.raises(FencedError, match="another worker"):
        await older.commit({}, None)
    await send(newer, topic, b"newer")
    await newer.commit({}, None)
    await stop(older, newer)
    assert values(broker, topic) == [b"newer"]
    # Never having begun, it notices with its first records.
    await older.init()
    await newer.init()
    with pytest.raises(FencedError):  # noqa: PT012
        await send(older, topic, b"older")
        await older.commit({}, None)
    await stop(older, newer)
    assert values(broker, topic) == [b"newer"]


@pytest.fixture
def over(monkeypatch: pytest.MonkeyPatch) -> set[bytes]:
    """Batches with one of these words are answered as if their transaction had ended while they were taken in.

    A broker says so only within microseconds of an end, which cannot be made to happen.
    """
    words: set[bytes] = set()
    handle = SendProduceReqHandler.handle_response

    def answer(self: Any, response: Any) -> None:
        if any(word in bytes(batch.get_data_buffer()) for batch in self._batches.values() for word in words):
            response.topics = [
                (name, [(partition, InvalidTxnState.errno, *rest) for partition, _, *rest in partitions])
                for name, partitions in response.topics
            ]
        handle(self, response)

    monkeypatch.setattr(SendProduceReqHandler, "handle_response", answer)
    return words


async def test_writer_learns_who_ended_its_transaction(broker: Broker, topic: str, over: set[bytes]):
    broker.create_topic(topic)
    older, newer = Transaction(connection(broker), topic), Transaction(connection(broker), topic)
    await older.init()
    await send(older, topic, b"first")
    await older.deliver()
    await newer.init()
    over.add(b"second")
    await send(older, topic, b"second")
    with pytest.raises(FencedError, match="another worker"):
        await older.commit({}, None)
    await stop(older)
    # Nobody took over: the same writer may start anew, and what it sent is void.
    await send(newer, topic, b"second")
    with pytest.raises(AwayError, match="invalid state"):
        await newer.commit({}, None)
    await newer.init()
    await send(newer, topic, b"third")
    await newer.commit({}, None)
    await stop(newer)
    assert values(broker, topic) == [b"third"]


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
async def test_offsets_of_the_group_move_with_the_commit(
    broker: Broker, topic: str, delivery: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("speciate_plugins.kafka.lag.CLOSE_SECONDS", 30.0)
    broker.create_topic(topic)
    log = TopicPartition(topic, 0)
    writer = Transaction(connection(broker), topic, delivery=delivery)
    # The group has members, as that of the source does; they must not be disturbed.
    async with AIOKafkaConsumer(topic, bootstrap_servers=broker.servers, group_id=topic) as member:
        await writer.init()
        for number in range(1, 4):
            await send(writer, topic, b"a")
            await writer.commit({Log(topic, 0): number}, topic)
        await stop(writer)
        assert member.assignment() == {log}
        async with asyncio.timeout(60):
            while await member.committed(log) != 3:  # noqa: ASYNC110 - only asking tells
                await asyncio.sleep(0.02)


async def test_record_too_large_for_the_topic_is_told_and_not_committed(broker: Broker, topic: str):
    broker.create_topic(topic, 1, {"max.message.bytes": "10000"})
    writer = Transaction(connection(broker), topic)
    writer.limits[topic] = 10_000
    await writer.init()
    # Batches keep to the limit: many small records are no trouble.
    await send(writer, topic, *[bytes(1000)] * 50)
    await writer.commit({}, None)
    await send(writer, topic, b"small", bytes(20_000))
    with pytest.raises(OutputError, match=r"max.message.bytes is 10000.*`kafka-configs"):
        await writer.commit({}, None)
    await stop(writer)
    assert values(broker, topic) == [bytes(1000)] * 50


async def test_dead_letter_of_64_mebibytes(broker: Broker, topic: str):
    broker.create_topic(topic, 1, {"max.message.bytes": str(65 << 20)})
    writer = Transaction(connection(broker), topic)
    await writer.init()
    await send(writer, topic, b"before", bytes(64 << 20), b"after")
    await writer.commit({}, None)
    await stop(writer)
    assert [len(value) for value in values(broker, topic)] == [6, 64 << 20, 5]


async def test_absent_broker_is_away_and_nothing_hangs(mortal: Broker, topic: str):
    mortal.create_topic(topic)
    writer = Transaction(connection(mortal), "writer")
    await writer.init()
    await send(writer, topic, b"a")
    await writer.commit({}, None)
    await send(writer, topic, b"b")
    await writer.push()
    await asyncio.to_thread(mortal.kill)
    # Only while it is away: a broker that has just started may be slow to answer.
    patience, writer._patience = writer._patience, 3.0
    with pytest.raises(AwayError):  # noqa: PT012
        await send(writer, topic, b"c")
        await writer.commit({}, None)
    began = time.monotonic()
    await writer.close()
    assert time.monotonic() - began < 20
    with pytest.raises(AwayError, match="start writing as writer"):
        await writer.init()
    await asyncio.to_thread(mortal.restart)
    writer._patience = patience
    await writer.init()
    await send(writer, topic, b"d")
    await writer.commit({}, None)
    await stop(writer)
    assert values(mortal, topic) == [b"a", b"d"]
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert others == []


async def test_transaction_that_was_open_too_long_is_fenced(broker: Broker, topic: str):
    broker.create_topic(topic)
    writer = Transaction(connection(broker), topic, timeout_ms=1000)
    await writer.init()
    await send(writer, topic, b"a")
    await writer.deliver()
    async with asyncio.timeout(60):
        # The record, and the marker of its abort.
        while (await asyncio.to_thread(broker.end_offsets, topic))[0] < 2:  # noqa: ASYNC110 - only asking tells
            await asyncio.sleep(0.1)
    with pytest.raises(FencedError):
        await writer.commit({}, None)
    await stop(writer)
    assert values(broker, topic) == []


async def test_at_least_once_is_visible_without_a_transaction(broker: Broker, topic: str):
    broker.create_topic(topic)
    writer = Transaction(connection(broker), topic, delivery="at-least-once")
    await writer.init()
    await send(writer, topic, b"a", b"b")
    assert await writer.commit({Log(topic, 0): 7}, topic) == {Log(topic, 0): 2}
    # No marker of a transaction in between.
    await send(writer, topic, b"c")
    assert await writer.commit({Log(topic, 0): 8}, topic) == {Log(topic, 0): 3}
    await stop(writer)
    assert values(broker, topic) == [b"a", b"b", b"c"]


async def test_compression_without_its_library_is_told(broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("aiokafka.codec.cramjam", None)
    writer = Transaction(connection(broker), topic, compression="zstd")
    with pytest.raises(ConfigError, match="cramjam"):
        await writer.init()
    await stop(writer)
