"""The source `kafka` against a real broker."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from broker import Broker, started

from speciate.conformance import check_source
from speciate.errors import (
    AwayError,
    ConfigError,
    DecodeError,
    ForwardedError,
    SourceError,
    StateMismatchError,
)
from speciate.stages import Record, Seat
from speciate_plugins.kafka.control import send
from speciate_plugins.kafka.options import KafkaSourceOptions
from speciate_plugins.kafka.positions import Log
from speciate_plugins.kafka.watchdog import Watchdog
from speciate_plugins.sources.kafka import KafkaSource
from speciate_schemas import DeadLetter, FeatureEvent, Position, RenameCategory, encode


def options_for(broker: Broker, *topics: str, **changes: Any) -> KafkaSourceOptions:
    return KafkaSourceOptions(
        **{"servers": [broker.servers], "topics": list(topics) or None, "follow": False, "start": "earliest", **changes}
    )


def event(name: str) -> bytes:
    return encode(FeatureEvent(id=name, features=[1.0, 2.0]))


def fill(broker: Broker, topic: str, names: Sequence[str], partition: int = 0) -> None:
    broker.produce(topic, [(partition, None, event(name), ()) for name in names])


@asynccontextmanager
async def opened(
    options: KafkaSourceOptions, position: Position | None = None, sequence: int = 0, seat: Seat | None = None
) -> AsyncIterator[KafkaSource]:
    source = KafkaSource(options, seat or Seat())
    try:
        await source.open(position, sequence)
        yield source
    finally:
        await source.close()


async def rest(source: KafkaSource, size: int = 100) -> list[Record]:
    found: list[Record] = []
    while records := await source.read(size):
        found += records
    return found


async def read_all(options: KafkaSourceOptions, position: Position | None = None, **more: Any) -> list[Record]:
    async with opened(options, position, **more) as source:
        return await rest(source)


async def take(source: KafkaSource, count: int) -> list[Record]:
    """So many records of one that follows."""
    found: list[Record] = []
    async with asyncio.timeout(20):
        while len(found) < count:
            found += await source.read(count - len(found))
    return found


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what must come: on a busy machine any fixed time is too short now and then."""
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - only asking tells
            await asyncio.sleep(0.01)


def unhurried(source: KafkaSource, seconds: float) -> list[Mapping[Log, int]]:
    """Give the watchdog a clock that goes on by 0.1 s a look; gives back the ends that it learns, as they come.

    The clock stands still while a question is out: by a real one a test that is held up for a moment looks like a
    broker that does not answer.
    """
    reader, now, answers = source._reader, 0.0, []

    def clock() -> float:
        nonlocal now
        now += 0.1 if reader._watchdog._asking is None else 0.0
        return now

    async def ask(logs: Iterable[Log]) -> Mapping[Log, int]:
        answers.append(await reader._ends(logs))
        return answers[-1]

    reader._watchdog.close()
    reader._watchdog = Watchdog(seconds, ask, clock)
    return answers


def looks_of(source: KafkaSource) -> list[int]:
    """How long each look for messages may wait, in milliseconds, as they begin."""
    looks, consumer = [], source._reader._consumer
    getmany = consumer.getmany

    async def counted(*logs: Any, timeout_ms: int, **more: Any) -> dict[Any, Any]:
        looks.append(timeout_ms)
        return await getmany(*logs, timeout_ms=timeout_ms, **more)

    consumer.getmany = counted
    return looks


async def check_prompt_stop(source: KafkaSource, reading: asyncio.Future[Sequence[Record]], looks: list[int]) -> None:
    """No look begins any more, and the one under way is short. Counted: a clock would hold the machine to it, too."""
    source.stop()
    begun = len(looks)
    async with asyncio.timeout(30):
        assert await reading == ()
    assert len(looks) == begun
    assert 0 < max(looks) < 200


def ids(records: Sequence[Record]) -> list[str]:
    return [record.event.id if record.event else "?" for record in records]


def origins(records: Sequence[Record]) -> list[str]:
    return [record.origin for record in records]


@asynccontextmanager
async def transactional(broker: Broker, name: str) -> AsyncIterator[AIOKafkaProducer]:
    async with started(AIOKafkaProducer(bootstrap_servers=broker.servers, transactional_id=name)) as producer:
        yield producer


async def delete_before(broker: Broker, topic: str, offset: int) -> None:
    async with started(AIOKafkaAdminClient(bootstrap_servers=broker.servers)) as admin:
        await admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(offset)})


class TestLaws:
    async def test_one_log(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic)
        values = [event(f"e{number}") for number in range(30)] + [b"poison", b"{", b""]
        broker.produce(topic, [(0, None, value, ()) for value in values])
        await check_source(lambda: KafkaSource(options_for(broker, topic)))

    async def test_several_logs_that_end(self, broker: Broker, topic: str) -> None:
        for name, count in ((f"{topic}-a", 2), (f"{topic}-b", 1), (f"{topic}-c", 1)):
            broker.create_topic(name, count)
        for number in range(4):
            fill(broker, f"{topic}-a", [f"a{number}", f"aa{number}"], number % 2)
            fill(broker, f"{topic}-b", [f"b{number}"])
        options = options_for(broker, f"{topic}-a", f"{topic}-b", control=f"{topic}-c")
        await send(options, 0, RenameCategory(id="c0", category=1, label="cat"))
        await check_source(lambda: KafkaSource(options))


class TestRecords:
    async def test_names_its_place_and_where_it_goes_on(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic, 2)
        fill(broker, topic, ["a", "b"], partition=1)
        async with opened(options_for(broker, topic), sequence=7) as source:
            records = await rest(source)
        assert origins(records) == [f"{topic}/1@0", f"{topic}/1@1"]
        assert [record.sequence for record in records] == [7, 8]
        assert [record.position for record in records] == [(topic, 0, 0, topic, 1, 1), (topic, 0, 0, topic, 1, 2)]
        assert [record.original for record in records] == [event("a"), event("b")]
        assert [record.nbytes for record in records] == [len(event("a")), len(event("b"))]

    async def test_poison_is_an_error_with_its_bytes(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic)
        poison = [b"\xc1", b"{", b"x" * 5000, b"", None, b"\x80" * 100]
        broker.produce(topic, [(0, b"key", value, ()) for value in [*poison, event("good")]])
        records = await read_all(options_for(broker, topic))
        assert [record.original for record in records[:-1]] == [value or b"" for value in poison]
        assert all(isinstance(record.error, DecodeError) for record in records[:-1])
        assert ids(records)[-1] == "good"

    async def test_a_forwarded_dead_letter_keeps_its_reason(self, broker: Broker, topic: str) -> None:
        letter = DeadLetter(
            id="e",
            stream="s",
            sequence=3,
            stage="encoder",
            error="EncodeError",
            message="no image",
            origin="images/0@3",
            original=memoryview(b"bytes"),
        )
        broker.create_topic(topic)
        broker.produce(topic, [(0, None, encode(letter), ())])
        (record,) = await read_all(options_for(broker, topic))
        assert isinstance(record.error, ForwardedError)
        assert encode(record.error.letter) == encode(letter)
        assert record.event is None

    async def test_a_vector_of_bare_floats(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic)
        broker.produce(topic, [(0, b"camera", b"\x00\x00\x80\x3f" * 4, ())])
        (record,) = await read_all(options_for(broker, topic, payload="float32"))
        assert isinstance(record.event, FeatureEvent)
        assert record.event.stream == "camera"

    async def test_ten_megabytes_pass_between_small_ones(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic, 3, {"max.message.bytes": str(20 << 20)})
        for partition in range(3):
            fill(broker, topic, [f"before{partition}"], partition)
        big = b"\xff" * (10 << 20)
        arguments = {"bootstrap_servers": broker.servers, "max_request_size": 20 << 20}
        async with started(AIOKafkaProducer(**arguments)) as producer:
            for partition in range(3):
                await producer.send_and_wait(topic, big, partition=partition)
        for partition in range(3):
            fill(broker, topic, [f"after{partition}"], partition)
        records = await read_all(options_for(broker, topic, payload="image"))
        assert len(records) == 9
        assert [record.nbytes for record in records if record.nbytes > 1000] == [10 << 20] * 3

    async def test_transactions_leave_no_trace_but_what_they_committed(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic)
        async with transactional(broker, topic) as producer:
            for number in range(6):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, event(f"t{number}"), partition=0)
                await (producer.abort_transaction() if number % 2 else producer.commit_transaction())
        records = await read_all(options_for(broker, topic))
        assert ids(records) == ["t0", "t2", "t4"]
        # An aborted tail is an end as good as any, from each position.
        for record in records:
            behind = await read_all(options_for(broker, topic), record.position, sequence=record.sequence + 1)
            assert ids(behind) == ids(records)[record.sequence + 1 :]

    async def test_an_open_transaction_is_waited_for_without_alarm(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic)
        options = options_for(broker, topic, follow=True)
        async with transactional(broker, topic) as producer, opened(options) as source:
            answers = unhurried(source, 1.0)
            await producer.begin_transaction()
            await producer.send_and_wait(topic, event("inside"), partition=0)
            fill(broker, topic, ["behind"])
            reading = asyncio.ensure_future(source.read(10))
            # One that took the open transaction for messages to be had would have raised before the third.
            await until(lambda: len(answers) >= 3 or reading.done())
            assert not reading.done()
            # How soon the broker delivers them is not the question here.
            unhurried(source, 60.0)
            await producer.commit_transaction()
            records = [*await reading]
            records += await take(source, 2 - len(records))
        assert ids(records) == ["inside", "behind"]


class TestStart:
    async def test_earliest_is_the_oldest_that_is_kept(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic)
        fill(broker, topic, list("abcd"))
        await delete_before(broker, topic, 2)
        assert ids(await read_all(options_for(broker, topic))) == ["c", "d"]

    async def test_latest_is_made_a_place_at_once(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic, 2)
        fill(broker, topic, list("abc"), 1)
        source = KafkaSource(options_for(broker, topic, start="latest"))
        position = await source.open(None, 0)
        assert position == (topic, 0, 0, topic, 1, 3)
        assert await source.read(10) == ()
        await source.close()
        fill(broker, topic, ["d"], 1)
        assert ids(await read_all(options_for(broker, topic, start="latest"), position)) == ["d"]

    async def test_a_time(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic, 2)
        async with started(AIOKafkaProducer(bootstrap_servers=broker.servers)) as producer:
            for number, second in enumerate((10, 20, 30)):
                await producer.send_and_wait(topic, event(f"e{number}"), partition=0, timestamp_ms=second * 1000)
        start = "1970-01-01T00:00:20Z"
        assert ids(await read_all(options_for(broker, topic, start=start))) == ["e1", "e2"]
        late = await read_all(options_for(broker, topic, start="2200-01-01T00:00:00+01:00"))
        assert late == []

    async def test_an_offset(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic)
        fill(broker, topic, list("abcd"))
        assert ids(await read_all(options_for(broker, topic, start=1))) == ["b", "c", "d"]
        assert await read_all(options_for(broker, topic, start=4)) == []
        with pytest.raises(ConfigError, match=r"start = 5: .*/0 goes from offset 0 to 4"):
            await read_all(options_for(broker, topic, start=5))

    async def test_control_begins_at_the_earliest_whatever_the_start(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic)
        broker.create_topic(f"{topic}-control")
        options = options_for(broker, topic, control=f"{topic}-control", start="latest")
        fill(broker, topic, list("abcd"))
        await send(options, 0, RenameCategory(id="c0", category=1, label="cat"))
        assert ids(await read_all(options)) == ["c0"]


class TestPosition:
    async def test_goes_on_exactly_there(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic, 3)
        for number in range(20):
            fill(broker, topic, [f"e{number}"], number % 3)
        whole = await read_all(options_for(broker, topic))
        assert len(whole) == 20
        for record in whole:
            behind = await read_all(options_for(broker, topic), record.position, sequence=record.sequence + 1)
            assert origins(behind) == origins(whole[record.sequence + 1 :])

    async def test_expired(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic)
        fill(broker, topic, list("abcdef"))
        await delete_before(broker, topic, 4)
        with pytest.raises(SourceError, match=r"offset 2 is needed next, but the oldest that is kept is 4.*retention"):
            await read_all(options_for(broker, topic), (topic, 0, 2))
        assert ids(await read_all(options_for(broker, topic), (topic, 0, 4))) == ["e", "f"]

    async def test_expired_while_open(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic)
        fill(broker, topic, list("abcdef"))
        async with opened(options_for(broker, topic, follow=True)) as source:
            await delete_before(broker, topic, 4)
            # As if it had not been fetched before.
            source._reader.seek(Log(topic, 0), 1)
            with pytest.raises(SourceError, match="offset 1 is needed next, but the oldest that is kept is 4"):
                await source.read(10)

    async def test_recreated(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic)
        fill(broker, topic, list("abcdef"))
        position = (await read_all(options_for(broker, topic)))[-1].position
        broker.delete_topic(topic)
        broker.create_topic(topic)
        fill(broker, topic, list("ab"))
        with pytest.raises(SourceError, match=r"offset 6 is needed next, but the log ends at 2: .*made anew"):
            await read_all(options_for(broker, topic), position)

    async def test_a_log_that_is_not_read_any_more(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic)
        with pytest.raises(StateMismatchError, match="gone/0 was read up to offset 5 before"):
            await read_all(options_for(broker, topic), ("gone", 0, 5, topic, 0, 0))

    async def test_a_new_topic_of_a_pattern_begins_at_its_oldest(self, broker: Broker, topic: str) -> None:
        broker.create_topic(f"{topic}-a")
        fill(broker, f"{topic}-a", ["a0"])
        options = options_for(broker, pattern=f"{topic}-.", topics=None, start="latest", follow=True)
        source = KafkaSource(options)
        position = await source.open(None, 0)
        await source.close()
        broker.create_topic(f"{topic}-b")
        broker.create_topic(f"{topic}-bb")
        fill(broker, f"{topic}-b", ["b0"])
        fill(broker, f"{topic}-a", ["a1"])
        async with opened(options, position) as source:
            assert sorted(ids(await take(source, 2))) == ["a1", "b0"]

    async def test_a_place_of_another_source(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic)
        with pytest.raises(SourceError, match="was not made by this source"):
            await read_all(options_for(broker, topic), (0, "file.jsonl", 17))


class TestSeat:
    async def test_has_its_number_of_every_topic(self, broker: Broker, topic: str) -> None:
        names = [f"{topic}-a", f"{topic}-b"]
        for name in (*names, f"{topic}-control"):
            broker.create_topic(name, 2)
        for partition in range(2):
            for name in names:
                fill(broker, name, [f"{name[-1]}{partition}"], partition)
        options = options_for(broker, *names, control=f"{topic}-control")
        await send(options, 1, RenameCategory(id="c1", category=1, label="cat"))
        assert ids(await read_all(options, seat=Seat(0, 2))) == ["a0", "b0"]
        assert ids(await read_all(options, seat=Seat(1, 2))) == ["c1", "a1", "b1"]

    async def test_another_number_of_partitions(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic, 3)
        with pytest.raises(StateMismatchError, match=r"3 partitions, but there are 2 tasks.*speciate refold"):
            await read_all(options_for(broker, topic), seat=Seat(0, 2))

    async def test_control_needs_a_partition_for_each_task(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic, 2)
        broker.create_topic(f"{topic}-control", 2)
        options = options_for(broker, topic, control=f"{topic}-control")
        with pytest.raises(ConfigError, match="has 2 partitions, but it needs one for each task, which is 1"):
            await read_all(options)

    async def test_no_such_topic(self, broker: Broker, topic: str) -> None:
        with pytest.raises(ConfigError, match=topic):
            await read_all(options_for(broker, topic))
        with pytest.raises(ConfigError, match="fits no topic"):
            await read_all(options_for(broker, topics=None, pattern=topic))
        assert topic not in broker_topics(broker)


def broker_topics(broker: Broker) -> set[str]:
    return {path.name.rpartition("-")[0] for path in (broker.directory / "data").iterdir()}


class TestExpect:
    @pytest.fixture
    def logs(self, broker: Broker, topic: str) -> list[str]:
        """Two topics of one partition with 40 events each."""
        names = [f"{topic}-a", f"{topic}-b"]
        for name in names:
            broker.create_topic(name)
            fill(broker, name, [f"{name[-1]}{number}" for number in range(40)])
        return names

    async def test_yields_them_in_that_order_and_then_goes_on(self, broker: Broker, logs: list[str]) -> None:
        a, b = logs
        order = [f"{b}/0@{number}" for number in range(30)] + [f"{a}/0@{number}" for number in range(3)]
        order += [origin for number in range(3, 20) for origin in (f"{a}/0@{number}", f"{b}/0@{number + 27}")][:20]
        async with opened(options_for(broker, *logs, follow=True)) as source:
            source.expect(order[:10])
            source.expect(order[10:40])
            found = await take(source, 40)
            source.expect(order[40:])
            found += await take(source, len(order) - 40)
            assert origins(found) == order
            found += await take(source, 80 - len(order))
        assert sorted(ids(found)) == sorted([f"{name}{number}" for name in "ab" for number in range(40)])
        for name in "ab":
            mine = [each for each in ids(found) if each.startswith(name)]
            assert mine == [f"{name}{number}" for number in range(40)]
        assert [record.sequence for record in found] == list(range(80))

    @pytest.mark.parametrize("follow", [True, False])
    async def test_the_order_of_one_reading_again(self, broker: Broker, logs: list[str], follow: bool) -> None:
        async with opened(options_for(broker, *logs, follow=True)) as source:
            first = await take(source, 80)
        async with opened(options_for(broker, *logs, follow=follow), first[9].position, sequence=10) as source:
            source.expect(origins(first[10:60]))
            again = await take(source, 50)
        assert origins(again) == origins(first[10:60])
        assert [record.position for record in again] == [record.position for record in first[10:60]]
        assert [record.sequence for record in again] == [record.sequence for record in first[10:60]]

    async def test_overrides_where_a_log_begins(self, broker: Broker, logs: list[str]) -> None:
        a, b = logs
        async with opened(options_for(broker, *logs, start="latest", follow=True)) as source:
            source.expect([f"{a}/0@30", f"{a}/0@31"])
            records = await take(source, 2)
            assert records[-1].position == (a, 0, 32, b, 0, 40)
            # The other log is expected only now, and begins there too.
            source.expect([f"{b}/0@38", f"{a}/0@32"])
            records += await take(source, 2)
            assert ids(records) == ["a30", "a31", "b38", "a32"]
            assert sorted(ids(await take(source, 8))) == sorted(["b39", *(f"a{number}" for number in range(33, 40))])

    async def test_a_gap_in_what_was_answered(self, broker: Broker, logs: list[str]) -> None:
        a, b = logs
        async with opened(options_for(broker, *logs), (a, 0, 3, b, 0, 0)) as source:
            source.expect([f"{a}/0@5"])
            with pytest.raises(StateMismatchError, match="offset 3 was not answered, but 5 behind it was"):
                await source.read(10)

    async def test_what_is_gone(self, broker: Broker, logs: list[str]) -> None:
        await delete_before(broker, logs[0], 10)
        async with opened(options_for(broker, *logs)) as source:
            source.expect([f"{logs[0]}/0@4"])
            with pytest.raises(SourceError, match="offset 4 is needed next, but the oldest that is kept is 10"):
                await source.read(10)

    async def test_what_is_behind_the_end(self, broker: Broker, logs: list[str]) -> None:
        a, b = logs
        for follow in (True, False):
            async with opened(options_for(broker, *logs, follow=follow), (a, 0, 40, b, 0, 0)) as source:
                unhurried(source, 1.0)
                source.expect([f"{a}/0@40"])
                with pytest.raises(SourceError, match=r"offset 40 was answered before .* but the log ends at 40"):
                    await take(source, 1)

    async def test_a_log_of_somebody_else(self, broker: Broker, logs: list[str]) -> None:
        async with opened(options_for(broker, logs[0])) as source:
            with pytest.raises(StateMismatchError, match="is not among the input of this task"):
                source.expect([f"{logs[1]}/0@0"])

    async def test_one_log_does_not_flood_memory_while_another_is_awaited(self, broker: Broker, topic: str) -> None:
        many, few = f"{topic}-many", f"{topic}-few"
        for name in (many, few):
            broker.create_topic(name)
        broker.produce(many, [(0, None, b"x" * 10_000, ()) for _ in range(2000)])
        async with opened(options_for(broker, many, few, follow=True)) as source:
            source.expect([f"{few}/0@0"])
            reading = asyncio.ensure_future(source.read(10))
            await asyncio.sleep(1)
            held = source._reader.held
            assert sum(len(messages) for messages in held.values()) <= 512
            fill(broker, few, ["rare"])
            async with asyncio.timeout(30):
                assert ids(await reading) == ["rare"]


class TestOrder:
    async def test_control_comes_first(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic)
        broker.create_topic(f"{topic}-control")
        options = options_for(broker, topic, control=f"{topic}-control", follow=True)
        fill(broker, topic, [f"e{number}" for number in range(50)])
        for number in range(3):
            await send(options, 0, RenameCategory(id=f"c{number}", category=1, label="cat"))
        async with opened(options) as source:
            found = ids(await take(source, 20))
            assert found == ["c0", "c1", "c2", *(f"e{number}" for number in range(17))]
            origin = await send(options, 0, RenameCategory(id="c3", category=1, label="cat"))
            assert origin == f"{topic}-control/0@3"
            # It comes before what is at hand once it is fetched, and that takes as long as it takes.
            fetched = source._reader._consumer._fetcher._records
            await until(lambda: TopicPartition(f"{topic}-control", 0) in fetched)
            assert ids(await take(source, 2)) == ["c3", "e17"]

    async def test_only_control_events_in_the_control_topic(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic)
        broker.create_topic(f"{topic}-control")
        fill(broker, f"{topic}-control", ["data"])
        (record,) = await read_all(options_for(broker, topic, control=f"{topic}-control"))
        assert isinstance(record.error, DecodeError)

    async def test_logs_take_turns(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic, 3)
        for partition in range(3):
            fill(broker, topic, [f"p{partition}-{number}" for number in range(200)], partition)
        async with opened(options_for(broker, topic, follow=True)) as source:
            await asyncio.sleep(0.5)
            first = ids(await source.read(60))
            for _ in range(30):
                first += ids(await source.read(1))
        assert {name: sum(each.startswith(name) for each in first) for name in ("p0", "p1", "p2")} == {
            "p0": 30,
            "p1": 30,
            "p2": 30,
        }

    async def test_a_full_log_does_not_hold_up_a_rare_one(self, broker: Broker, topic: str) -> None:
        full, rare = f"{topic}-full", f"{topic}-rare"
        for name, count in ((full, 5000), (rare, 5)):
            broker.create_topic(name)
            fill(broker, name, [f"{name[-4:]}{number}" for number in range(count)])
        async with opened(options_for(broker, full, rare, follow=True)) as source:
            await take(source, 1)
            await asyncio.sleep(0.5)
            found = ids([record for _ in range(10) for record in await source.read(100)])
        assert [name for name in found if name.startswith("rare")][-1] == "rare4"


class TestControl:
    async def test_where_it_cannot_be_sent(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic)
        rename = RenameCategory(id="c", category=1, label="cat")
        with pytest.raises(ConfigError, match="control is not set"):
            await send(options_for(broker, topic), 0, rename)
        for number in (1, -1):
            with pytest.raises(ConfigError, match=f"no task {number}: control = .* has 1 partitions"):
                await send(options_for(broker, "other", control=topic), number, rename)

    async def test_says_what_it_is(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic)
        rename = RenameCategory(id="c", category=1, label="cat")
        await send(options_for(broker, "other", control=topic), 0, rename)
        ((message,),) = broker.read_all(topic).values()
        assert message.value == encode(rename)
        assert dict(message.headers)["content-type"] == b"application/msgpack"


class TestEnd:
    async def test_what_comes_later_is_left(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic)
        fill(broker, topic, list("abc"))
        async with opened(options_for(broker, topic)) as source:
            fill(broker, topic, list("def"))
            assert ids(await rest(source)) == ["a", "b", "c"]
            assert source.progress()[:2] == (3, 3)
            assert await source.read(1) == ()

    async def test_an_open_transaction_is_there_if_it_is_committed(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic)
        expected: list[str] = []
        async with transactional(broker, topic) as producer:
            for commit in (True, False):
                await producer.begin_transaction()
                await producer.send_and_wait(topic, event(f"inside {commit}"), partition=0)
                fill(broker, topic, [f"behind {commit}"])
                reading = asyncio.create_task(read_all(options_for(broker, topic)))
                await asyncio.sleep(1.5)
                assert not reading.done()
                await (producer.commit_transaction() if commit else producer.abort_transaction())
                expected += [f"inside {commit}", f"behind {commit}"] if commit else [f"behind {commit}"]
                assert ids(await reading) == expected

    async def test_a_commit_is_there_at_once(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic)
        async with transactional(broker, topic) as producer:
            for number in range(10):
                async with producer.transaction():
                    await producer.send(topic, event(str(number)), partition=0)
                assert len(await read_all(options_for(broker, topic))) == number + 1

    async def test_a_transaction_is_not_waited_for_without_end(
        self, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        broker.create_topic(topic)
        fill(broker, topic, ["before"])
        async with transactional(broker, topic) as producer, producer.transaction():
            await producer.send_and_wait(topic, event("inside"), partition=0)
            fill(broker, topic, ["behind"])
            with monkeypatch.context() as patch:
                patch.setattr("speciate_plugins.sources.kafka.DECIDED_SECONDS", 0.5)
                records = await read_all(options_for(broker, topic))
            assert ids(records) == ["before"]
        # Nothing is lost: it is what the next one begins with, however long it takes until the commit can be seen.
        assert ids(await read_all(options_for(broker, topic), records[-1].position)) == ["inside", "behind"]
        assert caplog.text.count("a transaction is still open") == 1

    @pytest.mark.parametrize("during", [True, False])
    async def test_stop_is_prompt_while_a_transaction_is_open(self, broker: Broker, topic: str, during: bool) -> None:
        broker.create_topic(topic)
        async with transactional(broker, topic) as producer, producer.transaction():
            await producer.send_and_wait(topic, event("inside"), partition=0)
            source = KafkaSource(options_for(broker, topic))
            opening = asyncio.create_task(source.open(None, 0))
            if during:
                await asyncio.sleep(1)
                assert not opening.done()
            source.stop()
            began = time.monotonic()
            await opening
            # Who did not hear it would wait until the broker aborts the transaction, which is after a minute.
            assert time.monotonic() - began < 30
            assert await source.read(10) == ()
            await source.close()

    async def test_nothing_there(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic, 2)
        assert await read_all(options_for(broker, topic)) == []

    async def test_follows_what_comes(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic)
        async with opened(options_for(broker, topic, follow=True)) as source:
            reading = asyncio.ensure_future(source.read(10))
            await until(lambda: source.waited > 0.2 or reading.done())
            assert not reading.done()
            fill(broker, topic, ["late"])
            async with asyncio.timeout(30):
                assert ids(await reading) == ["late"]
            assert source.progress()[:2] == (1, 1)

    async def test_stop_is_prompt(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic)
        async with opened(options_for(broker, topic, follow=True)) as source:
            looks = looks_of(source)
            reading = asyncio.ensure_future(source.read(10))
            await until(lambda: any(looks) or reading.done())
            await check_prompt_stop(source, reading, looks)
            assert await source.read(10) == ()

    async def test_opens_anew_after_close(self, broker: Broker, topic: str) -> None:
        broker.create_topic(topic)
        fill(broker, topic, list("abc"))
        source = KafkaSource(options_for(broker, topic))
        await source.open(None, 0)
        (first,) = await source.read(1)
        await source.open(first.position, 1)
        assert ids(await rest(source)) == ["b", "c"]
        await source.close()
        await source.close()
        assert await source.read(1) == ()


class TestAway:
    async def test_nobody_there(self, topic: str) -> None:
        options = KafkaSourceOptions(servers=["127.0.0.1:1"], topics=[topic])
        source = KafkaSource(options)
        with pytest.raises(AwayError, match=r"127\.0\.0\.1:1"):
            await source.open(None, 0)
        await source.close()

    async def test_a_broker_that_falls_silent(self, mortal: Broker, topic: str) -> None:
        mortal.create_topic(topic)
        fill(mortal, topic, list("ab"))
        async with opened(options_for(mortal, topic, follow=True)) as source:
            found = await take(source, 2)
            # Only now: before, a moment without an answer is none of its business.
            source._reader._watchdog.close()
            source._reader._watchdog = Watchdog(1.0, source._reader._ends)
            mortal.pause()
            began = time.monotonic()
            with pytest.raises(AwayError, match=r"no broker told the ends of the logs within 0\.5 s"):
                await source.read(10)
            await source.close()
            # Who waited for the answer would do so for 40 s.
            assert time.monotonic() - began < 20
        mortal.resume()
        fill(mortal, topic, ["c"])
        async with asyncio.timeout(90), AsyncExitStack() as stack:
            while True:
                # The broker may be left out for a moment; whoever is told so opens anew, and goes on.
                with suppress(AwayError):
                    again = opened(options_for(mortal, topic, follow=True), found[-1].position, 2)
                    source = await stack.enter_async_context(again)
                    break
                await asyncio.sleep(0.05)
            assert ids(await take(source, 1)) == ["c"]

    async def test_a_broker_that_dies_and_comes_back(self, mortal: Broker, topic: str) -> None:
        mortal.create_topic(topic)
        fill(mortal, topic, list("ab"))
        async with opened(options_for(mortal, topic, follow=True)) as source:
            found = await take(source, 2)
            assert ids(found) == ["a", "b"]
            mortal.kill()
            reading = asyncio.ensure_future(source.read(10))
            await asyncio.sleep(1)
            await asyncio.to_thread(mortal.start)
            await asyncio.to_thread(fill, mortal, topic, ["c"])
            async with asyncio.timeout(90):
                try:
                    records = await reading
                except AwayError:
                    # After some restarts aiokafka never delivers again: whoever is told so opens anew, and goes on.
                    await source.open(found[-1].position, 2)
                    records = await source.read(10)
            assert ids(records) == ["c"]

    async def test_stop_is_prompt_while_the_broker_is_away(self, mortal: Broker, topic: str) -> None:
        mortal.create_topic(topic)
        async with opened(options_for(mortal, topic, follow=True)) as source:
            unhurried(source, 2.0)
            looks = looks_of(source)
            mortal.kill()
            reading = asyncio.ensure_future(source.read(10))
            # The question for the ends, which nobody answers, is not waited for either.
            await until(lambda: source._reader._watchdog._asking is not None or reading.done())
            await check_prompt_stop(source, reading, looks)

    async def test_a_consumer_that_sits_still(
        self, broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        broker.create_topic(topic)
        async with opened(options_for(broker, topic, follow=True)) as source:
            unhurried(source, 0.6)
            consumer = source._reader._consumer

            async def nothing(*_: Any, timeout_ms: int, **__: Any) -> dict[Any, Any]:
                await asyncio.sleep(timeout_ms / 1000)
                return {}

            monkeypatch.setattr(consumer, "getmany", nothing)
            fill(broker, topic, ["a"])
            async with asyncio.timeout(30):
                with pytest.raises(AwayError, match=r"gave nothing for 0\.6 s .* more behind offset 0"):
                    await source.read(10)
