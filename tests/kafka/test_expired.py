"""A partition that was quiet until all its outputs had expired: nothing is lost, and nothing comes twice."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.records_to_delete import RecordsToDelete
from broker import Broker, _blocking, started
from pipelines import DECIDE, SINK, SOURCE, Bench, events, messages, speciate, write_support

STATE_FAULT = 3


@pytest.fixture
def bench(broker: Broker, tmp_path: Path, topic: str) -> Iterator[Bench]:
    write_support(tmp_path)
    with Bench(broker, tmp_path, topic) as made:
        yield made


def expire(bench: Bench, name: str) -> None:
    """As if the time to keep what is in a topic were over for all of it."""

    async def delete() -> None:
        async with started(AIOKafkaAdminClient(bootstrap_servers=bench.broker.servers)) as admin:
            await admin.delete_records({TopicPartition(f"{bench.topic}-{name}", 0): RecordsToDelete(-1)})

    _blocking(delete())


def ids(bench: Bench, name: str) -> int:
    return sum(len(records) for records in bench.broker.read_all(f"{bench.topic}-{name}").values())


def test_a_state_that_holds_all_that_was_answered_is_gone_on_with(bench: Bench):
    config = bench.make(DECIDE)
    bench.feed(messages(events(1, 30)))
    first = bench.start(config)
    bench.until_answered(30)
    assert first.stop() == 0, first.tail()
    expire(bench, "answers")
    bench.feed(messages(events(2, 12, first=30)))
    second = bench.start(config)
    answers = bench.until_answered(12)
    assert second.stop() == 0, second.tail()
    assert [answer.sequence for answer in answers[0]] == list(range(30, 42))


def test_what_hands_on_goes_on_where_its_group_remembers_to_have_been(bench: Bench):
    config = bench.make(SOURCE + SINK)
    bench.feed(messages(events(1, 30)))
    first = bench.start(config)
    bench.until(lambda: ids(bench, "answers") == 30, "not all is handed on")
    assert first.stop() == 0, first.tail()
    expire(bench, "answers")
    bench.feed(messages(events(2, 12, first=30)))
    second = bench.start(config)
    bench.until(lambda: ids(bench, "answers") >= 12, "nothing is handed on any more")
    assert second.stop() == 0, second.tail()
    assert ids(bench, "answers") == 12


def test_without_a_state_nobody_knows_what_was_answered(bench: Bench):
    config = bench.make(DECIDE + '\n[run]\nuniverse = "partition"\n')
    bench.feed(messages(events(1, 30)))
    first = bench.start(config)
    bench.until_answered(30)
    assert first.stop() == 0, first.tail()
    expire(bench, "answers")
    bench.broker.create_topic(f"{bench.topic}-other-state", 1)
    done = speciate("run", config, "-s", f"store.topic={bench.topic}-other-state", code=STATE_FAULT)
    assert "has expired, so what of the input was answered is not known" in done.stderr
    assert ids(bench, "answers") == 0
