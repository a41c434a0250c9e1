"""The sink `kafka` on a real broker: what is committed is there, whole and once, and tells where to go on."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from broker import Broker

from speciate.errors import AwayError, ConfigError, FencedError, OutputError, StateMismatchError
from speciate.stages import Ending, Seat
from speciate_plugins.kafka.options import KafkaSourceOptions
from speciate_plugins.sinks.kafka import KafkaSink, KafkaSinkOptions
from speciate_plugins.sources.kafka import KafkaSource
from speciate_schemas import Answer, Array, Assignment, DeadLetter, FeatureEvent, Rejection, decode, encode


def assignment(sequence: int, *, birth: bool = False, stream: str = "cam") -> Assignment:
    return Assignment(
        id=f"e{sequence}",
        stream=stream,
        sequence=sequence,
        category=sequence % 5,
        label=None,
        birth=birth,
        log_evidence=-1.0 / (sequence + 1),
        margin=None,
        probability=1.0,
        drift=0.5,
        head_version=sequence,
    )


def letter(sequence: int, size: int = 5) -> DeadLetter:
    return DeadLetter(
        id=None,
        stream=None,
        sequence=sequence,
        stage="source",
        error="DecodeError",
        message="no",
        origin="events/0@1",
        original=memoryview(bytes(size)),
    )


def rejection(sequence: int) -> Rejection:
    return Rejection(
        id=None, stream=None, sequence=sequence, stage="source", error="DecodeError", message="no", dead_letter="x"
    )


def options(broker: Broker, topic: str, **more: Any) -> KafkaSinkOptions:
    return msgspec.convert({"servers": [broker.servers], "topic": topic, **more}, KafkaSinkOptions)


@asynccontextmanager
async def closing(*sinks: KafkaSink):
    try:
        yield
    finally:
        for sink in sinks:
            await sink.close()
            await sink.close()


def sequences(broker: Broker, topic: str, partition: int = 0, isolation: str = "read_committed") -> list[int]:
    return [decode(one.value, Answer, "json").sequence for one in broker.read_all(topic, isolation)[partition]]


async def read(sink: KafkaSink, ending: Ending, start: int | None = None) -> list[Answer]:
    pieces = [piece async for piece in sink.read_back(ending.first if start is None else (start,), ending.end)]
    assert all(0 < len(piece) <= 1024 for piece in pieces)
    return [answer for piece in pieces for answer in piece]


async def recovered(broker: Broker, topic: str, seat: Seat | None = None, **more: Any) -> tuple[Ending, list[Answer]]:
    """What a worker that starts anew would find."""
    sink = KafkaSink(options(broker, topic, **more), seat or Seat())
    async with closing(sink):
        ending = await sink.recover()
        return ending, await read(sink, ending)


async def write(sink: KafkaSink, start: int, end: int) -> Any:
    await sink.write([assignment(sequence) for sequence in range(start, end)])
    return await sink.commit(end, ("events", 0, end * 2))


async def test_answers_dead_letters_and_births_appear_together(broker: Broker, topic: str):
    names = [topic, f"{topic}-dead", f"{topic}-births"]
    for name, partitions in zip(names, (3, 3, 2), strict=True):
        broker.create_topic(name, partitions)
    seat = Seat(2, 3)
    answers = KafkaSink(options(broker, topic, births=names[2], format="msgpack"), seat)
    letters = KafkaSink(options(broker, names[1]), seat)
    async with closing(letters, answers):
        assert await answers.recover() == Ending(0, None, (0,), (0,))
        await letters.open(None)
        born = assignment(0, birth=True)
        await letters.write([letter(1)])
        await answers.write([born, rejection(1)])
        await answers.write([assignment(2, stream="")])
        await asyncio.sleep(0.3)
        assert not any(found for name in names for found in broker.read_so_far(name).values())
        assert await answers.commit(3, ("events", 2, 3)) == (3,)
        assert await answers.commit(3, ("events", 2, 3)) == (3,)
        found = broker.read_all(topic)[2]
        assert [one.key for one in found] == [b"cam", None, None]
        assert [decode(one.value, Answer) for one in found] == [born, rejection(1), assignment(2, stream="")]
        assert {one.headers[0] for one in found} == {("content-type", b"application/msgpack")}
        assert [len(one.headers) for one in found] == [1, 1, 2]
        assert [decode(one.value, DeadLetter) for one in broker.read_all(names[1])[2]] == [letter(1)]
        assert [decode(one.value, Answer) for one in broker.read_all(names[2])[0]] == [born]
        assert letters.locate(1) == f"{names[1]}/2#1"
        assert letters.describe() == f"topic {names[1]}/2"
    ending, answered = await recovered(broker, topic, seat)
    assert ending == Ending(3, ("events", 2, 3), (0,), (3,))
    assert answered == [born, rejection(1), assignment(2, stream="")]


async def test_events_are_handed_on_as_messagepack(broker: Broker, topic: str):
    broker.create_topic(topic)
    event = FeatureEvent(id="a", features=Array(dtype="float32", shape=(1,), data=memoryview(bytes(4))), stream="cam")
    sink = KafkaSink(options(broker, topic), Seat())
    async with closing(sink):
        await sink.recover()
        await sink.write([event, letter(1)])
        await sink.commit(2, None)
    found = broker.read_all(topic)[0]
    assert {one.headers[0] for one in found} == {("content-type", b"application/msgpack")}
    assert decode(found[0].value, FeatureEvent) == event
    assert decode(found[1].value, DeadLetter) == letter(1)
    sink = KafkaSink(options(broker, topic), Seat())
    async with closing(sink):
        assert await sink.recover() == Ending(2, None, (0,), (2,))
        with pytest.raises(StateMismatchError, match=f"{topic}/0@0 is not an answer"):
            await read(sink, Ending(2, None, (0,), (2,)))


async def test_recover_shuts_the_former_owner_out(broker: Broker, topic: str):
    broker.create_topic(topic)
    first, second = (KafkaSink(options(broker, topic), Seat()) for _ in range(2))
    async with closing(first, second):
        await first.recover()
        await write(first, 0, 10)
        await first.write([assignment(sequence) for sequence in range(10, 20)])
        ending = await second.recover()
        assert (ending.sequence, ending.source, ending.end) == (10, ("events", 0, 20), (10,))
        with pytest.raises(FencedError):
            await first.commit(20, ("events", 0, 40))
        await write(second, 10, 12)
        with pytest.raises((FencedError, AwayError)):
            await write(first, 10, 20)
    assert sequences(broker, topic) == list(range(12))
    # The same object can start over, as a new writer.
    async with closing(first):
        assert (await first.recover()).sequence == 12


async def test_place_is_found_behind_many_aborted_transactions(broker: Broker, topic: str):
    broker.create_topic(topic)
    sink = KafkaSink(options(broker, topic), Seat())
    async with closing(sink):
        await sink.recover()
        await write(sink, 0, 3)
    for attempt in range(8):
        sink = KafkaSink(options(broker, topic), Seat())
        await sink.recover()
        await sink.write([assignment(sequence) for sequence in range(3, 50)])
        await sink.close()
        assert len(sequences(broker, topic, isolation="read_uncommitted")) > 3 + 40 * attempt
    ending, answered = await recovered(broker, topic)
    assert ending == Ending(3, ("events", 0, 6), (0,), (3,))
    assert [answer.sequence for answer in answered] == [0, 1, 2]


async def test_killed_broker_is_away_and_recover_tells_the_truth(mortal: Broker, topic: str):
    mortal.create_topic(topic)
    done = 0
    for delay in (0.0, 0.01):
        sink = KafkaSink(options(mortal, topic), Seat())
        async with closing(sink):
            ending = await sink.recover()
            assert ending.sequence >= done
            done = (ending.sequence // 10 + 1) * 10
            await write(sink, ending.sequence, done)
            await sink.write([assignment(sequence) for sequence in range(done, done + 10)])
            commit = asyncio.create_task(sink.commit(done + 10, ("events", 0, 2 * (done + 10))))
            await asyncio.sleep(delay)
            mortal.kill()
            # Only now: a broker that has just started may be slow to answer.
            sink._transaction._patience = 3.0
            outcome = (await asyncio.gather(commit, return_exceptions=True))[0]
            assert isinstance(outcome, AwayError | tuple)
            done += 10 * isinstance(outcome, tuple)
        await asyncio.to_thread(mortal.restart)
        ending, answered = await recovered(mortal, topic)
        # Of unknown fate is either all there or not at all, and never what was told to be committed missing.
        assert ending.sequence in ((done,) if isinstance(outcome, tuple) else (done, done + 10))
        assert ending.source == ("events", 0, 2 * ending.sequence)
        assert [answer.sequence for answer in answered] == list(range(ending.sequence))


async def test_read_back_between_positions_and_follow(broker: Broker, topic: str):
    broker.create_topic(topic)
    sink = KafkaSink(options(broker, topic), Seat())
    async with closing(sink):
        await sink.recover()
        middle = await write(sink, 0, 3000)
        end = await write(sink, 3000, 3010)
        assert [one.sequence for one in await read(sink, Ending(0, None, (0,), middle))] == list(range(3000))
        assert [one.sequence for one in await read(sink, Ending(0, None, middle, end))] == list(range(3000, 3010))
        assert await read(sink, Ending(0, None, end, end)) == []
        seen: list[int] = []

        async def watch() -> None:
            async for piece in KafkaSink(options(broker, topic), Seat()).follow(middle):
                seen.extend(answer.sequence for answer in piece)

        watching = asyncio.create_task(watch())
        await _until(lambda: len(seen) == 10)
        await sink.write([assignment(3010)])
        await asyncio.sleep(0.3)
        assert len(seen) == 10
        await sink.commit(3011, None)
        await _until(lambda: len(seen) == 11)
        watching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watching
        assert seen == list(range(3000, 3011))
        with pytest.raises(StateMismatchError, match="was not made by the sink"):
            await read(sink, Ending(0, None, ("a", 1), end))


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_log_that_does_not_reach_back_is_refused(broker: Broker, topic: str):
    broker.create_topic(topic)
    sink = KafkaSink(options(broker, topic), Seat())
    async with closing(sink):
        await sink.recover()
        end = await write(sink, 0, 5)
        await _delete_before(broker, topic, 4)
        ending = await sink.recover()
        assert ending == Ending(5, ("events", 0, 10), (4,), end)
        assert [one.sequence for one in await read(sink, ending)] == [4]
        with pytest.raises(StateMismatchError, match=rf"{topic}, partition 0, holds offsets 4 to .*retention\.ms"):
            await read(sink, ending, 2)
        with pytest.raises(StateMismatchError, match="those from 900 on"):
            await read(sink, Ending(0, None, (900,), (1000,)))


async def _delete_before(broker: Broker, topic: str, offset: int) -> None:
    from aiokafka import TopicPartition
    from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

    admin = AIOKafkaAdminClient(bootstrap_servers=broker.servers)
    await admin.start()
    await admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(offset)})
    await admin.close()


async def test_at_least_once_repeats_and_read_back_does_not(broker: Broker, topic: str):
    broker.create_topic(topic)
    sink = KafkaSink(options(broker, topic, delivery="at-least-once", group=topic), Seat())
    async with closing(sink):
        await sink.recover()
        assert await write(sink, 0, 5) == (5,)
        # Seen before any commit; then the worker dies.
        await sink.write([assignment(sequence) for sequence in range(5, 3000)])
        await _until(lambda: len(sequences(broker, topic)) > 5)
    ending = (await recovered(broker, topic, delivery="at-least-once"))[0]
    assert ending == Ending(5, ("events", 0, 10), (0,), (5,))
    sink = KafkaSink(options(broker, topic, delivery="at-least-once"), Seat())
    async with closing(sink):
        await sink.recover()
        await write(sink, 5, 8)
    ending, answered = await recovered(broker, topic, delivery="at-least-once")
    assert ending.sequence == 8
    assert len(sequences(broker, topic)) > 8
    assert [answer.sequence for answer in answered] == list(range(8))


async def test_at_least_once_the_copy_that_was_committed_counts(broker: Broker, topic: str):
    broker.create_topic(topic)
    first, second = (KafkaSink(options(broker, topic, delivery="at-least-once"), Seat()) for _ in range(2))
    async with closing(first, second):
        await first.recover()
        middle = await write(first, 0, 100)
        # The first worker numbers what it found, is seen, and dies before its commit.
        lost = [assignment(sequence, stream="lost") for sequence in range(100, 105)]
        await asyncio.to_thread(produce, broker, topic, lost)
        seen: list[Answer] = []

        async def watch() -> None:
            async for piece in KafkaSink(options(broker, topic), Seat()).follow(middle):
                seen.extend(piece)

        watching = asyncio.create_task(watch())
        await asyncio.sleep(1)
        assert not seen
        # The second finds other inputs first.
        assert (await second.recover()).sequence == 100
        kept = [assignment(sequence, stream="kept") for sequence in range(100, 106)]
        await second.write(kept)
        await second.commit(106, ("events", 0, 212))
        # Nobody commits this one, so nobody is told of it.
        await asyncio.to_thread(produce, broker, topic, [assignment(106, stream="lost")])
        await _until(lambda: len(seen) >= 6)
        await asyncio.sleep(0.5)
        watching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watching
        assert seen == kept
    ending, answered = await recovered(broker, topic, delivery="at-least-once")
    assert ending.sequence == 106
    assert answered == [assignment(sequence) for sequence in range(100)] + kept


def produce(broker: Broker, topic: str, answers: Sequence[Answer]) -> None:
    """Write answers that no commit covers."""
    headers = [("content-type", b"application/json")]
    broker.produce(topic, [(0, None, encode(answer, "json"), headers) for answer in answers])


async def test_offsets_in_another_cluster_are_left_alone(broker: Broker, topic: str, caplog: pytest.LogCaptureFixture):
    broker.create_topic(topic)
    sink = KafkaSink(options(broker, topic, group=topic), Seat())
    async with closing(sink):
        await sink.recover()
        for start in (0, 1):
            await sink.write([assignment(start)])
            await sink.commit(start + 1, ("no-such-topic", 0, 1))
    assert caplog.text.count("another cluster") == 1


async def test_compacted_topic_is_refused(broker: Broker, topic: str):
    broker.create_topic(topic, 1, {"cleanup.policy": "compact,delete"})
    sink = KafkaSink(options(broker, topic), Seat())
    async with closing(sink):
        with pytest.raises(ConfigError, match=r"cleanup\.policy=compact,delete"):
            await sink.recover()


@pytest.mark.parametrize("missing", ["answers", "births"])
async def test_missing_topic_is_told_with_the_remedy(broker: Broker, topic: str, missing: str):
    broker.create_topic(topic)
    name = f"{topic}-{missing}"
    chosen = options(broker, name) if missing == "answers" else options(broker, topic, births=name)
    sink = KafkaSink(chosen, Seat())
    async with closing(sink):
        for attempt in (sink.recover, lambda: sink.open(None)):
            with pytest.raises(ConfigError, match=f"topic '{name}' does not exist.*speciate topics create CONFIG"):
                await attempt()
    with pytest.raises(ConfigError, match="cannot be emptied"):
        await sink.open(None, fresh=True)


async def test_other_number_of_partitions_is_refused(broker: Broker, topic: str):
    broker.create_topic(topic, 2)
    first = KafkaSink(options(broker, topic), Seat(0, 2))
    async with closing(first):
        await first.recover()
        await write(first, 0, 5)
    sink = KafkaSink(options(broker, topic), Seat(0, 3))
    async with closing(sink):
        with pytest.raises(StateMismatchError, match=r"has 2 partitions, but there are 3 tasks.*speciate refold"):
            await sink.recover()
        with pytest.raises(ConfigError, match="has 2 partitions, but there are 3 tasks"):
            await sink.open(None)
    await _enlarge(broker, topic, 3)
    for number in (0, 2):
        sink = KafkaSink(options(broker, topic), Seat(number, 3))
        async with closing(sink):
            with pytest.raises(StateMismatchError, match=f"answers in {topic}/0 were made by one of 2 tasks.*refold"):
                await sink.recover()


async def _enlarge(broker: Broker, topic: str, count: int) -> None:
    from aiokafka.admin import AIOKafkaAdminClient, NewPartitions

    admin = AIOKafkaAdminClient(bootstrap_servers=broker.servers)
    await admin.start()
    await admin.create_partitions({topic: NewPartitions(count)})
    await admin.close()
    await _until(lambda: len(broker.end_offsets(topic)) == count)


async def test_dead_letter_larger_than_the_topic_takes(broker: Broker, topic: str, caplog: pytest.LogCaptureFixture):
    broker.create_topic(topic)
    broker.create_topic(f"{topic}-dead")
    seat = Seat()
    answers, letters = KafkaSink(options(broker, topic), seat), KafkaSink(options(broker, f"{topic}-dead"), seat)
    async with closing(answers, letters):
        await answers.recover()
        await letters.open(None)
        assert "max.message.bytes" in caplog.text
        await answers.write([rejection(0)])
        with pytest.raises(OutputError, match=rf"{topic}-dead, partition 0, refused .*max\.message\.bytes"):  # noqa: PT012
            await letters.write([letter(0, 2 << 20)])
            await answers.commit(1, None)
    assert (await recovered(broker, topic))[0].sequence == 0


async def test_order_of_servers_does_not_part_dead_letters_from_answers(broker: Broker, topic: str):
    broker.create_topic(topic)
    broker.create_topic(f"{topic}-dead")
    seat, servers = Seat(), [broker.servers, "127.0.0.1:1"]
    answers = KafkaSink(options(broker, topic, servers=servers), seat)
    letters = KafkaSink(options(broker, f"{topic}-dead", servers=servers[::-1]), seat)
    async with closing(letters, answers):
        await answers.recover()
        await letters.open(None)
        await letters.write([letter(0)])
        await answers.write([rejection(0)])
        await answers.commit(1, None)
    assert [decode(one.value, DeadLetter) for one in broker.read_all(f"{topic}-dead")[0]] == [letter(0)]


async def test_dead_letters_on_other_servers_are_refused(broker: Broker, topic: str):
    seat = Seat()
    answers = KafkaSink(options(broker, topic), seat)
    async with closing(answers):
        with pytest.raises(ConfigError) as refused:
            KafkaSink(options(broker, f"{topic}-dead", servers=["elsewhere:9092"]), seat)
    assert f"servers = ['elsewhere:9092'], but another sink of the pipeline has servers = ['{broker.servers}']" in str(
        refused.value
    )
    assert "write the same servers in [sink] and [dead_letters]" in str(refused.value)


async def test_group_of_the_source_is_found_in_whichever_order_its_servers_are(broker: Broker, topic: str):
    broker.create_topic(topic)
    broker.create_topic(f"{topic}-in")
    seat, servers = Seat(), [broker.servers, "127.0.0.1:1"]
    KafkaSource(KafkaSourceOptions(servers=servers, topics=[f"{topic}-in"], group=topic), seat)
    sink = KafkaSink(options(broker, topic, servers=servers[::-1]), seat)
    async with closing(sink):
        await sink.recover()
        await sink.write([assignment(0)])
        await sink.commit(1, (f"{topic}-in", 0, 7))
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.servers, group_id=topic, enable_auto_commit=False)
    async with consumer:
        async with asyncio.timeout(60):
            while await consumer.committed(TopicPartition(f"{topic}-in", 0)) != 7:  # noqa: ASYNC110 - only asking tells
                await asyncio.sleep(0.02)


async def test_strangers_in_the_topic_are_noticed(broker: Broker, topic: str):
    broker.create_topic(topic)
    async with AIOKafkaProducer(bootstrap_servers=broker.servers) as producer:
        await producer.send_and_wait(topic, b"hello", headers=[("speciate-commit", b"what")])
    sink = KafkaSink(options(broker, topic), Seat())
    async with closing(sink):
        with pytest.raises(StateMismatchError, match=f"{topic}/0@0 has a header speciate-commit"):
            await sink.recover()


def test_options_are_checked():
    def made(**more: Sequence[str] | str) -> KafkaSinkOptions:
        return msgspec.convert({"servers": ["a:1"], "topic": "t", **more}, KafkaSinkOptions)

    assert made().delivery == "exactly-once"
    for wrong in ({"topic": "a b"}, {"births": "a/b"}, {"births": "t"}, {"delivery": "maybe"}, {"compression": "rar"}):
        with pytest.raises(msgspec.ValidationError):
            made(**wrong)
