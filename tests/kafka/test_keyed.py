"""Events handed on to a topic by their keys, exactly once, on a real broker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.partitioner import murmur2
from broker import Broker

from speciate.errors import AwayError, ConfigError, FencedError, StateMismatchError
from speciate.stages import Seat
from speciate_plugins.sinks.kafka_keyed import KafkaKeyedOptions, KafkaKeyedSink
from speciate_schemas import Assignment, Event, FeatureEvent, decode, encode

PARTITIONS = 3


def event(number: int, stream: str) -> FeatureEvent:
    return FeatureEvent(id=f"e{number}", stream=stream, features=[float(number)])


@pytest.fixture
def made(broker: Broker, topic: str):
    broker.create_topic(topic, PARTITIONS)

    def make(number: int = 0, count: int = 1, **more) -> KafkaKeyedSink:
        return KafkaKeyedSink(KafkaKeyedOptions(servers=[broker.servers], topic=topic, **more), Seat(number, count))

    return make


def kept(broker: Broker, topic: str) -> dict[int, list[Event]]:
    return {number: [decode(one.value, Event) for one in found] for number, found in broker.read_all(topic).items()}


async def test_a_stream_keeps_its_partition_and_its_order(broker, topic, made):
    sink, streams = made(), [f"camera-{number}" for number in range(7)]
    events = [event(number, streams[number % 7]) for number in range(70)]
    try:
        assert (await sink.recover()).sequence == 0
        await sink.write(events)
        await sink.commit(70, ("stream.log", 9))
    finally:
        await sink.close()
    found = kept(broker, topic)
    for stream in streams:
        number = (murmur2(stream.encode()) & 0x7FFFFFFF) % PARTITIONS
        assert [one.id for one in found[number] if one.stream == stream] == [
            one.id for one in events if one.stream == stream
        ]
    assert sum(map(len, found.values())) == 70


async def test_events_of_no_stream_go_round_and_a_restart_does_not_change_the_turn(broker, topic, made):
    for first in (0, 5):
        sink = made()
        try:
            assert (await sink.recover()).sequence == first
            await sink.write([event(first + number, "") for number in range(5)])
            await sink.commit(first + 5, (first + 5,))
        finally:
            await sink.close()
    found = {number: [one.id for one in events] for number, events in kept(broker, topic).items()}
    assert found == {number: [f"e{one}" for one in range(number, 10, PARTITIONS)] for number in range(PARTITIONS)}


async def test_a_new_writer_shuts_the_old_one_out_and_goes_on_behind_its_last_commit(broker, topic, made):
    old, new = made(), made()
    try:
        await old.recover()
        await old.write([event(0, "a"), event(1, "b")])
        await old.commit(2, ("f", 2))
        await old.write([event(2, "c")])
        ending = await new.recover()
        assert (ending.sequence, ending.source) == (2, ("f", 2))
        with pytest.raises(FencedError):
            await old.commit(3, ("f", 3))
        await new.write([event(2, "c")])
        await new.commit(3, ("f", 3))
        broker.settle(topic)
        assert (await new.peek()).sequence == 3
    finally:
        await old.close()
        await new.close()
    assert sorted(one.id for events in kept(broker, topic).values() for one in events) == ["e0", "e1", "e2"]


async def test_writers_of_other_names_do_not_mind_each_other(made):
    one, other = made(writer="one"), made(writer="other")
    try:
        await one.recover()
        await one.write([event(0, "a")])
        await one.commit(1, (1,))
        assert (await other.recover()).sequence == 0
        await other.write([event(7, "a")])
        await other.commit(8, (8,))
        assert (await one.peek()).sequence == 1
    finally:
        await one.close()
        await other.close()


@asynccontextmanager
async def open_transaction(broker: Broker, topic: str, stream: str) -> AsyncIterator[AIOKafkaProducer]:
    """Another writer, with a transaction open in the partition of the stream."""
    producer = AIOKafkaProducer(bootstrap_servers=broker.servers, transactional_id=f"{topic}-other")
    async with producer:
        await producer.begin_transaction()
        await producer.send_and_wait(topic, encode(event(99, stream)), key=stream.encode())
        yield producer


async def commit_one(sink: KafkaKeyedSink) -> None:
    try:
        await sink.recover()
        await sink.write([event(0, "a")])
        await sink.commit(1, (1,))
    finally:
        await sink.close()


async def test_own_mark_behind_an_open_transaction_of_another_is_waited_for(broker, topic, made):
    old, new = made(), made()
    try:
        await old.recover()
        async with open_transaction(broker, topic, "a") as other:
            await old.write([event(0, "a")])
            await old.commit(1, (1,))
            # Who only looks does not wait, and does not see it.
            assert (await new.peek()).sequence == 0
            recovering = asyncio.create_task(new.recover())
            await asyncio.sleep(2)
            assert not recovering.done()
            await other.commit_transaction()
        ending = await recovering
        assert (ending.sequence, ending.source) == (1, (1,))
    finally:
        await old.close()
        await new.close()


async def test_transaction_of_another_is_not_waited_for_without_end(broker, topic, made, monkeypatch):
    sink, told = made(), r"hides what lies before offset 1: another writer .* more than 0\.5 s"
    try:
        async with open_transaction(broker, topic, "a") as other:
            # Not for the second one: an abort is told before it can be seen, and that takes as long as it takes.
            with monkeypatch.context() as patch:
                patch.setattr("speciate_plugins.sinks.kafka_keyed.DECIDED_SECONDS", 0.5)
                with pytest.raises(AwayError, match=told):
                    await sink.recover()
            await other.abort_transaction()
        assert (await sink.recover()).sequence == 0
    finally:
        await sink.close()


@pytest.mark.parametrize("number", [0, 1, 2])
async def test_other_number_of_tasks_is_refused(made, number):
    """Whether the task has a mark of its own, or only others have."""
    await commit_one(made(0, 2))
    sinks = changed, renamed, same = made(number, 3), made(number, 3, writer="new"), made(1, 2)
    try:
        for look in (changed.recover, changed.peek):
            with pytest.raises(StateMismatchError, match=r"in 2 task\(s\), but now there are 3.*another `writer`"):
                await look()
        assert (await renamed.recover()).sequence == 0
        # One of as many tasks that has handed nothing on yet just begins.
        assert (await same.recover()).sequence == 0
    finally:
        for sink in sinks:
            await sink.close()


async def test_what_it_is_not_for_is_told(broker, topic, made):
    sink = made()
    answer = Assignment(
        id="e",
        stream="",
        sequence=0,
        category=0,
        label=None,
        birth=True,
        log_evidence=0.0,
        margin=None,
        probability=1.0,
        drift=None,
        head_version=0,
    )
    try:
        await sink.recover()
        with pytest.raises(ConfigError, match="takes no answers: use sink 'kafka'"):
            await sink.write([answer])
        with pytest.raises(ConfigError, match="cannot be emptied for a fresh start"):
            await sink.open(None, fresh=True)
    finally:
        await sink.close()
    missing = KafkaKeyedSink(KafkaKeyedOptions(servers=[broker.servers], topic=f"{topic}-none"), Seat())
    with pytest.raises(ConfigError, match="run `speciate topics create CONFIG`"):
        await missing.recover()
    await missing.close()
