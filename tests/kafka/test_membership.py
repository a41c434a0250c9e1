"""Workers of a group have each task once between them, whoever comes, goes, dies or sleeps, brokers included."""

import asyncio
import json
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions
from broker import Broker, started

from speciate.errors import AwayError, ConfigError, SourceError, SpeciateError, StateMismatchError
from speciate_plugins.kafka import membership
from speciate_plugins.kafka.assignor import Told
from speciate_plugins.kafka.connection import KafkaConnection
from speciate_plugins.kafka.membership import Membership

SESSION_MS = 2000
LONG_SESSION_MS = 6000
"""For tests in which nobody may be missed, even if the machine stands still for a while."""
PATIENCE = 60.0
"""Seconds for what takes a few, for machines that do other things too."""


def make(servers: str, topics: list[str] | str, group: str = "", **options: Any) -> Membership:
    options = {"session_timeout_ms": SESSION_MS, "metadata_max_age_ms": 500, **options}
    group = group or f"group of {topics}"
    return Membership(KafkaConnection(servers=[servers]), group=group, topics=topics, **options)


@asynccontextmanager
async def joined(*arguments: Any, **options: Any) -> AsyncIterator[Membership]:
    member = make(*arguments, **options)
    try:
        await member.join()
        yield member
    finally:
        await member.leave()


async def share(*members: Membership, sizes: list[int] | None = None) -> list[frozenset[int]]:
    """The shares of members as soon as each has one and they have these sizes."""
    shares: dict[Membership, frozenset[int]] = {}

    async def follow(member: Membership) -> None:
        while True:
            shares[member] = await member.changed()
            news.set()

    news = asyncio.Event()
    followers = [asyncio.create_task(follow(member)) for member in members]
    try:
        async with asyncio.timeout(PATIENCE):
            while len(shares) < len(members) or (sizes and sorted(map(len, shares.values())) != sorted(sizes)):
                waiting = asyncio.create_task(news.wait())
                done, _ = await asyncio.wait([waiting, *followers], return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                for each in done - {waiting}:
                    each.result()
                news.clear()
            return [shares[member] for member in members]
    finally:
        for each in followers:
            each.cancel()


async def until(member: Membership, numbers: set[int]) -> float:
    """Wait for this share; how long it took."""
    began = time.monotonic()
    async with asyncio.timeout(PATIENCE):
        while await member.changed() != numbers:
            pass
    return time.monotonic() - began


async def failure(member: Membership) -> SpeciateError:
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                await member.changed()
    except SpeciateError as error:
        return error


async def administer(broker: Broker, method: str, *arguments: Any) -> Any:
    async with started(AIOKafkaAdminClient(bootstrap_servers=broker.servers)) as admin:
        return await getattr(admin, method)(*arguments)


async def test_workers_come_and_go_and_keep_what_they_can(broker: Broker, topic: str):
    broker.create_topic(topic, 5)
    broker.produce(topic, [(0, None, b"not read", [])])
    long: dict[str, Any] = {"session_timeout_ms": LONG_SESSION_MS}
    first = make(broker.servers, [topic], **long)
    assert await first.join() == 5
    await until(first, {0, 1, 2, 3, 4})
    second = make(broker.servers, [topic], **long)
    assert await second.join() == 5
    before = await share(first, second, sizes=[3, 2])
    assert before[0] | before[1] == {0, 1, 2, 3, 4}
    third = make(broker.servers, [topic], **long)
    third.keep_ready(before[0] - {min(before[0])})
    await third.join()
    after = await share(first, second, third, sizes=[2, 2, 1])
    assert after[0] < before[0]
    assert after[1] == before[1]
    assert after[2] < before[0]  # one of those it had at hand
    await third.leave()
    last = await share(first, second, sizes=[3, 2])
    assert last[0] >= after[0]
    assert last[1] >= after[1]
    # A worker that says goodbye is not waited for.
    await asyncio.gather(first.leave(), first.leave())
    (described,) = await administer(broker, "describe_consumer_groups", [f"group of {[topic]}"])
    assert len(described.to_object()["groups"][0]["members"]) == 1
    await until(second, {0, 1, 2, 3, 4})
    await second.leave()
    await second.leave()


async def test_who_has_the_state_at_hand_gets_the_task_back(broker: Broker, topic: str):
    broker.create_topic(topic, 4)
    async with joined(broker.servers, [topic]) as first, joined(broker.servers, [topic]) as second:
        theirs, ours = await share(first, second, sizes=[2, 2])
        second.keep_ready(ours)
        # What it had is free for a moment, and somebody else comes in that moment.
        await second.leave()
        await until(first, {0, 1, 2, 3})
        async with joined(broker.servers, [topic]) as third:
            await share(first, third, sizes=[2, 2])
        first.keep_ready(theirs)
        await until(first, {0, 1, 2, 3})
        await second.join()
        assert await share(first, second, sizes=[2, 2]) == [theirs, ours]


async def test_a_member_that_rejoins_is_a_new_one(broker: Broker, topic: str):
    broker.create_topic(topic, 4)
    async with joined(broker.servers, [topic]) as first, joined(broker.servers, [topic]) as second:
        await share(first, second, sizes=[2, 2])
        await second.rejoin()
        shares = await share(first, second, sizes=[2, 2])
        assert shares[0] | shares[1] == {0, 1, 2, 3}


async def test_together_one_worker_has_it_all(broker: Broker, topic: str):
    broker.create_topic(f"{topic}-a", 2)
    broker.create_topic(f"{topic}-b", 3)
    names = [f"{topic}-a", f"{topic}-b"]
    long: dict[str, Any] = {"session_timeout_ms": LONG_SESSION_MS}
    async with joined(broker.servers, names, together=True, **long) as first:
        await until(first, {0})
        second = make(broker.servers, names, together=True, **long)
        assert await second.join() == 1
        assert await share(first, second) == [{0}, set()]
        await first.leave()
        await until(second, {0})
        described = await administer(broker, "describe_consumer_groups", [f"group of {names}"])
        (member,) = described[0].to_object()["groups"][0]["members"]
        assert names[1].encode() in member["member_assignment"]
        await second.leave()


async def test_nothing_is_read_and_nothing_committed(broker: Broker, topic: str):
    broker.create_topic(topic, 2)
    await asyncio.to_thread(broker.produce, topic, [(0, None, b"a", []), (1, None, b"b", [])])
    async with joined(broker.servers, [topic], session_timeout_ms=LONG_SESSION_MS) as member:
        await until(member, {0, 1})
        consumer = member._place._consumer  # type: ignore[union-attr]
        sent: list[str] = []
        send = consumer._client.send

        async def spy(node: int, request: Any, **options: Any) -> Any:
            sent.append(type(request).__name__)
            return await send(node, request, **options)

        consumer._client.send = spy
        async with asyncio.timeout(PATIENCE):
            while len(sent) < 2:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.1)
        assert set(sent) == {"HeartbeatRequest"}
    assert await administer(broker, "list_consumer_group_offsets", f"group of {[topic]}") == {}


async def test_a_topic_that_is_not_there(broker: Broker, topic: str):
    with pytest.raises(ConfigError, match=rf"topics = .*there is no topic '{topic}'.*create it"):
        await make(broker.servers, [topic]).join()
    with pytest.raises(ConfigError, match="fits no topic"):
        await make(broker.servers, f"{topic}.*").join()


async def test_topics_that_cannot_be_shared(broker: Broker, topic: str):
    broker.create_topic(f"{topic}-a", 2)
    broker.create_topic(f"{topic}-b", 3)
    with pytest.raises(ConfigError, match=rf"'{topic}-a' has 2, '{topic}-b' has 3"):
        await make(broker.servers, [f"{topic}-a", f"{topic}-b"]).join()


async def test_nobody_answers():
    member = make("127.0.0.1:1", ["events"])
    with pytest.raises(AwayError):
        await member.join()
    await member.leave()


async def test_a_session_that_the_broker_refuses(broker: Broker, topic: str):
    broker.create_topic(topic)
    async with joined(broker.servers, [topic], session_timeout_ms=100) as member:
        error = await failure(member)
        assert isinstance(error, ConfigError)
        assert "session" in str(error)
        assert await failure(member) is error


async def test_workers_that_share_and_workers_that_do_not_cannot_meet(broker: Broker, topic: str):
    broker.create_topic(topic, 2)
    async with joined(broker.servers, [topic]) as first:
        # Only now: joining goes on in the background, and the second could be the first otherwise.
        await until(first, {0, 1})
        async with joined(broker.servers, [topic], together=True) as second:
            assert isinstance(await failure(second), ConfigError)


async def test_workers_of_one_group_must_read_the_same(broker: Broker, topic: str):
    for name in "ab":
        broker.create_topic(f"{topic}-{name}", 2)
    async with joined(broker.servers, [f"{topic}-a"], topic) as first:
        await until(first, {0, 1})
        async with joined(broker.servers, [f"{topic}-b"], topic) as second:
            error = await failure(second)
            assert isinstance(error, ConfigError)
            assert f"{topic}-a" in str(error)
        await until(first, {0, 1})


async def test_a_topic_that_grows_or_goes_ends_it_for_everybody(broker: Broker, topic: str):
    for name in "ab":
        broker.create_topic(f"{topic}-{name}", 2)
    grown = [joined(broker.servers, [f"{topic}-a"]) for _ in range(2)]
    async with grown[0] as first, grown[1] as second, joined(broker.servers, [f"{topic}-b"]) as third:
        await share(first, second, sizes=[1, 1])
        await until(third, {0, 1})
        await administer(broker, "create_partitions", {f"{topic}-a": NewPartitions(3)})
        await administer(broker, "delete_topics", [f"{topic}-b"])
        for error in await asyncio.gather(failure(first), failure(second)):
            assert isinstance(error, StateMismatchError)
            assert f"'{topic}-a' had 2 partitions and now has 3" in str(error)
            assert "stop all workers and run `speciate refold CONFIG`" in str(error)
        error = await failure(third)
        assert isinstance(error, SourceError)
        assert f"'{topic}-b' was deleted" in str(error)


async def test_a_new_topic_of_a_pattern_is_fine_if_it_has_as_many_partitions(broker: Broker, topic: str):
    broker.create_topic(f"{topic}-a", 2)
    broker.create_topic(f"{topic}-a-longer", 5)  # matches only with its beginning
    async with joined(broker.servers, f"(?i){topic.upper()}-.") as member:
        await until(member, {0, 1})
        await asyncio.to_thread(broker.create_topic, f"{topic}-b", 2)
        await until(member, {0, 1})
        await asyncio.to_thread(broker.create_topic, f"{topic}-c", 3)
        error = await failure(member)
        assert isinstance(error, ConfigError)
        assert f"'{topic}-c' has 3" in str(error)


async def test_a_heartbeat_that_goes_nowhere_is_noticed(broker: Broker, topic: str):
    broker.create_topic(topic, 2)
    async with joined(broker.servers, [topic]) as member:
        await until(member, {0, 1})

        async def stuck() -> bool:
            return True

        member._place._consumer._coordinator._do_heartbeat = stuck  # type: ignore[union-attr]
        assert await until(member, {0, 1}) > SESSION_MS / 1000


async def test_a_consumer_that_will_not_stop_does_not_hold_anybody_up(broker: Broker, topic: str):
    broker.create_topic(topic, 2)
    async with joined(broker.servers, [topic]) as member:
        await until(member, {0, 1})
        coordinator = member._place._consumer._coordinator  # type: ignore[union-attr]

        async def hang() -> None:
            await asyncio.sleep(3600)

        coordinator.close = hang
        await member.rejoin()
        await until(member, {0, 1})
    left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert left == []


async def test_a_leader_that_sees_too_little_is_not_believed(monkeypatch: pytest.MonkeyPatch):
    member = make("127.0.0.1:1", ["x"])
    member._counts = {"x": 2}
    seen = iter([AwayError("starting"), {}, {"x": 1}, {"x": 2}])

    async def count(_: object) -> dict[str, int]:
        if isinstance(found := next(seen), Exception):
            raise found
        return found

    async def wait(_: object) -> dict[str, int]:
        await asyncio.sleep(3600)
        raise AssertionError

    heard = Told(numbers=frozenset({1}), round=1, asked="topics = ['x']", counts={"x": 0})
    member._hear(heard)
    monkeypatch.setattr(membership, "OPINION_SECONDS", 0.01)
    monkeypatch.setattr(membership, "count_partitions", wait)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(member.changed(), 0.1)
    # What nobody waited for is not lost.
    monkeypatch.setattr(membership, "count_partitions", count)
    assert await member.changed() == {1}


@asynccontextmanager
async def process(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker in a process of its own, for signals."""
    script = str(Path(__file__).with_name("member.py"))
    child = await asyncio.create_subprocess_exec(sys.executable, script, *arguments, stdout=asyncio.subprocess.PIPE)
    try:
        yield child
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


async def halves(member: Membership, child: asyncio.subprocess.Process) -> None:
    """Wait until they have two tasks each and all between them; on the way they may be told of different rounds."""
    shares: dict[object, set[int]] = {member: set(), child: set()}

    async def follow_member() -> None:
        while True:
            shares[member] = set(await member.changed())

    async def follow_child() -> None:
        while line := await child.stdout.readline():  # type: ignore[union-attr]
            shares[child] = set(json.loads(line))
        raise AssertionError("the worker has ended")

    followers = [asyncio.create_task(follow()) for follow in (follow_member, follow_child)]
    try:
        async with asyncio.timeout(PATIENCE):
            while {*map(len, shares.values())} != {2} or set.union(*shares.values()) != {0, 1, 2, 3}:
                done, _ = await asyncio.wait(followers, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
                for each in done:
                    each.result()
    finally:
        for each in followers:
            each.cancel()


async def test_a_worker_that_sleeps_or_dies_is_missed_after_the_session(broker: Broker, topic: str):
    broker.create_topic(topic, 4)
    group = f"group of {[topic]}"
    async with (
        joined(broker.servers, [topic]) as member,
        process(broker.servers, group, topic, str(SESSION_MS)) as child,
    ):
        await halves(member, child)
        child.send_signal(signal.SIGSTOP)
        await until(member, {0, 1, 2, 3})
        child.send_signal(signal.SIGCONT)
        await halves(member, child)
        child.kill()
        await until(member, {0, 1, 2, 3})


async def test_a_broker_that_dies_or_sleeps_ends_no_membership(mortal: Broker, topic: str):
    await asyncio.to_thread(mortal.create_topic, topic, 4)
    async with joined(mortal.servers, [topic]) as first, joined(mortal.servers, [topic]) as second:
        await share(first, second, sizes=[2, 2])
        await asyncio.to_thread(mortal.kill)
        await asyncio.sleep(SESSION_MS / 1000)
        await asyncio.to_thread(mortal.start)
        async with joined(mortal.servers, [topic]) as third:
            await share(first, second, third, sizes=[2, 1, 1])
        await share(first, second, sizes=[2, 2])
        mortal.pause()
        await asyncio.sleep(2 * SESSION_MS / 1000)
        mortal.resume()
        await second.leave()
        await until(first, {0, 1, 2, 3})
        # While nobody answers, going away and coming back hold nobody up either.
        await asyncio.to_thread(mortal.kill)
        async with asyncio.timeout(PATIENCE):
            await first.rejoin()
            await first.leave()
