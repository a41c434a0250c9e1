"""The store `kafka` on a real broker: snapshots are whole or not there, and who is shut out cannot write."""

import asyncio
import hashlib
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from aiokafka import AIOKafkaProducer
from broker import Broker

from speciate.conformance import check_store
from speciate.errors import AwayError, ConfigError, FencedError, StateDamagedError
from speciate.stages import Seat, StateStore
from speciate_plugins.kafka.positions import Log
from speciate_plugins.kafka.producer import Transaction
from speciate_plugins.stores.kafka import KafkaStore, KafkaStoreOptions

Make = Callable[..., KafkaStore]
COMPACT = {"cleanup.policy": "compact"}


def options(broker: Broker, topic: str, **more: Any) -> KafkaStoreOptions:
    return msgspec.convert({"servers": [broker.servers], "topic": topic, **more}, KafkaStoreOptions)


@pytest.fixture
def make(broker: Broker, topic: str) -> Iterator[Make]:
    """Make stores at the same place; they are closed with the test."""
    made: list[KafkaStore] = []

    def make_one(seat: Seat | None = None, **more: Any) -> KafkaStore:
        made.append(KafkaStore(options(broker, topic, **more), seat or Seat()))
        return made[-1]

    yield make_one
    for store in made:
        store.close()


def test_laws_of_a_store(broker: Broker, topic: str, make: Make, monkeypatch: pytest.MonkeyPatch):
    broker.create_topic(topic, 1, COMPACT)

    def check_fence(first: StateStore, second: StateStore) -> None:
        """Stands in for the law of the lock: on Kafka the older one is shut out."""
        first.open(fresh=False)
        second.open(fresh=False)
        with pytest.raises(FencedError):
            first.save_snapshot(99, b"zombie")
        assert second.snapshots() == [9, 10]
        first.close()
        second.close()

    monkeypatch.setattr("speciate.conformance.stores._check_lock", check_fence)
    check_store(make)


def test_zombie_is_shut_out_and_leaves_no_trace(broker: Broker, topic: str, make: Make):
    broker.create_topic(topic, 3, COMPACT)
    old, new, other = make(Seat(1, 3)), make(Seat(1, 3)), make(Seat(2, 3))
    old.open(fresh=False)
    old.save_snapshot(1, b"one")
    new.open(fresh=False)
    other.open(fresh=False)
    new.save_snapshot(2, b"two")
    for act in (lambda: old.save_snapshot(3, b"three"), lambda: old.remove_snapshot(1)):
        with pytest.raises((FencedError, AwayError)):
            act()
    broker.settle(topic)
    assert new.snapshots() == make(Seat(1, 3)).snapshots() == [1, 2]
    assert other.snapshots() == []
    assert new.load_snapshot(1) == b"one"


def test_large_snapshot_comes_back_and_is_read_without_opening(broker: Broker, topic: str, make: Make):
    broker.create_topic(topic, 1, COMPACT)
    store = make()
    store.open(fresh=False)
    data = random.Random(1).randbytes(50 << 20)
    store.save_snapshot(1000, data)
    store.save_snapshot(1001, b"")
    reader = make()
    broker.settle(topic)
    assert reader.snapshots() == [1000, 1001]
    assert hashlib.sha256(reader.load_snapshot(1000)).digest() == hashlib.sha256(data).digest()
    assert reader.load_snapshot(1001) == b""
    # Replaced by a shorter one, no chunk is left over but for compaction to remove.
    store.save_snapshot(1000, b"short")
    broker.settle(topic)
    assert make().load_snapshot(1000) == b"short"
    store.remove_snapshot(1001)
    broker.settle(topic)
    assert make().snapshots() == [1000]
    left = {one.key: one.value for one in broker.read_all(topic)[0]}
    assert {key for key, value in left.items() if value is not None} == {b"1000/0", b"index"}


def test_list_is_found_behind_a_snapshot_that_was_cut_off(broker: Broker, topic: str, make: Make):
    broker.create_topic(topic, 1, COMPACT)
    store = make()
    store.open(fresh=False)
    store.save_snapshot(1, b"one")
    store.close()

    async def crash() -> None:
        writer = Transaction(options(broker, topic), f"speciate-{topic}-0")
        await writer.init()
        for number in range(20):
            await writer.send(Log(topic, 0), b"2/%d" % number, bytes(1000), [])
        await writer.deliver()
        await writer.close()

    asyncio.run(crash())
    store = make()
    store.open(fresh=False)
    assert store.snapshots() == [1]
    assert store.load_snapshot(1) == b"one"
    with pytest.raises(StateDamagedError, match="there is no snapshot 2"):
        store.load_snapshot(2)


def test_missing_and_damaged_chunks_are_noticed(broker: Broker, topic: str, make: Make):
    # Compacted topics do not let us delete records.
    broker.create_topic(topic, 1, {"max.message.bytes": "100000"})
    store = make()
    store.open(fresh=False)
    data = random.Random(2).randbytes(1_000_000)
    store.save_snapshot(5, data)
    store.save_snapshot(6, b"six")
    assert store.load_snapshot(5) == data
    asyncio.run(_delete_before(broker, topic, 3))
    with pytest.raises(StateDamagedError, match=r"snapshot 5 is gone: .*holds offsets 3 to"):
        store.load_snapshot(5)
    assert store.load_snapshot(6) == b"six"
    # As if compaction had removed one chunk, or other bytes were in its place.
    for change in ({"chunks": 3}, {"sha256": "0" * 64}, {"first": 4}):
        kept = next(one for one in store._index.snapshots if one.sequence == 6)
        store._index = msgspec.structs.replace(store._index, snapshots=(msgspec.structs.replace(kept, **change),))
        if "chunks" in change:
            assert store.load_snapshot(6) == b"six"
            continue
        with pytest.raises(StateDamagedError, match=r"snapshot 6 in topic .* is damaged"):
            store.load_snapshot(6)


async def _delete_before(broker: Broker, topic: str, offset: int) -> None:
    from aiokafka import TopicPartition
    from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

    admin = AIOKafkaAdminClient(bootstrap_servers=broker.servers)
    await admin.start()
    await admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(offset)})
    await admin.close()


def test_topic_must_exist_and_be_large_enough(broker: Broker, topic: str, make: Make, caplog: pytest.LogCaptureFixture):
    store = make(Seat(1, 2))
    for act in (lambda: store.open(fresh=False), store.snapshots, store.load_commit):
        with pytest.raises(ConfigError, match=f"topic '{topic}' does not exist.*speciate topics create CONFIG"):
            act()
    broker.create_topic(topic, 1)
    with pytest.raises(ConfigError, match="has 1 partitions, but there are 2 tasks"):
        store.open(fresh=False)
    alone = make()
    alone.open(fresh=False)
    assert "cleanup.policy=compact" in caplog.text
    assert alone.describe() == f"topic {topic}/0"


def test_foreign_index_is_refused(broker: Broker, topic: str, make: Make):
    broker.create_topic(topic, 1, COMPACT)

    async def scribble() -> None:
        async with AIOKafkaProducer(bootstrap_servers=broker.servers) as producer:
            await producer.send_and_wait(topic, b"what", key=b"index")

    asyncio.run(scribble())
    with pytest.raises(StateDamagedError, match=f"{topic}/0@0 is no index"):
        make().snapshots()


def test_absent_broker_is_away(mortal: Broker, topic: str):
    mortal.create_topic(topic, 1, COMPACT)
    store = KafkaStore(options(mortal, topic), Seat())
    store.open(fresh=False)
    store.save_snapshot(1, b"one")
    mortal.kill()
    # Only now: a broker that has just started may be slow to answer.
    store._writer._patience = 2.0
    with pytest.raises(AwayError):
        store.save_snapshot(2, b"two")
    with pytest.raises(AwayError):
        store.load_snapshot(1)
    began = time.monotonic()
    store.close()
    assert time.monotonic() - began < 20
    mortal.restart()
    store.open(fresh=False)
    assert store.snapshots() in ([1], [1, 2])
    assert store.load_snapshot(1) == b"one"
    store.close()
    store.close()


def test_writing_needs_open(make: Make):
    with pytest.raises(ValueError, match="not open"):
        make().save_snapshot(1, b"")


def test_options_are_checked():
    for wrong in ({"topic": "a b"}, {"topic": ""}, {"topic": ".."}, {}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"servers": ["a:1"], **wrong}, KafkaStoreOptions)
