"""Events handed on to a topic by their keys, exactly once, on a real broker."""

import pytest
from aiokafka.partitioner import murmur2
from broker import Broker

from speciate.errors import ConfigError, FencedError
from speciate.stages import Seat
from speciate_plugins.sinks.kafka_keyed import KafkaKeyedOptions, KafkaKeyedSink
from speciate_schemas import Assignment, Event, FeatureEvent, decode

PARTITIONS = 3


def event(number: int, stream: str) -> FeatureEvent:
    return FeatureEvent(id=f"e{number}", stream=stream, features=[float(number)])


@pytest.fixture
def made(broker: Broker, topic: str):
    broker.create_topic(topic, PARTITIONS)

    def make(number: int = 0, **more) -> KafkaKeyedSink:
        return KafkaKeyedSink(KafkaKeyedOptions(servers=[broker.servers], topic=topic, **more), Seat(number, 1))

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
